"""The catalogue of a MariaDB database: what information_schema says, as columns with kinds.

A table that would not commit together with the fence is refused by name, never found out later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from gateway.model.catalogue import Catalogue, Column, ColumnKind, Table
from gateway.stores.mariadb import sql
from gateway.stores.mariadb.readout import Row
from gateway.stores.mariadb.sql import Sql, compose, join

PREFIX: Final = "fencegate_"
"""Of the fence's own tables."""

_COLUMNS: Final = (
    "SELECT t.table_name, t.table_type, t.engine, c.column_name, c.data_type, c.column_type, "
    "c.is_nullable, c.column_default, c.extra, c.character_maximum_length, c.collation_name, "
    "c.is_generated, (SELECT s.seq_in_index FROM information_schema.statistics AS s "
    "WHERE s.table_schema = t.table_schema AND s.table_name = t.table_name "
    "AND s.index_name = 'PRIMARY' AND s.column_name = c.column_name) AS key_place, "
    "EXISTS (SELECT 1 FROM information_schema.check_constraints AS k "
    "WHERE k.constraint_schema = t.table_schema AND k.table_name = t.table_name "
    "AND k.level = 'Column' AND k.constraint_name = c.column_name "
    "AND k.check_clause LIKE 'json_valid(%') AS is_json "
    "FROM information_schema.tables AS t JOIN information_schema.columns AS c "
    "ON c.table_schema = t.table_schema AND c.table_name = t.table_name "
    "WHERE t.table_schema = DATABASE() AND t.table_name IN ({names}) "
    "ORDER BY t.table_name, c.ordinal_position"
)
_KINDS: Final[Mapping[str, ColumnKind]] = MappingProxyType(
    {
        **dict.fromkeys(("tinyint", "smallint", "mediumint", "int"), ColumnKind.INTEGER),
        **dict.fromkeys(("bigint", "bit", "year"), ColumnKind.INTEGER),
        **dict.fromkeys(("float", "double"), ColumnKind.REAL),
        "decimal": ColumnKind.NUMERIC,
        **dict.fromkeys(("char", "varchar", "tinytext", "text"), ColumnKind.TEXT),
        **dict.fromkeys(("mediumtext", "longtext"), ColumnKind.TEXT),
        "uuid": ColumnKind.UUID,
        **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob"), ColumnKind.BINARY),
        **dict.fromkeys(("mediumblob", "longblob"), ColumnKind.BINARY),
    }
)
_TABLE_TYPES: Final = ("BASE TABLE", "SYSTEM VERSIONED")


class CatalogueError(Exception):
    """A configured table or version column is not there, or cannot be used. Says what to change."""


class TableRules(Protocol):
    """What a policy says about a table."""

    @property
    def version_column(self) -> str | None:
        """The integer column that is raised with every change, if any."""
        ...


@dataclass(frozen=True, slots=True)
class Shape:
    """A table, and the column that an INSERT names for a row of which nothing is given.

    `made_key`: the key column that the database numbers itself, if there is one.
    """

    table: Table
    filler: Column | None


@dataclass(frozen=True, slots=True)
class Shapes:
    """All tables of a store, as dialects and as statements see them."""

    catalogue: Catalogue
    by_name: Mapping[str, Shape]


def catalogue_query(tables: Iterable[str]) -> Sql:
    """Ask for the columns of these tables."""
    names = join(", ", map(sql.text, sorted(tables)))
    return compose(_COLUMNS, names=names or sql.NULL)


def read_shapes(database: str, rules: Mapping[str, TableRules], rows: Iterable[Row]) -> Shapes:
    """Build the catalogue. Raises CatalogueError."""
    grouped: dict[str, list[_Record]] = {name: [] for name in rules}
    for row in rows:
        record = _Record(row)
        if record.table in grouped:  # a name that differs in case alone is another
            grouped[record.table].append(record)
    shapes = {
        name: _shape(database, name, rules[name].version_column, records)
        for name, records in grouped.items()
    }
    tables = {name: shape.table for name, shape in shapes.items()}
    return Shapes(Catalogue(tables, database), shapes)


