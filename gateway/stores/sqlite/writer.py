"""The writer: one connection on a thread of its own, fed by the event loop.

Gates are asked on the loop, immediately before their jobs are handed to the thread; no await
lies in between (protocol, rule 5). What may still happen while a job waits for the database's
lock is caught by the fence row, which is read in the transaction (rule 11).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, TypeVar

from gateway.ports.store import NotWritten
from gateway.stores.sqlite.batch import Job, JobResult, RunWrite, run_batch
from gateway.stores.sqlite.transaction import WriteJob

MAX_BATCH: Final = 64
T = TypeVar("T")


class WriterClosedError(Exception):
    """The store is closed: no job is taken any more."""


class _Waiting(NamedTuple):
    job: Job
    answer: asyncio.Future[JobResult]


class Writer:
    """Runs jobs in the order they came, as many in one transaction as wait for it.

    `write` carries one mutation out inside the transaction.
    """

    def __init__(
        self,
        name: str,
        open_connection: Callable[[], sqlite3.Connection],
        write: RunWrite,
        statement_timeout_ms: int,
    ) -> None:
        self._open_connection = open_connection
        self._write = write
        self._timeout_s = statement_timeout_ms / 1000
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-writer")
        self._connection: sqlite3.Connection | None = None
        self._waiting: deque[_Waiting] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._closed = False

    async def open(self) -> None:
        """Open the connection, unless it is open. Raises what opening raises."""
        if self._connection is not None:
            return
        loop = asyncio.get_running_loop()
        self._connection = await loop.run_in_executor(self._thread, self._open_connection)

    async def call(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function on the connection, between two batches."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, function, self._opened())

    async def submit(self, job: Job) -> JobResult:
        """Run one job. If the caller is cancelled before its gate was asked, it never runs."""
        if self._closed:
            raise WriterClosedError("the store is closed")
        self._opened()
        answer: asyncio.Future[JobResult] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(job, answer))
        if self._pump is None:
            self._pump = asyncio.create_task(self._run_all())
        result = await answer
        if isinstance(result, Exception):
            raise result
        return result

    async def aclose(self) -> None:
        """Finish what waits, then close the connection and end the thread."""
        self._closed = True
        while self._pump is not None:
            await asyncio.wait([self._pump])
        connection, self._connection = self._connection, None
        if connection is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, connection.close)
        self._thread.shutdown(wait=False)

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise WriterClosedError("the store is not open: probe it first")
        return self._connection

    async def _run_all(self) -> None:
        try:
            while self._waiting:
                batch = self._gated()
                if batch:
                    await self._hand_over(batch)
        finally:
            self._pump = None

    def _gated(self) -> list[_Waiting]:
        """Take the next jobs and ask their gates."""
        batch: list[_Waiting] = []
        while self._waiting and len(batch) < MAX_BATCH:
            waiting = self._waiting.popleft()
            if waiting.answer.done():
                continue
            problem = waiting.job.fence.gate() if isinstance(waiting.job, WriteJob) else None
            if problem is None:
                batch.append(waiting)
            else:
                waiting.answer.set_result(NotWritten(problem))
        return batch

    async def _hand_over(self, batch: list[_Waiting]) -> None:
        loop, connection = asyncio.get_running_loop(), self._opened()
        jobs = [waiting.job for waiting in batch]
        done = loop.run_in_executor(self._thread, run_batch, connection, jobs, self._write)
        timer = loop.call_later(self._timeout_s, connection.interrupt)
        try:
            results = await done
        except Exception as error:
            results = [error for _ in batch]
        finally:
            timer.cancel()
        for waiting, result in zip(batch, results, strict=True):
            if not waiting.answer.done():
                waiting.answer.set_result(result)
