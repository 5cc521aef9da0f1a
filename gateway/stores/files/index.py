"""The index of the bucket layout: which file holds which key, in one SQLite database.

Its COMMIT is the effect of a write. It does not wait for the disk (`synchronous=NORMAL` in WAL
mode, https://www.sqlite.org/pragma.html#pragma_synchronous); `flush` does, before the answer.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from gateway.stores.files.durable import sync_directory
from gateway.stores.files.record import Record, from_json, to_json

_VERSION: Final = 1
_REMEMBERED_REMOVALS: Final = 10_000
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS buckets(
  name TEXT PRIMARY KEY, created_s INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects(
  bucket TEXT NOT NULL, key BLOB NOT NULL, blob TEXT NOT NULL, etag TEXT NOT NULL,
  size INTEGER NOT NULL, modified_s INTEGER NOT NULL, record TEXT NOT NULL,
  PRIMARY KEY(bucket, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS removals(
  id INTEGER PRIMARY KEY AUTOINCREMENT, bucket TEXT NOT NULL, key BLOB NOT NULL,
  write_id TEXT NOT NULL, UNIQUE(bucket, key));
CREATE TABLE IF NOT EXISTS garbage(blob TEXT PRIMARY KEY) WITHOUT ROWID;
"""


class Entry(NamedTuple):
    """A key's current version: the file that holds its bytes, and its record."""

    blob: str
    record: Record


class Row(NamedTuple):
    """A line of a listing."""

    key: bytes
    etag: str
    size: int
    modified_s: int


