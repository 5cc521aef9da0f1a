"""What SIGHUP makes anew: each part by its name. A part that fails keeps what it had."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

from gateway.model.event import Reloaded, ReloadFailed
from gateway.ports.observer import Observer

Reload = Callable[[], Awaitable[str | None]]
"""Makes a part anew, and tells what changed, if it can."""


class Reloads:
    """The parts that can be reloaded, in the order in which they were added."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._parts: dict[str, Reload] = {}
        self._wanted = asyncio.Event()
        self._one = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    def add(self, part: str, reload: Reload) -> None:
        """Reload this part too; what `reload` raises is told and changes nothing else."""
        self._parts[part] = reload

    async def run(self) -> frozenset[str]:
        """Reload every part now, one run at a time. Returns the parts that failed."""
        failed = set()
        async with self._one:
            for part, reload in self._parts.items():
                try:
                    detail = await reload()
                except Exception as error:
                    failed.add(part)
                    self._observer.emit(ReloadFailed(part, str(error)))
                else:
                    self._observer.emit(Reloaded(part, detail))
        return frozenset(failed)

    def meanwhile(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this too, until `on_hangup` is left."""
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    @contextlib.contextmanager
    def on_hangup(self) -> Iterator[None]:
        """Reload at each SIGHUP, one after the other; two that come together are one."""
        loop = asyncio.get_running_loop()
        self.meanwhile(self._serve())
        loop.add_signal_handler(signal.SIGHUP, self._wanted.set)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
            for task in self._tasks:
                task.cancel()

    async def _serve(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self.run()
