"""The two changes of the bucket layout: a key pointed to another file, a key forgotten.

The bytes are in their file, and durable, before any lock is taken; the effect is the COMMIT of the
index (protocol, rule 5).
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from gateway.engine.refusals import key_reused
from gateway.model.conditions import Conditions
from gateway.model.mark import Mark
from gateway.model.object_action import PutObject
from gateway.model.problem import Problem
from gateway.model.reply import ObjectDeleted, ObjectPut
from gateway.model.write_id import Kin, kin, name_in
from gateway.ports.store import NotWritten, WriteFence, WriteResult, Written
from gateway.stores.files.answers import no_such_object
from gateway.stores.files.blobs import Address, Blobs, Placed
from gateway.stores.files.faults import sqlite_code
from gateway.stores.files.index import Entry, Index
from gateway.stores.files.preconditions import write_refusal
from gateway.stores.files.record import Record, earlier_attempt, new_record
from gateway.stores.files.same_bytes import same_bytes
from gateway.stores.files.scope_locks import standing

_NOTHING_WRITTEN: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY})


@dataclass(frozen=True, slots=True)
class Shelf:
    """The parts of a bucket store that its changes work on.

    `cleared` are files removed since the last transaction: the next one forgets them as garbage.
    """

    index: Index
    blobs: Blobs
    cleared: list[str] = field(default_factory=list)

    def clear(self, replaced: Entry | None) -> None:
        """Remove the file of a version that is gone; what fails is left to a later start."""
        if replaced is not None:
            with suppress(OSError):
                self.blobs.remove(replaced.blob)
                self.cleared.append(replaced.blob)

    def forget_cleared(self) -> None:
        """Forget, inside a transaction, what is gone; if it is rolled back, a start sees to it."""
        gone = self.cleared[:]
        del self.cleared[: len(gone)]
        self.index.collected(gone)

    def sweep(self) -> None:
        """Remove all garbage. Raises OSError, sqlite3.Error."""
        self.index.begin()
        try:
            blobs = self.index.garbage()
            # Another process may have replaced them just now: its commit must be on the disk
            # before the files that it replaced may go.
            self.index.flush()
            for blob in blobs:
                self.blobs.remove(blob)
            self.index.collected(blobs)
            self.index.commit()
        finally:
            self.index.rollback()


@dataclass(frozen=True, slots=True)
class Terms:
    """Under what a change may happen: the client's conditions, the fence, the stored mark."""

    conditions: Conditions
    fence: WriteFence
    stored: Mark | None

    def refusal(self, address: Address, before: Entry | None) -> WriteResult | None:
        """Why the version that is there may not be changed; None lets the change go on."""
        refused = standing(self.stored, self.fence.mark)
        if refused is not None:
            return refused
        etag = before.record.etag if before is not None else None
        problem = write_refusal(self.conditions, etag, _absent(address))
        return NotWritten(problem) if problem is not None else None


@dataclass(slots=True)
class IndexChange:
    """What both changes do with the index, whose only writer they are from `prepare` on."""

    shelf: Shelf
    address: Address
    terms: Terms
    before: Entry | None = field(default=None, init=False)

    def commit(self) -> None:
        """COMMIT."""
        self.shelf.index.commit()

    def happened(self, error: Exception) -> bool | None:
        """A full disk leaves no whole commit in the log; after another error nobody can tell."""
        self.shelf.index.rollback()
        nothing = isinstance(error, sqlite3.Error) and sqlite_code(error) in _NOTHING_WRITTEN
        return False if nothing else None

    def abandon(self) -> None:
        """Undo."""
        self.shelf.index.rollback()


@dataclass(slots=True)
class Replacement(IndexChange):
    """A key pointed to a new file."""

    action: PutObject
    placed: Placed
    record: Record | None = field(default=None, init=False)

    def prepare(self) -> WriteResult | None:
        """Check, and point the key to the new file."""
        index = self.shelf.index
        index.begin()
        before = self.before = index.current(*self.address)
        related = earlier_attempt(None if before is None else before.record, self.terms.fence)
        if related is Kin.REUSED:
            return NotWritten(key_reused())
        if before is not None and related is Kin.EARLIER:
            if not self._is_repeated(before):
                return NotWritten(key_reused())
            index.flush()
            reply = ObjectPut(before.record.etag, created=before.record.created)
            return Written(reply, earlier=True)
        refused = self.terms.refusal(self.address, before)
        if refused is not None:
            return refused
        placed = self.placed
        record = self.record = new_record(
            self.action, self.terms.fence, placed.size, placed.modified_ns, before is None
        )
        index.put(*self.address, Entry(placed.blob, record), before)
        self.shelf.forget_cleared()
        return None

    def _is_repeated(self, before: Entry) -> bool:
        standing_file = self.shelf.blobs.path(before.blob)
        with self.placed.path.open("rb") as came, standing_file.open("rb") as stands:
            return same_bytes(came.fileno(), stands.fileno())

    def settle(self) -> ObjectPut:
        """Wait for the log, and only then remove what it no longer needs."""
        self.shelf.index.flush()
        self.shelf.clear(self.before)
        with suppress(OSError):
            self.placed.settled()
        assert self.record is not None
        return ObjectPut(self.record.etag, created=self.record.created)


@dataclass(slots=True)
class Removal(IndexChange):
    """A key forgotten."""

    def prepare(self) -> WriteResult | None:
        """Check, and forget the key."""
        index, fence = self.shelf.index, self.terms.fence
        index.begin()
        before = self.before = index.current(*self.address)
        previous, removed = fence.previous_write_id, index.removed_by(*self.address)
        same = before is None and kin(removed, name_in(fence.write_id)) is Kin.EARLIER
        if same or (previous is not None and removed == previous):
            index.flush()
            return Written(ObjectDeleted(), earlier=True)
        refused = self.terms.refusal(self.address, before)
        if refused is None and before is not None:
            index.remove(*self.address, before, fence.write_id)
            self.shelf.forget_cleared()
        return refused

    def settle(self) -> ObjectDeleted:
        """Wait for the log, then remove the file."""
        if self.before is None:
            return ObjectDeleted(existed=False)
        self.shelf.index.flush()
        self.shelf.clear(self.before)
        return ObjectDeleted()


def _absent(address: Address) -> Problem:
    key = address.key.decode("utf-8", "backslashreplace")
    return no_such_object(f"If-Match needs an object, and there is none with the key {key!r}")