class Index:
    """Opened once per process. One writer connection, used by one caller at a time; many readers.

    All methods raise sqlite3.Error, and all but `commit` run in threads.
    """

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._writer: sqlite3.Connection | None = None
        self._readers: list[sqlite3.Connection] = []
        self._wal_fd = -1

    # --- life -----------------------------------------------------------------------------------
    def open(self, buckets: Iterable[str]) -> None:
        """Create what is missing, durably, and the buckets. Raises OSError too."""
        writer = self._writer = self._connect()
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("PRAGMA synchronous=FULL")
        found = writer.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, _VERSION):
            raise sqlite3.NotSupportedError(f"the index has version {found}, not {_VERSION}")
        writer.execute("BEGIN IMMEDIATE")
        for statement in filter(str.strip, _SCHEMA.split(";")):
            writer.execute(statement)
        for name in buckets:
            writer.execute(
                "INSERT OR IGNORE INTO buckets VALUES(?, CAST(strftime('%s','now') AS INTEGER))",
                (name,),
            )
        writer.execute(f"PRAGMA user_version={_VERSION}")
        writer.execute("COMMIT")
        writer.execute("PRAGMA synchronous=NORMAL")
        # Checkpoints wait for the disk: `checkpoint` makes them in a thread, not a COMMIT.
        writer.execute("PRAGMA wal_autocheckpoint=0")
        self._wal_fd = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        sync_directory(self._path.parent)

    def _connect(self) -> sqlite3.Connection:
        # Not bound to a thread: each connection is used by one caller at a time.
        return sqlite3.connect(
            self._path, timeout=self._timeout_s, isolation_level=None, check_same_thread=False
        )

    def close(self) -> None:
        """Close every connection; the last process to do so also empties the log."""
        if self._wal_fd >= 0:
            os.close(self._wal_fd)
            self._wal_fd = -1
        for connection in (*self._readers, self._writer):
            if connection is not None:
                connection.close()
        self._readers, self._writer = [], None

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        """A connection for one reader, inside one read transaction: one state of the index."""
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = self._connect()
        try:
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        self._readers.append(connection)

    # --- reads ----------------------------------------------------------------------------------
    def find(self, bucket: str, key: bytes) -> Entry | None:
        """The current version of a key."""
        with self._reader() as connection:
            return _entry(connection, bucket, key)

    def holds(self, blob: str) -> bool:
        """Whether a file is the current version of some key."""
        with self._reader() as connection:
            found = connection.execute("SELECT 1 FROM objects WHERE blob = ?", (blob,)).fetchone()
            return found is not None

    def buckets(self) -> dict[str, int]:
        """All buckets ever opened with their creation time in Unix seconds."""
        with self._reader() as connection:
            return dict(connection.execute("SELECT name, created_s FROM buckets ORDER BY name"))

    @contextmanager
    def listing(self, bucket: str) -> Iterator[Listed]:
        """One state of a bucket, to read a page from."""
        with self._reader() as connection:
            yield Listed(connection, bucket)

    # --- writes: begin, then changes, then commit or rollback -----------------------------------
    @property
    def _open_writer(self) -> sqlite3.Connection:
        if self._writer is None:
            raise sqlite3.ProgrammingError("the index is closed")
        return self._writer

    def begin(self) -> None:
        """Be the only writer, among all processes, until `commit` or `rollback`."""
        self._open_writer.execute("BEGIN IMMEDIATE")

    def current(self, bucket: str, key: bytes) -> Entry | None:
        """The version that a write would replace."""
        return _entry(self._open_writer, bucket, key)

    def removed_by(self, bucket: str, key: bytes) -> str | None:
        """The write that removed the key last, if it is remembered."""
        found = self._open_writer.execute(
            "SELECT write_id FROM removals WHERE bucket = ? AND key = ?", (bucket, key)
        ).fetchone()
        return None if found is None else str(found[0])

    def put(self, bucket: str, key: bytes, entry: Entry, replaced: Entry | None) -> None:
        """Point the key to another file; the one before becomes garbage."""
        record = entry.record
        self._open_writer.execute(
            "INSERT OR REPLACE INTO objects VALUES(?,?,?,?,?,?,?)",
            (
                bucket,
                key,
                entry.blob,
                record.etag,
                record.size,
                record.meta().last_modified_s,
                to_json(record),
            ),
        )
        self._discard(replaced)

    def remove(self, bucket: str, key: bytes, replaced: Entry, write_id: str) -> None:
        """Forget the key, and remember for a while who removed it."""
        where = (bucket, key)
        writer = self._open_writer
        writer.execute("DELETE FROM objects WHERE bucket = ? AND key = ?", where)
        writer.execute(
            "INSERT OR REPLACE INTO removals(bucket, key, write_id) VALUES(?,?,?)",
            (*where, write_id),
        )
        writer.execute(
            "DELETE FROM removals WHERE id <= (SELECT max(id) FROM removals) - ?",
            (_REMEMBERED_REMOVALS,),
        )
        self._discard(replaced)

    def _discard(self, replaced: Entry | None) -> None:
        if replaced is not None:
            self._open_writer.execute("INSERT OR IGNORE INTO garbage VALUES(?)", (replaced.blob,))

    def garbage(self) -> list[str]:
        """Files that no key points to any more, and that may still be on the disk."""
        return [str(row[0]) for row in self._open_writer.execute("SELECT blob FROM garbage")]

    def collected(self, blobs: Iterable[str]) -> None:
        """Forget garbage whose file is gone. Inside a transaction."""
        self._open_writer.executemany(
            "DELETE FROM garbage WHERE blob = ?", [(blob,) for blob in blobs]
        )

    def commit(self) -> None:
        """Let the changes take effect: a write into the page cache, not a wait for the disk."""
        self._open_writer.execute("COMMIT")

    def rollback(self) -> None:
        """Undo the changes since `begin`, if there is a transaction."""
        writer = self._open_writer
        if writer.in_transaction:
            with suppress(sqlite3.OperationalError):
                writer.execute("ROLLBACK")

    def flush(self) -> None:
        """Wait until all commits so far are on the disk. Raises OSError.

        A checkpoint syncs the log itself before it empties it, so that the log's present content
        is all that is missing.
        """
        os.fsync(self._wal_fd)

    def log_bytes(self) -> int:
        """The length of the log."""
        return os.fstat(self._wal_fd).st_size

    def checkpoint(self) -> None:
        """Move what the log holds into the database, without holding anybody up."""
        connection = self._connect()
        try:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        finally:
            connection.close()


class Listed:
    """One state of one bucket in the order of its keys' bytes."""

    def __init__(self, connection: sqlite3.Connection, bucket: str) -> None:
        self._connection = connection
        self._bucket = bucket

    def rows(self, start: bytes) -> Iterator[Row]:
        """All keys from `start` on, itself included."""
        found = self._connection.execute(
            "SELECT key, etag, size, modified_s FROM objects"
            " WHERE bucket = ? AND key >= ? ORDER BY key",
            (self._bucket, start),
        )
        return (Row(*row) for row in found)


def _entry(connection: sqlite3.Connection, bucket: str, key: bytes) -> Entry | None:
    found = connection.execute(
        "SELECT blob, record FROM objects WHERE bucket = ? AND key = ?", (bucket, key)
    ).fetchone()
    return None if found is None else Entry(found[0], from_json(found[1]))
