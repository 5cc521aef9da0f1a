"""The record of one version: everything about an object that is not in its bytes."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import dataclass

from gateway.model.object_action import Fields, PutObject
from gateway.model.reply import ObjectMeta
from gateway.model.write_id import Kin, kin, name_in
from gateway.ports.store import WriteFence


@dataclass(frozen=True, slots=True)
class Record:
    """One version. `size` and `modified_ns` (of the file) tell which bytes it belongs to.

    `scope`, `era`, `token` and `write_id` are the stamp. `created`: there was nothing before.
    A `write_id` of None marks a file that somebody else put there.
    """

    etag: str
    size: int
    modified_ns: int
    metadata: Fields = ()
    scope: str = ""
    era: int = 0
    token: int = 0
    write_id: str | None = None
    created: bool = False

    def meta(self) -> ObjectMeta:
        """What clients see of it."""
        return ObjectMeta(self.etag, self.size, self.modified_ns // 10**9, self.metadata)


def fresh_etag() -> str:
    """A tag no other write has. The letter in front keeps clients from taking it for an MD5."""
    return f'"w{secrets.token_hex(12)}"'


def new_record(
    action: PutObject, fence: WriteFence, size: int, modified_ns: int, created: bool
) -> Record:
    """The record of a version about to be written."""
    return Record(
        etag=fresh_etag(),
        size=size,
        modified_ns=modified_ns,
        metadata=action.metadata,
        scope=fence.scope,
        era=fence.mark.era,
        token=fence.mark.token,
        write_id=fence.write_id,
        created=created,
    )


def earlier_attempt(record: Record | None, fence: WriteFence) -> Kin:
    """Whether a version was written by an earlier attempt at the same request."""
    if record is None or record.era != fence.mark.era:
        return Kin.NONE
    return kin(record.write_id, name_in(fence.write_id), fence.previous_write_id)


def foreign_record(found: os.stat_result) -> Record:
    """The record of a file that somebody put or changed by hand: its tag follows the file."""
    identity = f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:24]
    return Record(f'"x{digest}"', found.st_size, found.st_mtime_ns)


def belongs(record: Record, found: os.stat_result) -> bool:
    """Whether the record describes this file."""
    return record.size == found.st_size and record.modified_ns == found.st_mtime_ns


def to_json(record: Record) -> str:
    """The record as text."""
    fields = {name: getattr(record, name) for name in Record.__dataclass_fields__}
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":"))


def from_json(text: str) -> Record:
    """The record of a text. Raises ValueError when it is none."""
    try:
        fields = json.loads(text)
        metadata = tuple((str(name), str(value)) for name, value in fields.pop("metadata"))
        return Record(metadata=metadata, **fields)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("not a record") from error
