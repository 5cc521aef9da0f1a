"""The threads that touch the disk, so that the event loop does not wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_THREADS: Final = 8


class DiskThreads:
    """A bounded pool. A call that was begun is always waited for, so that what it opened is seen.

    A thread cannot be stopped: a cancelled caller would otherwise lose a lock that the thread is
    just taking. Disk calls are short, so a cancellation is late by one call.
    """

    def __init__(self, store: str) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"files-{store}")

    async def run(
        self, work: Callable[[*Ts], T], *args: *Ts, lost: Callable[[T], None] | None = None
    ) -> T:
        """Run `work(*args)` in a thread and give back what it gives, or raises.

        `lost` is given the result that a cancelled caller does not get, to close what it holds.
        """
        future = asyncio.get_running_loop().run_in_executor(self._pool, work, *args)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({future})
            if not future.cancelled() and future.exception() is None and lost is not None:
                lost(future.result())
            raise

    def close(self) -> None:
        """End the threads. Call when nothing runs any more."""
        self._pool.shutdown()
