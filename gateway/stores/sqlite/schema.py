"""The fence schema inside a SQLite database: what is in it, and how it comes about.

It lives in the same file as the rows, so that a write and its check are one transaction
(protocol, rule 11).
"""

from __future__ import annotations

import sqlite3
from typing import Final

PREFIX: Final = "fencegate_"
"""No worker reaches a table whose name starts like this."""

VERSION: Final = 1

_STEPS: Final[tuple[tuple[str, ...], ...]] = (
    (
        "CREATE TABLE fencegate_fence("
        "scope TEXT PRIMARY KEY, era INTEGER NOT NULL, token INTEGER NOT NULL,"
        " burnt INTEGER NOT NULL, holder TEXT) WITHOUT ROWID",
        "CREATE TABLE fencegate_request("
        "seq INTEGER PRIMARY KEY, write_id TEXT NOT NULL UNIQUE, retry TEXT UNIQUE,"
        " reply TEXT NOT NULL)",
    ),
)
"""The statements that lead from each version to the next."""


class SchemaTooNewError(Exception):
    """The database was migrated by a newer gateway; this one must not write to it."""


def migrate(connection: sqlite3.Connection) -> int:
    """Create or upgrade the fence schema, in one transaction. Returns the version before.

    Raises `SchemaTooNewError`, and sqlite3.Error when the database cannot be written.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS fencegate_schema("
            "only INTEGER PRIMARY KEY CHECK (only = 1), version INTEGER NOT NULL)"
        )
        row = connection.execute("SELECT version FROM fencegate_schema").fetchone()
        before: int = 0 if row is None else row[0]
        if before > VERSION:
            raise SchemaTooNewError(
                f"its fence schema has version {before}, this release knows {VERSION}: "
                "use the newer release"
            )
        for step in _STEPS[before:]:
            for statement in step:
                connection.execute(statement)
        connection.execute("INSERT OR REPLACE INTO fencegate_schema VALUES (1, ?)", (VERSION,))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return before
