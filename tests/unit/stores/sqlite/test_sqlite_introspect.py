"""The catalogue of a SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from gateway.model.catalogue import ColumnKind, Table
from gateway.policy.document import TableSettings
from gateway.stores.sqlite.introspect import TableUnfit, kind_of, read_catalogue


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    """An empty database."""
    made = sqlite3.connect(":memory:", isolation_level=None)
    yield made
    made.close()


def table(connection: sqlite3.Connection, ddl: str, version: str | None = None) -> Table:
    """Table t as the catalogue has it."""
    connection.execute(ddl)
    settings = {"t": TableSettings(version_column=version)}
    return read_catalogue(connection, settings).tables["t"]


@pytest.mark.parametrize(
    "declared,kind",
    [
        ("integer", ColumnKind.INTEGER),
        ("BIGINT", ColumnKind.INTEGER),
        ("unsigned big int", ColumnKind.INTEGER),
        ("varchar(20)", ColumnKind.TEXT),
        ("Text", ColumnKind.TEXT),
        ("double precision", ColumnKind.REAL),
        ("real", ColumnKind.REAL),
        ("decimal(10,2)", ColumnKind.NUMERIC),
        ("boolean", ColumnKind.BOOLEAN),
        ("uuid", ColumnKind.UUID),
        ("json", ColumnKind.JSON),
        ("blob", ColumnKind.BINARY),
        ("timestamp", ColumnKind.OTHER),
        ("", ColumnKind.OTHER),
    ],
)
def test_kinds(declared: str, kind: ColumnKind) -> None:
    """Kinds follow SQLite's affinity, with the names that SQLite has no type for told apart."""
    assert kind_of(declared) is kind


def test_columns_and_keys(connection: sqlite3.Connection) -> None:
    """Columns come in order, the key in its own order, defaults and nullability as declared."""
    found = table(
        connection,
        "CREATE TABLE t(b text NOT NULL, a integer DEFAULT 1, v int NOT NULL,"
        " g integer GENERATED ALWAYS AS (a + 1), PRIMARY KEY (a, b))",
        "v",
    )
    assert [column.name for column in found.columns] == ["b", "a", "v", "g"]
    assert found.primary_key == ("a", "b")
    assert [(c.nullable, c.has_default) for c in found.columns[:2]] == [
        (False, False),
        (True, True),
    ]
    assert found.version_column == "v"


@pytest.mark.parametrize(
    "ddl,collated",
    [
        ("CREATE TABLE t(k text PRIMARY KEY)", False),
        ("CREATE TABLE t(k text PRIMARY KEY) WITHOUT ROWID", False),
        ("CREATE TABLE t(k text COLLATE NOCASE PRIMARY KEY)", True),
        ("CREATE TABLE t(k text COLLATE RTRIM PRIMARY KEY) WITHOUT ROWID", True),
        ("CREATE TABLE t(k integer PRIMARY KEY)", False),
    ],
)
def test_collated_keys(connection: sqlite3.Connection, ddl: str, collated: bool) -> None:
    """A key column that takes two texts for equal is marked: its text names no row for certain."""
    assert table(connection, ddl).columns[0].collated is collated


@pytest.mark.parametrize(
    "ddl,version,told",
    [
        ("CREATE TABLE other(a)", None, 'table "t" does not exist'),
        ("CREATE TABLE T(a)", None, 'table "t" does not exist'),
        ("CREATE VIEW t AS SELECT 1 AS a", None, 'table "t" does not exist'),
        ("CREATE TABLE t(a integer)", "v", 'has no column "v"'),
        ("CREATE TABLE t(v text)", "v", "must be an integer column"),
        ("CREATE TABLE t(v integer PRIMARY KEY)", "v", "outside the primary key"),
    ],
)
def test_unfit(connection: sqlite3.Connection, ddl: str, version: str | None, told: str) -> None:
    """A table that is not there, or a version column that cannot be one, is told by name."""
    with pytest.raises(TableUnfit, match=told):
        table(connection, ddl, version)


@pytest.mark.parametrize("name", ["fencegate_fence", "sqlite_schema"])
def test_the_engines_own_tables(connection: sqlite3.Connection, name: str) -> None:
    """No setting lets workers reach the fence, or SQLite's own tables."""
    with pytest.raises(TableUnfit, match="workers cannot reach it"):
        read_catalogue(connection, {name: TableSettings()})
