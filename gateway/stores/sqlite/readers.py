"""Readers: a few connections that cannot write, each used by one thread at a time.

In WAL a reader neither waits for the writer nor holds it up, and one statement sees one snapshot
(SQLite, "Isolation In SQLite").
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

MAX_READERS: Final = 4
T = TypeVar("T")


class Readers:
    """Runs functions on read-only connections, opened when first needed."""

    def __init__(
        self,
        name: str,
        open_connection: Callable[[], sqlite3.Connection],
        statement_timeout_ms: int,
    ) -> None:
        self._open_connection = open_connection
        self._timeout_s = statement_timeout_ms / 1000
        self._threads = ThreadPoolExecutor(MAX_READERS, thread_name_prefix=f"{name}-reader")
        self._free = asyncio.Semaphore(MAX_READERS)
        self._idle: list[sqlite3.Connection] = []

    async def call(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function on one connection; a statement that runs too long is interrupted."""
        async with self._free:
            loop = asyncio.get_running_loop()
            if self._idle:
                connection = self._idle.pop()
            else:
                connection = await loop.run_in_executor(self._threads, self._open_connection)
            done = loop.run_in_executor(self._threads, function, connection)
            timer = loop.call_later(self._timeout_s, connection.interrupt)
            try:
                # Shielded: the thread goes on using the connection when the caller is cancelled.
                return await asyncio.shield(done)
            except asyncio.CancelledError:
                connection.interrupt()
                await asyncio.wait([done])
                raise
            finally:
                timer.cancel()
                self._idle.append(connection)

    async def aclose(self) -> None:
        """Wait for the threads and close the connections."""
        for _ in range(MAX_READERS):
            await self._free.acquire()
        while self._idle:
            self._idle.pop().close()
        self._threads.shutdown(wait=False)
