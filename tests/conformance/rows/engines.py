"""The engines that the language of rows is spoken to, each with a database of one test's own."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import asyncmy
import asyncpg
import pytest

from gateway.policy.document import TableSettings
from gateway.stores.mariadb.store import MariadbStore
from gateway.stores.postgres.store import PostgresStore
from gateway.stores.sqlite import SqliteStore

ENGINES: Final = ("sqlite", "postgres", pytest.param("mariadb", marks=pytest.mark.extra))
"""What a fixture `engine` is parametrised with."""
_UNBOUNDED: Final = re.compile(r"\btext\b|\bvarchar\b(?!\()")


async def open_engine(
    engine: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    statements: Iterable[str],
    settings: Mapping[str, TableSettings],
) -> Any:
    """A store on a new database in which these statements were run."""
    match engine:
        case "sqlite":
            path = tmp_path / "db.sqlite"
            connection = sqlite3.connect(path, isolation_level=None)
            connection.executescript(";".join(statements))
            connection.close()
            store: Any = SqliteStore("db", path, tables=settings)
        case "postgres":
            dsn = request.getfixturevalue("postgres_dsn")
            raw = await asyncpg.connect(dsn)
            for sql in statements:
                await raw.execute(sql)
            await raw.close()
            store = PostgresStore("db", dsn, tables=settings)
            await store.migrate()
        case "mariadb":
            dsn = request.getfixturevalue("mariadb_dsn")
            await run_in_mariadb(dsn, statements)
            store = MariadbStore("db", dsn, tables=settings)
            await store.migrate()
        case _:
            raise AssertionError(engine)
    await store.probe()
    return store


async def run_in_mariadb(dsn: str, statements: Iterable[str]) -> None:
    """Run statements of the common SQL: names in double quotes, and texts that can be keys."""
    parts = urlsplit(dsn)
    raw = await asyncmy.connect(
        host=parts.hostname,
        port=parts.port,
        user=parts.username,
        password=parts.password,
        database=parts.path[1:],
        autocommit=True,
    )
    await raw.query("SET sql_mode = 'STRICT_ALL_TABLES,ANSI_QUOTES,NO_BACKSLASH_ESCAPES'")
    for sql in statements:
        given = sql.replace("DEFAULT VALUES", "VALUES ()")
        if given.startswith("CREATE TABLE"):
            given = _UNBOUNDED.sub("varchar(300)", given)
        await raw.query(given)
    raw.close()
