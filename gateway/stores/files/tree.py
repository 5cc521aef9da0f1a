"""The plain tree: an http path is a file of that name, which a person can read with cat."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path
from typing import Final

from gateway.model.object_action import DeleteObject, GetObject, PutObject
from gateway.model.operation import Operation
from gateway.model.problem import Code, Problem
from gateway.ports.body import Body
from gateway.ports.store import ReadResult, WriteFence, WriteResult
from gateway.stores.files.answers import answer, drop_answer, no_such_object
from gateway.stores.files.changes import settle, stage
from gateway.stores.files.faults import Refusal, busy
from gateway.stores.files.incoming import receive
from gateway.stores.files.locked_store import LockedStore
from gateway.stores.files.record import Record, belongs, foreign_record
from gateway.stores.files.resource_locks import ResourceLocks
from gateway.stores.files.sidecars import Sidecars
from gateway.stores.files.tree_changes import Removal, Replacement, Tree
from gateway.stores.files.tree_directories import TreeDirectories
from gateway.stores.files.tree_paths import Place, place_of

STATE_DIRECTORY: Final = ".fencegate"
_TRIES: Final = 16


class TreeStore(LockedStore):
    """A `files` store for the http dialect. Keys are raw paths below the mount, without first `/`.

    `root` is a directory for files and `.fencegate` (locks, sidecars, uploads), on one local file
    system; several processes of one host may share it.
    """

    format = "tree 1"

    def __init__(self, name: str, root: Path, *, lock_timeout_ms: int = 2000) -> None:
        state = root / STATE_DIRECTORY
        super().__init__(name, root, state, lock_timeout_ms)
        self._resources = ResourceLocks(state / "resources", self._threads, self._timeout_s)
        self._tree = Tree(TreeDirectories(root), Sidecars(state / "meta"))

    def _open(self) -> None:
        (self._state / "resources").mkdir(exist_ok=True)

    def _sweep(self, left: Path) -> None:
        """An upload that never took effect is only removed."""

    def _prove(self) -> None:
        super()._prove()
        lower, upper = (self._incoming.directory / name for name in ("probe-ä", "PROBE-Ä"))
        decomposed = self._incoming.directory / "probe-a\u0308"
        lower.touch()
        try:
            if upper.exists() or decomposed.exists():
                raise Refusal(
                    Problem(
                        Code.UPSTREAM_FAILED,
                        f"the file system of store {self.name!r} takes different names for one: "
                        "put its root on one that tells upper from lower case",
                    )
                )
        finally:
            lower.unlink()

    # --- writes ---------------------------------------------------------------------------------
    async def _write(self, operation: Operation, body: Body, fence: WriteFence) -> WriteResult:
        match operation.action:
            case PutObject() as action:
                return await self._put(operation, action, body, fence)
            case DeleteObject() as action:
                return await self._delete(operation, action, fence)
            case _:
                raise Refusal(_unknown(operation))

    async def _put(
        self, operation: Operation, action: PutObject, body: Body, fence: WriteFence
    ) -> WriteResult:
        place = place_of(action.key)
        upload = self._incoming.upload(fence.write_id)
        try:
            await receive(body, action.length, upload, self._threads)
            async with (
                self._resources.held(place.digest),
                self._scopes.shared(fence.scope) as stored,
            ):
                change = Replacement(
                    self._tree, place, action, operation.conditions, fence, stored, upload
                )
                ended = await stage(change, fence, self._threads, self.name)
                return ended or await settle(change, self._threads, self.name)
        finally:
            await self._threads.run(upload.discard)

    async def _delete(
        self, operation: Operation, action: DeleteObject, fence: WriteFence
    ) -> WriteResult:
        place = place_of(action.key)
        async with (
            self._resources.held(place.digest) as removals,
            self._scopes.shared(fence.scope) as stored,
        ):
            change = Removal(self._tree, place, operation.conditions, fence, stored, removals)
            ended = await stage(change, fence, self._threads, self.name)
            return ended or await settle(change, self._threads, self.name)

    def _version(self, action: PutObject) -> Record | None:
        place = place_of(action.key)
        record = self._tree.current(place)
        if record is not None:
            self._tree.directories.sync(place)
        return record

    # --- reads ----------------------------------------------------------------------------------
    async def _read(self, operation: Operation) -> ReadResult:
        match operation.action:
            case GetObject() as action:
                return await self._threads.run(self._get, operation, action, lost=drop_answer)
            case _:
                raise Refusal(_unknown(operation))

    def _get(self, operation: Operation, action: GetObject) -> ReadResult:
        try:
            place = place_of(action.key)
        except Refusal as refusal:
            raise Refusal(no_such_object(refusal.problem.message)) from refusal
        file, record = self._open_version(place)
        return answer(file, record, action, operation.conditions, self._threads)

    def _open_version(self, place: Place) -> tuple[FileIO, Record]:
        """Open the file, and find the record that belongs to just this file.

        A file without one was put there by hand, unless a writer has passed by: then once more.
        """
        for _ in range(_TRIES):
            try:
                file = FileIO(self._tree.directories.open_file(place))
            except FileNotFoundError:
                raise Refusal(no_such_object(f"there is no object {place.text!r}")) from None
            try:
                found = os.fstat(file.fileno())
                records = self._tree.sidecars.load(place)
                record = next((r for r in records if belongs(r, found)), None)
                if record is None and self._is_still(place, found):
                    record = foreign_record(found)
            except BaseException:
                file.close()
                raise
            if record is not None:
                return file, record
            file.close()
        raise Refusal(busy(f"{place.text!r} is replaced all the time; try again"))

    def _is_still(self, place: Place, found: os.stat_result) -> bool:
        try:
            again = self._tree.directories.status(place)
        except Refusal:
            return False
        if again is None:
            return False
        return (again.st_ino, again.st_mtime_ns) == (found.st_ino, found.st_mtime_ns)


def _unknown(operation: Operation) -> Problem:
    return Problem(
        Code.NOT_FENCED,
        f"a plain tree of files knows GET, HEAD, PUT and DELETE, not this {operation.method}",
    )
