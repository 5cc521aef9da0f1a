"""Owns the fence's own schema in the database: its versions, and how one becomes the next.

Each version is one SQL file of this package. `migrate` runs those that are missing in one
transaction (PostgreSQL's DDL is transactional), so that it can be repeated and interrupted.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from gateway.stores.postgres.sql import Sql, compose, join

_FILES: Final = ("001_fence.sql", "002_made.sql")
VERSION: Final = len(_FILES)
"""The version this release needs."""

_LOCK: Final = 7_301_000_001
_BEGIN: Final = Sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
_CREATE: Final = Sql(
    "CREATE SCHEMA IF NOT EXISTS fencegate;\n"
    "CREATE TABLE IF NOT EXISTS fencegate.version (\n"
    "    version integer NOT NULL,\n"
    "    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row)\n"
    ");\n"
)
_RECORD: Final = (
    "INSERT INTO fencegate.version (version) VALUES ({version})\n"
    "ON CONFLICT (only_row) DO UPDATE SET version = EXCLUDED.version;\n"
)
EXISTS_QUERY: Final = Sql("SELECT to_regclass('fencegate.version') IS NOT NULL AS found")
VERSION_QUERY: Final = Sql("SELECT version FROM fencegate.version")


@dataclass(frozen=True, slots=True)
class Migration:
    """What a migration did: the versions before and after; `before` is 0 for a new schema."""

    before: int
    after: int


class NewerSchema(Exception):
    """The database was migrated by a newer release than this one. Nothing was changed."""


def sql_from(version: int) -> Sql:
    """All SQL that leads from a version (0: nothing there) to the current one."""
    folder = resources.files(__package__)
    files = [Sql(folder.joinpath(name).read_text("utf-8")) for name in _FILES[version:]]
    record = compose(_RECORD, version=Sql(str(VERSION)))
    return join("\n", [_CREATE, *files, record])


async def installed_version(connection: Any) -> int:
    """Read the version in the database; 0 when there is none."""
    if not (await connection.fetchrow(EXISTS_QUERY))["found"]:
        return 0
    row = await connection.fetchrow(VERSION_QUERY)
    return 0 if row is None else int(row["version"])


async def migrate(connection: Any) -> Migration:
    """Create or upgrade the schema. Raises `NewerSchema`, and what the driver raises."""
    async with connection.transaction():
        await connection.execute(_BEGIN)  # two migrations at once: the second finds it done
        before = await installed_version(connection)
        if before > VERSION:
            raise NewerSchema(
                f"schema fencegate is of version {before}, and this release knows {VERSION}: "
                "use the newer release"
            )
        if before < VERSION:
            await connection.execute(sql_from(before))
    return Migration(before, VERSION)