class _Record:
    """One column, as the query tells it."""

    def __init__(self, row: Row) -> None:
        cells = [cell.decode() if isinstance(cell, bytes) else cell for cell in row]
        self.table, self.table_type, self.engine = cells[0] or "", cells[1], cells[2]
        self.name, self.data_type = cells[3] or "", (cells[4] or "").lower()
        self.type_name = (cells[5] or "").lower()
        self.nullable = cells[6] == "YES"
        self.default = cells[7]
        self.numbered = "auto_increment" in (cells[8] or "").lower()
        self.max_chars = None if cells[9] is None else int(cells[9])
        self.collation = cells[10]
        self.generated = cells[11] not in (None, "NEVER")
        self.key_place = 0 if cells[12] is None else int(cells[12])
        self.is_json = cells[13] == "1"

    @property
    def kind(self) -> ColumnKind:
        """JSON is a longtext with a check, and a truth value a tinyint(1) (MariaDB's manual)."""
        if self.is_json:
            return ColumnKind.JSON
        if self.type_name.startswith("tinyint(1)"):
            return ColumnKind.BOOLEAN
        return _KINDS.get(self.data_type, ColumnKind.OTHER)

    def column(self) -> Column:
        """The column as dialects see it."""
        kind = self.kind
        return Column(
            name=self.name,
            type_name=self.type_name,
            kind=kind,
            nullable=self.nullable,
            has_default=self.numbered or (self.default is not None and self.default != "NULL"),
            max_chars=self.max_chars if kind is ColumnKind.TEXT else None,
            collated=not self._tells_texts_apart(),
            generated=self.generated,
        )

    def _tells_texts_apart(self) -> bool:
        """Only a `nopad_bin` collation does: `bin` alone takes no notice of blanks at the end.

        A char loses them when it is read (MariaDB's manual, "CHAR").
        """
        if self.collation is None:
            return True
        return self.collation.endswith("_nopad_bin") and self.data_type != "char"


def _shape(database: str, name: str, version: str | None, records: list[_Record]) -> Shape:
    if name.startswith(PREFIX):
        raise CatalogueError(f'table "{name}" belongs to the fence: remove it from tables')
    if not records:
        raise CatalogueError(
            f'there is no table "{name}" in database "{database}": create it, or correct its name '
            "under tables, or the database in dsn"
        )
    first = records[0]
    if first.table_type not in _TABLE_TYPES or first.engine != "InnoDB":
        what = first.engine or (first.table_type or "").lower()
        raise CatalogueError(
            f'table "{name}" is kept by {what}, so its rows would not commit together with the '
            "fence: make it an InnoDB table, or remove it from tables"
        )
    key = sorted((record.key_place, record.name) for record in records if record.key_place)
    table = Table(
        name,
        tuple(record.column() for record in records),
        tuple(column for _, column in key),
        version,
    )
    _check_version(table)
    return Shape(table, _filler(table, records))


def _filler(table: Table, records: list[_Record]) -> Column | None:
    """A column that NULL is the default of: one that is numbered, or nullable without a default."""
    for record in sorted(records, key=lambda record: not record.numbered):
        column = table.column(record.name)
        plain = record.nullable and record.default in (None, "NULL") and not record.generated
        if column is not None and (record.numbered or plain):
            return column
    return None


def _check_version(table: Table) -> None:
    if table.version_column is None:
        return
    column = table.column(table.version_column)
    if column is None or column.kind is not ColumnKind.INTEGER or column.generated:
        raise CatalogueError(
            f'table "{table.name}" has no integer column "{table.version_column}" to write: add '
            f"it, or correct tables.{table.name}.version_column"
        )
    if column.name in table.primary_key:
        raise CatalogueError(
            f'version_column "{column.name}" of table "{table.name}" is part of its primary key: '
            "name another"
        )
