"""What both layouts of the files store share: the mark under the scope's lock, and their life."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

from gateway.engine.disk_room import prove_room
from gateway.engine.refusals import key_reused
from gateway.model.mark import Era, Mark, Scope
from gateway.model.object_action import PutObject
from gateway.model.operation import Operation
from gateway.model.problem import Code, Problem
from gateway.model.reply import ObjectPut
from gateway.model.version import NotLooked
from gateway.model.write_id import Kin, kin, request_name
from gateway.ports.body import Body, BodyError
from gateway.ports.store import (
    Capabilities,
    MaybeWritten,
    NotWritten,
    ProbeFailed,
    ReadRefused,
    ReadResult,
    WriteFence,
    WriteResult,
    Written,
)
from gateway.stores.files.changes import DISK_ERRORS
from gateway.stores.files.durable import make_directories, sync_directory
from gateway.stores.files.faults import Refusal, busy, disk_problem
from gateway.stores.files.flocks import FileLock, acquire
from gateway.stores.files.incoming import Incoming
from gateway.stores.files.record import Record
from gateway.stores.files.scope_locks import ScopeLocks
from gateway.stores.files.threads import DiskThreads

_START_S: Final = 10.0
_GUARANTEE: Final = (
    "exact, whatever crashes: each write checks the mark and takes effect under its scope's file "
    "lock, and every raise takes that lock alone; not covered: whoever writes to the files directly"
)


class LockedStore(ABC):
    """A store on a local directory. Two processes may share the directory; hosts may not."""

    format: str

    def __init__(self, name: str, root: Path, state: Path, lock_timeout_ms: int) -> None:
        self.name = name
        self.capabilities = Capabilities(
            conditions=True, exact=True, settle_ms=0, guarantee=_GUARANTEE
        )
        self._root = root
        self._state = state
        self._timeout_s = lock_timeout_ms / 1000
        self._threads = DiskThreads(name)
        self._scopes = ScopeLocks(state / "scopes", self._threads, self._timeout_s)
        self._incoming = Incoming(state / "tmp")
        self._opening = asyncio.Lock()
        self._is_open = False

    # --- the port -------------------------------------------------------------------------------
    async def look(self, operation: Operation, scope: Scope) -> NotLooked:
        """Nothing to see before admission: the check is under the lock (rule 11)."""
        return NotLooked()

    async def carry(self, scope: Scope, mark: Mark) -> Mark | None:
        """See `Store.carry`: takes the scope's lock alone, for `lock_timeout_ms` at most."""
        await self._ready()
        return await self._scopes.carry(scope, mark)

    async def write(self, operation: Operation, body: Body, fence: WriteFence) -> WriteResult:
        """See `Store.write`."""
        try:
            await self._ready()
            # A look before the body comes spares its transfer; what counts is read at the end.
            early = fence.previous_write_id is None
            refused = await self._scopes.peek(fence.scope, fence.mark) if early else None
            return refused or await self._write(operation, body, fence)
        except (BodyError, Refusal) as refusal:
            return NotWritten(refusal.problem)
        except DISK_ERRORS as error:
            return NotWritten(disk_problem(error, self.name))

    async def find_out(self, operation: Operation, fence: WriteFence, age_s: float) -> WriteResult:
        """See `FindsOut`: what stands there tells its write; what is gone tells nothing."""
        del age_s
        record = await self._standing(operation)
        if record is not None and record.write_id == fence.write_id:
            return Written(ObjectPut(record.etag, created=record.created))
        text = f"store {self.name!r} cannot tell how the write ended"
        return MaybeWritten(Problem(Code.OUTCOME_UNKNOWN, text))

    async def recall(
        self, operation: Operation, scope: Scope, era: Era | None
    ) -> WriteResult | None:
        """See `Recalls`."""
        name, record = request_name(operation, scope), await self._standing(operation)
        if name is None or record is None or record.era != era:
            return None
        match kin(record.write_id, name):
            case Kin.NONE:
                return None
            case Kin.REUSED:
                return NotWritten(key_reused())
            case Kin.EARLIER:
                return Written(ObjectPut(record.etag, created=record.created), earlier=True)

    async def _standing(self, operation: Operation) -> Record | None:
        """The version that an upload's target holds, durably; None when that cannot be told."""
        action = operation.action
        if not isinstance(action, PutObject):
            return None
        try:
            await self._ready()
            return await self._threads.run(self._version, action)
        except (Refusal, *DISK_ERRORS):
            return None

    async def read(self, operation: Operation) -> ReadResult:
        """See `Store.read`."""
        try:
            await self._ready()
            return await self._read(operation)
        except Refusal as refusal:
            return ReadRefused(refusal.problem)
        except DISK_ERRORS as error:
            return ReadRefused(disk_problem(error, self.name))

    async def probe(self) -> Capabilities:
        """Prove that the directory can be written, synced and locked. Raises `ProbeFailed`."""
        try:
            await self._ready()
            await self._threads.run(self._prove)
        except Refusal as refusal:
            raise ProbeFailed(refusal.problem.message) from refusal
        except DISK_ERRORS as error:
            raise ProbeFailed(
                f"{disk_problem(error, self.name).message} (root = {str(self._root)!r})"
            ) from error
        return self.capabilities

    async def check(self) -> str | None:
        """See `Store.check`: bytes can be written where uploads begin."""
        try:
            await self._ready()
            await asyncio.to_thread(prove_room, self._incoming.directory)
        except Refusal as refusal:
            return refusal.problem.message
        except DISK_ERRORS as error:
            return disk_problem(error, self.name).message
        return None

    async def aclose(self) -> None:
        """See `Store.aclose`."""
        if self._is_open:
            self._is_open = False
            await self._threads.run(self._close)
        self._threads.close()

    # --- for the layouts ------------------------------------------------------------------------
    @abstractmethod
    async def _write(self, operation: Operation, body: Body, fence: WriteFence) -> WriteResult:
        """Carry a mutation out. Raises `BodyError`, `Refusal`, OSError, sqlite3.Error."""

    @abstractmethod
    async def _read(self, operation: Operation) -> ReadResult:
        """Answer a read. Raises `Refusal`, OSError, sqlite3.Error."""

    @abstractmethod
    def _version(self, action: PutObject) -> Record | None:
        """The version that is there, made durable, in a thread. Raises `Refusal`, OSError."""

    @abstractmethod
    def _open(self) -> None:
        """Open what the layout needs, in a thread."""

    @abstractmethod
    def _sweep(self, left: Path) -> None:
        """See to a file that a dead process left among its uploads."""

    def _close(self) -> None:
        self._incoming.close()

    def _prove(self) -> None:
        """Prove what the layout rests on, in a thread."""
        path = self._incoming.directory / "probe"
        first, second = FileLock(path, exclusive=True), FileLock(path, exclusive=False)
        try:
            if not first.try_acquire() or second.try_acquire():
                raise Refusal(
                    Problem(
                        Code.UPSTREAM_FAILED,
                        f"file locks do not work below the root of store {self.name!r}: two "
                        "holders got one lock; put the root on a local file system",
                    )
                )
            sync_directory(self._incoming.directory)
        finally:
            first.release()
            second.release()
            path.unlink(missing_ok=True)

    async def _ready(self) -> None:
        """Open the store with its first use. Raises `Refusal`, OSError, sqlite3.Error."""
        if self._is_open:
            return
        async with self._opening:
            if not self._is_open:
                await self._start()
                self._is_open = True

    async def _start(self) -> None:
        """Open one process at a time: SQLite answers `locked` to two that make a log at once."""
        await self._threads.run(make_directories, self._state)
        lock = FileLock(self._state / "start.lock", exclusive=True)
        try:
            if not await acquire(lock, self._threads, _START_S):
                raise Refusal(
                    busy(f"another process has been opening store {self.name!r} for long")
                )
            await self._threads.run(self._open_all)
        finally:
            lock.release()

    def _open_all(self) -> None:
        self._check_format()
        self._open()
        self._incoming.open(self._sweep)

    def _check_format(self) -> None:
        path = self._state / "format"
        wanted = f"fencegate {self.format}\n"
        if not path.exists():
            draft = path.with_name("format.new")
            draft.write_text(wanted)
            draft.replace(path)
            sync_directory(self._state)
        found = path.read_text()
        if found != wanted:
            raise Refusal(
                Problem(
                    Code.UPSTREAM_FAILED,
                    f"the root of store {self.name!r} holds {found.strip()!r}, not "
                    f"{wanted.strip()!r}: give each store a root of its own, and keep its dialect",
                )
            )
