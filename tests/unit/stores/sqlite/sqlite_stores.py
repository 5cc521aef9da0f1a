"""Stores on fresh files, and connections that fail, stall or count."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from gateway.policy.document import TableSettings
from gateway.stores.sqlite import SqliteStore
from gateway.testing.rows_subject import Client, mark

DDL = (
    "CREATE TABLE IF NOT EXISTS jobs(id integer PRIMARY KEY, name text NOT NULL, "
    "version integer NOT NULL DEFAULT 1)"
)
TABLES = {"jobs": TableSettings(version_column="version")}


def make(path: Path, **more: Any) -> SqliteStore:
    """A store on the file, with table jobs and small time-outs, not yet probed."""
    settings = {"tables": TABLES, "init": DDL, "lock_timeout_ms": 50, **more}
    return SqliteStore("db", path, **settings)


async def worker(store: SqliteStore, token: int = 1) -> Client:
    """A client of the store, with its mark committed there."""
    await store.probe()
    return await Client(store, mark(token)).ready()


def other(path: Path) -> closing[sqlite3.Connection]:
    """A client beside the gateway."""
    return closing(sqlite3.connect(path, isolation_level=None, timeout=5))


def rows(path: Path, statement: str = "SELECT id FROM jobs ORDER BY id") -> list[Any]:
    """What a client beside the gateway reads."""
    with other(path) as connection:
        return [row[0] for row in connection.execute(statement)]


def traced(seen: Callable[[str], None]) -> Callable[..., sqlite3.Connection]:
    """A connect whose connections tell each statement when it starts."""

    def connect(*arguments: Any, **settings: Any) -> sqlite3.Connection:
        connection = sqlite3.connect(*arguments, **settings)
        connection.set_trace_callback(seen)
        return connection

    return connect


class FailingCommit(sqlite3.Connection):
    """A connection whose COMMIT fails on demand: `failing` names the result code."""

    failing: str | None = None
    commits_first = False

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" and FailingCommit.failing is not None:
            if FailingCommit.commits_first:
                super().execute("COMMIT")
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = FailingCommit.failing
            raise error
        return super().execute(sql, *parameters)


def failing_connect(*arguments: Any, **settings: Any) -> sqlite3.Connection:
    """A connect that opens `FailingCommit` connections."""
    return sqlite3.connect(*arguments, factory=FailingCommit, **settings)
