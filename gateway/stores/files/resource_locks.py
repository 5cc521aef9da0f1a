"""One writer at a time per resource: compare a version and replace it in one step.

Resources share a fixed number of lock files by their hash: a collision costs a wait, and a million
resources cost no file. Order of locks: resource, then scope; a raise takes the scope's alone.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from gateway.stores.files.faults import Refusal, busy
from gateway.stores.files.flocks import FileLock, acquire
from gateway.stores.files.threads import DiskThreads

_DIGITS: Final = 3
_REMEMBERED: Final = 16
_NOTES_BYTES: Final = 8192


class Removals:
    """The last removals under one lock file, so that the retry of an applied DELETE is recognised.

    Bounded, and not synced: a forgotten one makes the retry see what is there, which is nothing.
    """

    def __init__(self, lock: FileLock) -> None:
        self._lock = lock

    def _read(self) -> list[list[str]]:
        try:
            notes = json.loads(os.pread(self._lock.fd, _NOTES_BYTES, 0) or b"[]")
        except ValueError:
            return []
        return notes if isinstance(notes, list) else []

    def write_id(self, resource: str) -> str | None:
        """The write that removed the resource last, if it is remembered."""
        return next((note[1] for note in reversed(self._read()) if note[0] == resource), None)

    def note(self, resource: str, write_id: str) -> None:
        """Remember a removal."""
        others = [note for note in self._read() if note[0] != resource]
        text = json.dumps([*others[-_REMEMBERED + 1 :], [resource, write_id]]).encode()
        os.ftruncate(self._lock.fd, 0)
        os.pwrite(self._lock.fd, text, 0)


class ResourceLocks:
    """The lock files of one store's resources, named by the first digits of the resource's hash."""

    def __init__(self, directory: Path, threads: DiskThreads, timeout_s: float) -> None:
        self._directory = directory
        self._threads = threads
        self._timeout_s = timeout_s
        self._queues: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def held(self, resource: str) -> AsyncIterator[Removals]:
        """Hold the lock of a resource, given by its hex digest. Raises `Refusal` (busy), OSError.

        Writers of this process queue in order; only the first of them meets other processes.
        """
        stripe = resource[:_DIGITS]
        queue = self._queues.setdefault(stripe, asyncio.Lock())
        lock = FileLock(self._directory / stripe, exclusive=True)
        too_long = Refusal(busy("other writes to this resource take too long; try again"))
        try:
            async with asyncio.timeout(self._timeout_s):
                await queue.acquire()
        except TimeoutError:
            raise too_long from None
        try:
            if not await acquire(lock, self._threads, self._timeout_s):
                raise too_long
            yield Removals(lock)
        finally:
            lock.release()
            queue.release()
