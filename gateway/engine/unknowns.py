"""The writes whose answer was lost: asked about until it is known how they ended.

Source: wire contract, "Three answers, never two". A settled one closes its ticket, is told to
whoever waits for it, and is counted. Bounded in number and time; what is given up stays unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.model.event import Faulted, OutcomeSettled
from gateway.model.operation import Operation
from gateway.model.outcome import Applied, Refused
from gateway.ports.clock import Clock
from gateway.ports.observer import Observer
from gateway.ports.store import (
    BehindRegistry,
    FencedByStore,
    FindsOut,
    MaybeWritten,
    NotWritten,
    Store,
    WriteFence,
    WriteResult,
    Written,
)

_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 10.0
_ASK_S: Final = 10.0

Ending = Applied | Refused
"""What an unknown outcome can turn out to be."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A write that was sent and not answered. `close` ends its ticket."""

    operation: Operation
    store: Store
    fence: WriteFence
    since_s: float
    close: Callable[[], None]


class Unknowns:
    """Finds out, in the background and when asked, how lost writes ended.

    `on_settled` is told each end once, before anybody else hears of it.
    """

    def __init__(
        self,
        clock: Clock,
        observer: Observer,
        on_settled: Callable[[Lost, Ending], None],
        *,
        keep_s: float = 600.0,
        most: int = 256,
    ) -> None:
        self._clock = clock
        self._observer = observer
        self._on_settled = on_settled
        self._keep_s = keep_s
        self._most = most
        self._lost: dict[str, Lost] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def watch(
        self, operation: Operation, store: Store, fence: WriteFence, close: Callable[[], None]
    ) -> None:
        """Take up a write whose answer was lost just now, if its store can be asked at all."""
        if not isinstance(store, FindsOut) or len(self._lost) >= self._most:
            return
        lost = Lost(operation, store, fence, self._clock.boottime_s(), close)
        self._lost[fence.write_id] = lost
        task = asyncio.get_running_loop().create_task(self._watch(lost))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def ask(self, write_id: str) -> Ending | None:
        """Ask once, now. None: still not known, or nobody can tell."""
        lost = self._lost.get(write_id)
        return None if lost is None else await self._ask(lost)

    async def aclose(self) -> None:
        """Stop asking."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self, lost: Lost) -> None:
        pause_s, write_id = _FIRST_PAUSE_S, lost.fence.write_id
        try:
            while self._age_s(lost) < self._keep_s:
                await self._clock.sleep_s(pause_s)
                if write_id not in self._lost or await self._ask(lost) is not None:
                    return
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        finally:
            self._lost.pop(write_id, None)

    async def _ask(self, lost: Lost) -> Ending | None:
        store = lost.store
        assert isinstance(store, FindsOut)
        try:
            async with asyncio.timeout(_ASK_S):
                result = await store.find_out(lost.operation, lost.fence, self._age_s(lost))
        except TimeoutError:
            return None
        except Exception as error:
            self._observer.emit(Faulted(f"finding out a write to {store.name}", repr(error)))
            return None
        ending = ending_of(result)
        if ending is not None:
            self._settle(lost, ending)
        return ending

    def _settle(self, lost: Lost, ending: Ending) -> None:
        if self._lost.pop(lost.fence.write_id, None) is None:
            return  # two asked at once
        lost.close()
        self._on_settled(lost, ending)
        outcome = "applied" if isinstance(ending, Applied) else "refused"
        self._observer.emit(
            OutcomeSettled(
                lost.store.name,
                lost.fence.scope,
                lost.operation.request_id,
                outcome,
                self._age_s(lost),
            )
        )

    def _age_s(self, lost: Lost) -> float:
        return self._clock.boottime_s() - lost.since_s


def ending_of(result: WriteResult) -> Ending | None:
    """What a store found out; None when it cannot tell yet."""
    match result:
        case Written(reply):
            return Applied(reply)
        case NotWritten(problem):
            return Refused(problem)
        case MaybeWritten() | FencedByStore() | BehindRegistry():
            return None
