"""The lock file of a scope: writes share it, every raise takes it alone (protocol, rule 11).

Truth is what the file holds while it is locked; nothing is remembered between two operations.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.machines.witness import carried
from gateway.model.mark import Mark, Scope
from gateway.model.problem import Code, Problem
from gateway.ports.store import BehindRegistry, CarryFailed, FencedByStore
from gateway.stores.files.durable import fan_out, make_directories, sync_directory
from gateway.stores.files.faults import Refusal, busy
from gateway.stores.files.flocks import FileLock, acquire
from gateway.stores.files.marks import (
    SLOT_BYTES,
    SLOTS,
    DamagedMark,
    StoredMark,
    first_text,
    read_slots,
    slot_offset,
    slot_text,
)
from gateway.stores.files.threads import DiskThreads


def standing(stored: Mark | None, ours: Mark) -> FencedByStore | BehindRegistry | None:
    """What a write under `ours` is told by the stored mark; None lets it go on."""
    if stored is None or stored.rank < ours.rank:
        return BehindRegistry(stored)
    if stored.rank > ours.rank:
        return FencedByStore(stored)
    return None


class ScopeLocks:
    """All lock files of one store, two directory levels deep by the hash of the scope."""

    def __init__(self, directory: Path, threads: DiskThreads, timeout_s: float) -> None:
        self._directory = directory
        self._threads = threads
        self._timeout_s = timeout_s

    def path(self, scope: Scope) -> Path:
        """The lock file of a scope."""
        return self._directory / fan_out(hashlib.sha256(scope.encode()).hexdigest())

    @asynccontextmanager
    async def shared(self, scope: Scope) -> AsyncIterator[Mark | None]:
        """Hold the lock with other writes; gives the mark as it stands until the end.

        Without a lock file there is no mark, and the write that sees this must not go on.
        Raises `Refusal` (busy) when a raise holds the lock for too long, OSError.
        """
        lock = FileLock(self.path(scope), exclusive=False, create=False)
        try:
            try:
                free = await acquire(lock, self._threads, self._timeout_s)
            except FileNotFoundError:
                yield None
                return
            if not free:
                raise Refusal(busy(f"scope {scope} is being raised; try again"))
            yield (await self._threads.run(self._stored, lock, scope)).mark
        finally:
            lock.release()

    async def peek(self, scope: Scope, ours: Mark) -> FencedByStore | BehindRegistry | None:
        """Tell before a body is read how its write would end as things stand; None: go on."""
        lock = FileLock(self.path(scope), exclusive=False, create=False)
        try:
            if not await self._threads.run(lock.try_acquire):
                return None
            return standing((await self._threads.run(self._stored, lock, scope)).mark, ours)
        except FileNotFoundError:
            return BehindRegistry(None)
        finally:
            lock.release()

    async def carry(self, scope: Scope, mark: Mark) -> Mark | None:
        """Write the mark once all older writes have ended; gives the stored mark if it is above.

        A mark that stands already was written by somebody who held the lock alone, so that nothing
        older can be under way. Raises `CarryFailed`.
        """
        try:
            stored = await self._standing_mark(scope)
            if carried(stored, mark) != stored:
                stored = await self._raise(scope, mark)
        except OSError as error:
            raise CarryFailed(
                f"the lock file of scope {scope} cannot be written ({error.strerror}): look at "
                f"the disk and at the permissions of {self._directory}"
            ) from error
        except Refusal as refusal:
            raise CarryFailed(refusal.problem.message) from refusal
        return stored if stored is not None and stored.rank > mark.rank else None

    async def _standing_mark(self, scope: Scope) -> Mark | None:
        """The mark, when no raise is under way; None when it must be looked at alone."""
        lock = FileLock(self.path(scope), exclusive=False, create=False)
        try:
            if await self._threads.run(lock.try_acquire):
                return (await self._threads.run(self._stored, lock, scope)).mark
        except FileNotFoundError:
            await self._threads.run(make_directories, self.path(scope).parent)
        finally:
            lock.release()
        return None

    async def _raise(self, scope: Scope, mark: Mark) -> Mark | None:
        lock = FileLock(self.path(scope), exclusive=True)
        try:
            if not await acquire(lock, self._threads, self._timeout_s):
                raise CarryFailed(
                    f"a write to scope {scope} held its file lock for {self._timeout_s:g} s; "
                    "is the process that holds it stopped?"
                )
            return await self._threads.run(self._store_mark, lock, scope, mark)
        finally:
            lock.release()

    def _store_mark(self, lock: FileLock, scope: Scope, mark: Mark) -> Mark | None:
        stored = self._stored(lock, scope)
        after = carried(stored.mark, mark)
        if after == stored.mark:
            return after
        number = stored.number + 1
        new = number == 1
        text = first_text(after, scope) if new else slot_text(after, number)
        os.pwrite(lock.fd, text, slot_offset(number))
        os.fsync(lock.fd)
        if new:
            sync_directory(self.path(scope).parent)
        return after

    def _stored(self, lock: FileLock, scope: Scope) -> StoredMark:
        try:
            return read_slots(os.pread(lock.fd, SLOT_BYTES * SLOTS, 0))
        except DamagedMark as damaged:
            raise Refusal(
                Problem(
                    Code.UPSTREAM_FAILED,
                    f"the lock file of scope {scope} is damaged: its mark cannot be read",
                    native="InternalError",
                    hint="remove the lock file only after the registry shows the scope's mark; "
                    f"its name is {self.path(scope).name}",
                )
            ) from damaged
