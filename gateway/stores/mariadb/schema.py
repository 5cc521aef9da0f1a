"""The fence's own tables in the database: their versions, and how one becomes the next.

Each version is one SQL file of this package. MariaDB commits before each DDL statement, so every
statement of a file can be repeated, and a lock keeps two migrations apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import Final

from gateway.stores.mariadb import sql
from gateway.stores.mariadb.lanes import Lane
from gateway.stores.mariadb.sql import Sql, compose, join

_FILES: Final = ("001_fence.sql",)
VERSION: Final = len(_FILES)
"""The version this release needs."""

_LOCK: Final = Sql("SELECT GET_LOCK(CONCAT('fencegate.', MD5(DATABASE())), 10)")
_UNLOCK: Final = Sql("SELECT RELEASE_LOCK(CONCAT('fencegate.', MD5(DATABASE())))")
_CREATE: Final = Sql(
    "CREATE TABLE IF NOT EXISTS fencegate_version (\n"
    "    only_row tinyint(1) NOT NULL PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),\n"
    "    version integer NOT NULL\n"
    ") ENGINE = InnoDB"
)
_RECORD: Final = (
    "INSERT INTO fencegate_version (only_row, version) VALUES (1, {version})\n"
    "ON DUPLICATE KEY UPDATE version = {version}"
)
EXISTS: Final = Sql(
    "SELECT 1 FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_name = 'fencegate_version'"
)
INSTALLED: Final = Sql("SELECT version FROM fencegate_version")
_COMMENT: Final = re.compile(r"^--.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    """What a migration did: the versions before and after; `before` is 0 for a new schema."""

    before: int
    after: int


class NewerSchema(Exception):
    """The database was migrated by a newer release than this one. Nothing was changed."""


class MigrationBusy(Exception):
    """Another migration of this database is under way. Nothing was changed."""


def statements_from(version: int) -> list[Sql]:
    """The statements that lead from a version (0: nothing there) to the current one."""
    folder = resources.files(__package__)
    files = [folder.joinpath(name).read_text("utf-8") for name in _FILES[version:]]
    parts = [one.strip() for file in files for one in _COMMENT.sub("", file).split(";\n")]
    steps = [Sql(one) for one in parts if one]
    return [_CREATE, *steps, compose(_RECORD, version=sql.number(VERSION))]


def sql_from(version: int) -> Sql:
    """The same as one text, for a person to run."""
    return compose("{all};\n", all=join(";\n", statements_from(version)))


async def installed_version(lane: Lane, deadline_s: float) -> int:
    """Read the version in the database; 0 when there is none. Raises what a statement raises."""
    if not (await lane.query(EXISTS, deadline_s=deadline_s)).rows:
        return 0
    rows = (await lane.query(INSTALLED, deadline_s=deadline_s)).rows
    return int(rows[0][0] or 0) if rows else 0


async def migrate(lane: Lane, deadline_s: float) -> Migration:
    """Create or upgrade the tables. Raises NewerSchema, MigrationBusy, and as a statement does."""
    held = await lane.query(_LOCK, deadline_s=deadline_s + 10)
    if held.rows[0][0] != "1":
        raise MigrationBusy("another migration of this database is under way; try again")
    before = await installed_version(lane, deadline_s)
    if before > VERSION:
        raise NewerSchema(
            f"the fence's tables are of version {before}, and this release knows {VERSION}: "
            "use the newer release"
        )
    if before < VERSION:
        for statement in statements_from(before):
            await lane.query(statement, deadline_s=deadline_s)
    await lane.query(_UNLOCK, deadline_s=deadline_s)
    return Migration(before, VERSION)
