"""How connections to the database are opened, and what each is set to.

Source: SQLite, "Write-Ahead Logging" and "PRAGMA synchronous": in WAL only FULL makes a commit
survive a power loss, and a fence row that does not survive lets stale writes in again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

Connect = Callable[..., sqlite3.Connection]
"""`sqlite3.connect`, or what stands in for it."""

OLDEST_SQLITE: Final = (3, 38, 0)
"""The first release with RETURNING and with `->`."""


class NotWalError(Exception):
    """The file cannot be in WAL mode, for example on a network file system."""


@dataclass(frozen=True, slots=True)
class Database:
    """Where the database is, and how long a connection waits for another process's lock."""

    path: Path
    lock_timeout_ms: int
    connect: Connect = sqlite3.connect

    def open_writer(self) -> sqlite3.Connection:
        """Open the connection that writes. Raises sqlite3.Error or NotWalError."""
        connection = self.connect(
            self.path,
            timeout=self.lock_timeout_ms / 1000,
            isolation_level=None,
            check_same_thread=False,
        )
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            connection.close()
            raise NotWalError(f"its journal mode stays {mode}; put it on a local file system")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    def open_reader(self) -> sqlite3.Connection:
        """Open a connection that cannot write. Raises sqlite3.Error."""
        connection = self.connect(
            f"{self.path.absolute().as_uri()}?mode=ro",
            uri=True,
            timeout=self.lock_timeout_ms / 1000,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA query_only = ON")
        return connection
