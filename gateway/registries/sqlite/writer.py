"""The one writer of a database: a thread that commits what queues up in one transaction.

One fsync serves every step that waited for it (group commit). Each step stands in a savepoint of
its own, so that one that fails takes no other with it. SQLite, "PRAGMA synchronous": FULL in WAL
mode syncs the log at each commit.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from gateway.ports.registry import RegistryUnavailable

T = TypeVar("T")
Step = Callable[[sqlite3.Connection], Any]
_Job = tuple[Step, "asyncio.Future[Any]", asyncio.AbstractEventLoop]

_MOST_IN_ONE: Final = 256


def connect(path: Path) -> sqlite3.Connection:
    """Open the database for use by one thread at a time, every commit durable."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA busy_timeout = 1000")
    return db


class Writer:
    """Runs steps on the database one after the other, off the event loop."""

    def __init__(self, db: sqlite3.Connection, name: str) -> None:
        self._db = db
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()
        self.commits = 0

    async def run(self, step: Callable[[sqlite3.Connection], T]) -> T:
        """Run a step; its result is answered only after the commit is durable.

        Raises `RegistryUnavailable` when the database fails. A caller that is cancelled does not
        take the step back.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put((step, future, loop))
        return await future

    def close(self) -> None:
        """Finish what is queued, then close the database."""
        self._jobs.put(None)
        self._thread.join()
        self._db.close()

    def _work(self) -> None:
        while (first := self._jobs.get()) is not None:
            jobs, last = self._gather(first)
            self._commit(jobs)
            if last:
                return

    def _gather(self, first: _Job) -> tuple[list[_Job], bool]:
        jobs = [first]
        while len(jobs) < _MOST_IN_ONE:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return jobs, True
            jobs.append(job)
        return jobs, False

    def _commit(self, jobs: list[_Job]) -> None:
        results: list[Any] = []
        try:
            self._db.execute("BEGIN IMMEDIATE")
            results = [self._step(step) for step, _, _ in jobs]
            self._db.execute("COMMIT")
            self.commits += 1
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            results = [_unavailable(error)] * len(jobs)
        for (_, future, loop), result in zip(jobs, results, strict=True):
            loop.call_soon_threadsafe(_answer, future, result)

    def _step(self, step: Step) -> Any:
        self._db.execute("SAVEPOINT step")
        try:
            result = step(self._db)
        except Exception as error:
            self._db.execute("ROLLBACK TO step")
            result = _unavailable(error) if isinstance(error, sqlite3.Error) else error
        self._db.execute("RELEASE step")
        return result


def _unavailable(error: BaseException) -> RegistryUnavailable:
    failed = RegistryUnavailable(f"the registry's database failed: {error}")
    failed.__cause__ = error
    return failed


def _answer(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
