"""The files that hold an object's bytes in the bucket layout: one per version, never changed."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from gateway.stores.files.durable import fan_out, make_directories, sync_directory
from gateway.stores.files.incoming import Upload

PLACED_SUFFIX: Final = ".placed"


class Address(NamedTuple):
    """A key in a bucket, as the index knows it."""

    bucket: str
    key: bytes


@dataclass(frozen=True, slots=True)
class Placed:
    """A file under its lasting name, which no key may point to yet.

    The note among the uploads leads a later start to it, if this process dies before its effect.
    """

    blob: str
    path: Path
    note: Path
    size: int
    modified_ns: int

    def settled(self) -> None:
        """A key points to it. Raises OSError."""
        self.note.unlink(missing_ok=True)

    def remove(self) -> None:
        """No key will point to it. Raises OSError."""
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Blobs:
    """All such files of one store, two directory levels deep by the hash of bucket and key."""

    directory: Path

    def path(self, blob: str) -> Path:
        """Where a file is."""
        return self.directory / fan_out(blob)

    def place(self, upload: Upload, address: Address) -> Placed:
        """Give a durable upload its lasting name, durably. Raises OSError."""
        where = address.bucket.encode() + b"/" + address.key
        blob = f"{hashlib.sha256(where).hexdigest()}.{secrets.token_hex(8)}"
        note = upload.directory / f"{blob}{PLACED_SUFFIX}"
        note.write_bytes(where)
        path = self.path(blob)
        make_directories(path.parent)
        upload.path.rename(path)
        sync_directory(path.parent)
        return Placed(blob, path, note, upload.size, path.stat().st_mtime_ns)

    def remove(self, blob: str) -> None:
        """Remove a file that no key points to any more. Raises OSError."""
        self.path(blob).unlink(missing_ok=True)


def noted(note: Path) -> tuple[str, Address | None]:
    """The file that a note is about, and the key it was for; None when a crash cut the note."""
    blob = note.name.removesuffix(PLACED_SUFFIX)
    bucket, separator, key = note.read_bytes().partition(b"/")
    if hashlib.sha256(bucket + separator + key).hexdigest() != blob.partition(".")[0]:
        return blob, None
    return blob, Address(bucket.decode(), key)
