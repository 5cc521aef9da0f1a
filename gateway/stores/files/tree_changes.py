"""The two changes of a plain tree: a file replaced, a file removed (protocol, rules 5 and 11)."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from gateway.engine.refusals import key_reused
from gateway.model.conditions import Conditions
from gateway.model.mark import Mark
from gateway.model.object_action import PutObject
from gateway.model.reply import ObjectDeleted, ObjectPut
from gateway.model.write_id import Kin, kin, name_in
from gateway.ports.store import NotWritten, WriteFence, WriteResult, Written
from gateway.stores.files.faults import Refusal
from gateway.stores.files.incoming import Upload
from gateway.stores.files.preconditions import no_match_on_absent, write_refusal
from gateway.stores.files.record import (
    Record,
    belongs,
    earlier_attempt,
    foreign_record,
    new_record,
)
from gateway.stores.files.resource_locks import Removals
from gateway.stores.files.same_bytes import same_bytes
from gateway.stores.files.scope_locks import standing
from gateway.stores.files.sidecars import Sidecars
from gateway.stores.files.tree_directories import TreeDirectories
from gateway.stores.files.tree_paths import Place

_CLOCK_STEPS_NS: Final = (1, 2_000_000, 2_000_000_000)
"""Finest first: file systems keep times to a nanosecond, to milliseconds, or to two seconds."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The parts of a tree that its changes work on."""

    directories: TreeDirectories
    sidecars: Sidecars

    def current(self, place: Place) -> Record | None:
        """The version that is there, None when nothing is. Raises `Refusal`, OSError."""
        found = self.directories.status(place)
        if found is None:
            return None
        records = self.sidecars.load(place)
        return next((r for r in records if belongs(r, found)), foreign_record(found))


@dataclass(slots=True)
class Replacement:
    """A file replaced by an upload; the effect is the rename."""

    tree: Tree
    place: Place
    action: PutObject
    conditions: Conditions
    fence: WriteFence
    stored: Mark | None
    upload: Upload
    _record: Record | None = None
    _before: Record | None = None
    _made: bool = False

    def prepare(self) -> WriteResult | None:
        """Check, then write the sidecar and make the directories."""
        before = self._before = self.tree.current(self.place)
        related = earlier_attempt(before, self.fence)
        if related is Kin.REUSED:
            return NotWritten(key_reused())
        if before is not None and related is Kin.EARLIER:
            if not self._is_repeated():
                return NotWritten(key_reused())
            self.tree.directories.sync(self.place)
            return Written(ObjectPut(before.etag, created=before.created), earlier=True)
        refused = standing(self.stored, self.fence.mark)
        if refused is not None:
            return refused
        etag = before.etag if before is not None else None
        problem = write_refusal(self.conditions, etag, no_match_on_absent())
        if problem is not None:
            return NotWritten(problem)
        self._get_ready(before)
        return None

    def _is_repeated(self) -> bool:
        standing_fd = self.tree.directories.open_file(self.place)
        try:
            return same_bytes(self.upload.fd, standing_fd)
        finally:
            os.close(standing_fd)

    def _get_ready(self, before: Record | None) -> None:
        self._made = self.tree.directories.make_parent(self.place)
        modified_ns = later_than(before, self.upload.fd)
        record = new_record(self.action, self.fence, self.upload.size, modified_ns, before is None)
        self._record = record
        kept = (before,) if before is not None and before.write_id is not None else ()
        draft = self.upload.directory / f"{self.upload.name}.record"
        self.tree.sidecars.save(self.place, (*kept, record), draft)

    def commit(self) -> None:
        """Rename."""
        self.tree.directories.put(self.upload.path, self.place)

    def happened(self, error: Exception) -> bool | None:
        """Whose file is there?"""
        with suppress(OSError, Refusal):
            found = self.tree.directories.status(self.place)
            if found is not None and found.st_ino == os.fstat(self.upload.fd).st_ino:
                return True
            if self.upload.path.exists():
                return False
        return None

    def settle(self) -> ObjectPut:
        """Make the rename durable."""
        self.tree.directories.sync(self.place)
        assert self._record is not None
        return ObjectPut(self._record.etag, created=self._record.created)

    def abandon(self) -> None:
        """Remove what would remain where nothing was. The old sidecar may keep both records."""
        if self._record is not None and self._before is None:
            with suppress(OSError):
                self.tree.sidecars.remove(self.place)
        if self._made:
            self.tree.directories.prune(self.place)


@dataclass(slots=True)
class Removal:
    """A file removed; the effect is the unlink."""

    tree: Tree
    place: Place
    conditions: Conditions
    fence: WriteFence
    stored: Mark | None
    removals: Removals
    _before: Record | None = None

    def prepare(self) -> WriteResult | None:
        """Check."""
        with suppress(Refusal):  # a directory, or a file in the way: there is no such object
            self._before = self.tree.current(self.place)
        before, previous = self._before, self.fence.previous_write_id
        removed = self.removals.write_id(self.place.digest)
        same = before is None and kin(removed, name_in(self.fence.write_id)) is Kin.EARLIER
        if same or (previous is not None and removed == previous):
            self.tree.directories.sync(self.place)
            return Written(ObjectDeleted(), earlier=True)
        refused = standing(self.stored, self.fence.mark)
        if refused is not None:
            return refused
        etag = before.etag if before is not None else None
        problem = write_refusal(self.conditions, etag, no_match_on_absent())
        return NotWritten(problem) if problem is not None else None

    def commit(self) -> None:
        """Unlink, if there is something."""
        if self._before is not None:
            self.tree.directories.remove(self.place)

    def happened(self, error: Exception) -> bool | None:
        """Is it gone?"""
        with suppress(OSError, Refusal):
            return self.tree.directories.status(self.place) is None
        return None

    def settle(self) -> ObjectDeleted:
        """Make the removal durable, then clear up."""
        if self._before is None:
            return ObjectDeleted(existed=False)
        self.tree.directories.sync(self.place)
        with suppress(OSError):
            self.removals.note(self.place.digest, self.fence.write_id)
            self.tree.sidecars.remove(self.place)
        self.tree.directories.prune(self.place)
        return ObjectDeleted()

    def abandon(self) -> None:
        """Nothing was done."""


def later_than(before: Record | None, fd: int) -> int:
    """The time of a new file, moved so that it is later than that of the version before.

    Time and size tell two versions of one path apart, also when a clock stands still or goes back.
    """
    modified_ns = os.fstat(fd).st_mtime_ns
    if before is None or modified_ns > before.modified_ns:
        return modified_ns
    for step_ns in _CLOCK_STEPS_NS:
        wanted_ns = before.modified_ns + step_ns
        os.utime(fd, ns=(wanted_ns, wanted_ns))
        os.fsync(fd)
        modified_ns = os.fstat(fd).st_mtime_ns
        if modified_ns > before.modified_ns:
            return modified_ns
    raise OSError("the file system keeps no time of modification")
