"""The catalogue of a SQLite database: what PRAGMA table_xinfo says, as columns with kinds.

Kinds follow the declared type as SQLite's own affinity does (SQLite, "Datatypes", section 3.1).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from gateway.model.catalogue import Catalogue, Column, ColumnKind, Table
from gateway.policy.document import TableSettings
from gateway.stores.sqlite.schema import PREFIX

_NAMED: Final = {
    "BOOLEAN": ColumnKind.BOOLEAN,
    "BOOL": ColumnKind.BOOLEAN,
    "UUID": ColumnKind.UUID,
    "JSON": ColumnKind.JSON,
    "JSONB": ColumnKind.JSON,
    "NUMERIC": ColumnKind.NUMERIC,
    "DECIMAL": ColumnKind.NUMERIC,
    "BLOB": ColumnKind.BINARY,
    "BYTEA": ColumnKind.BINARY,
}
# In SQLite's order: the first part that the declared type contains decides.
_AFFINITIES: Final = (
    ("INT", ColumnKind.INTEGER),
    ("CHAR", ColumnKind.TEXT),
    ("CLOB", ColumnKind.TEXT),
    ("TEXT", ColumnKind.TEXT),
    ("REAL", ColumnKind.REAL),
    ("FLOA", ColumnKind.REAL),
    ("DOUB", ColumnKind.REAL),
)
_COLUMNS: Final = 'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)'
_KEY_COLLATIONS: Final = (
    "SELECT x.name, x.coll FROM pragma_index_list(?) AS i, pragma_index_xinfo(i.name) AS x"
    " WHERE i.origin = 'pk' AND x.key = 1"
)
_GENERATED: Final = (2, 3)
"""Virtual and stored ones, by the column `hidden` of that pragma."""
_TABLE: Final = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"


class TableUnfit(Exception):
    """A table of the settings does not exist, or cannot be what they say; the text says which."""


def read_catalogue(
    connection: sqlite3.Connection, settings: Mapping[str, TableSettings]
) -> Catalogue:
    """Read the columns and keys of the tables of the settings. Raises TableUnfit."""
    return Catalogue({name: _table(connection, name, wanted) for name, wanted in settings.items()})


def kind_of(declared: str) -> ColumnKind:
    """The kind of a declared type: `varchar(20)` is TEXT, `decimal(10,2)` NUMERIC."""
    name = declared.partition("(")[0].strip().upper()
    if name in _NAMED:
        return _NAMED[name]
    for part, kind in _AFFINITIES:
        if part in name:
            return kind
    return ColumnKind.OTHER


def _table(connection: sqlite3.Connection, name: str, wanted: TableSettings) -> Table:
    if name.startswith((PREFIX, "sqlite_")):
        raise TableUnfit(f'table "{name}" belongs to the engine; workers cannot reach it')
    if connection.execute(_TABLE, (name,)).fetchone() is None:
        raise TableUnfit(f'table "{name}" does not exist; create it (init = "CREATE TABLE …")')
    collations = dict(connection.execute(_KEY_COLLATIONS, (name,)).fetchall())
    rows = connection.execute(_COLUMNS, (name,)).fetchall()
    columns = tuple(
        Column(
            name=column,
            type_name=declared,
            kind=kind_of(declared),
            nullable=not not_null,
            has_default=default is not None,
            collated=collations.get(column, "BINARY") != "BINARY",
            generated=hidden in _GENERATED,
        )
        for column, declared, not_null, default, _, hidden in rows
    )
    key = tuple(row[0] for row in sorted((r for r in rows if r[4]), key=lambda row: row[4]))
    table = Table(name, columns, key, wanted.version_column)
    _check_version(table)
    return table


def _check_version(table: Table) -> None:
    if table.version_column is None:
        return
    column = table.column(table.version_column)
    if column is None:
        raise TableUnfit(f'table "{table.name}" has no column "{table.version_column}"')
    if column.kind is not ColumnKind.INTEGER or column.name in table.primary_key:
        raise TableUnfit(
            f'version_column "{column.name}" of table "{table.name}" must be an integer column '
            "outside the primary key"
        )
