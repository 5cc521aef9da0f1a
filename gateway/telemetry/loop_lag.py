"""How late the event loop runs its timers: the first sign of a blocked or overloaded process."""

from __future__ import annotations

from gateway.model.event import LoopLagged
from gateway.ports.clock import Clock
from gateway.ports.observer import Observer


async def watch_loop(clock: Clock, observer: Observer, every_s: float = 0.5) -> None:
    """Emit `LoopLagged` every `every_s` seconds, until cancelled."""
    while True:
        due_s = clock.boottime_s() + every_s
        await clock.sleep_s(every_s)
        observer.emit(LoopLagged(max(0.0, clock.boottime_s() - due_s)))
