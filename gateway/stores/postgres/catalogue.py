"""Owns what the database says about its tables: names and types, as PostgreSQL quotes them.

The shared `Catalogue` is what dialects see; `Shape` holds the same tables as SQL text, which is the
only source of identifiers and type names in statements (PostgreSQL manual, "System Catalogs").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from gateway.model.catalogue import Catalogue, Column, ColumnKind, Table
from gateway.stores.postgres.sql import Arguments, Sql, Statement

_QUERY: Final = Sql(resources.files(__package__).joinpath("catalogue.sql").read_text("utf-8"))

_WRITABLE_KINDS: Final = ("r", "p", "v")
"""Tables, partitioned tables, views. A foreign table commits elsewhere, not with the fence."""

_KINDS: Final[Mapping[str, ColumnKind]] = {
    "int2": ColumnKind.INTEGER,
    "int4": ColumnKind.INTEGER,
    "int8": ColumnKind.INTEGER,
    "float4": ColumnKind.REAL,
    "float8": ColumnKind.REAL,
    "numeric": ColumnKind.NUMERIC,
    "text": ColumnKind.TEXT,
    "varchar": ColumnKind.TEXT,
    "bpchar": ColumnKind.TEXT,
    "bool": ColumnKind.BOOLEAN,
    "uuid": ColumnKind.UUID,
    "json": ColumnKind.JSON,
    "jsonb": ColumnKind.JSON,
    "bytea": ColumnKind.BINARY,
}

Record = Mapping[str, Any]


class CatalogueError(Exception):
    """A configured table or version column is not there, or cannot be used. Says what to change."""


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """A column as SQL: its quoted name, its full type, and the type that filters cast to.

    `cast_type` has no length, because a cast to `varchar(5)` or `bit` cuts without an error.
    `default` is the expression that the database itself would put there, None without one.
    """

    name: Sql
    record_type: Sql
    cast_type: Sql
    is_array: bool
    default: Sql | None = None
    is_json: bool = False
    is_searchable: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """A table as SQL: its quoted, qualified name, and its columns by their plain names.

    `tells_new`: a statement can tell rows that it made from rows that it changed. Views and
    partitioned tables have no `xmax` to tell it by.
    """

    table: Table
    name: Sql
    columns: Mapping[str, ColumnShape]
    version: Sql | None
    tells_new: bool = True

    @property
    def key(self) -> tuple[Sql, ...]:
        """The quoted names of the key columns."""
        return tuple(self.columns[name].name for name in self.table.primary_key)


@dataclass(frozen=True, slots=True)
class Shapes:
    """All tables of a store, both ways."""

    catalogue: Catalogue
    by_name: Mapping[str, Shape]


def catalogue_query(schema: str, tables: Iterable[str]) -> Statement:
    """Ask for the columns of these tables."""
    arguments = Arguments()
    arguments.text(schema)
    arguments.texts(sorted(tables))
    return arguments.statement(_QUERY)


def read_shapes(
    schema: str, versions: Mapping[str, str | None], records: Iterable[Record]
) -> Shapes:
    """Build the catalogue. `versions` names the tables, each with its version column or None.

    Raises `CatalogueError`.
    """
    grouped: dict[str, list[Record]] = {name: [] for name in versions}
    for record in records:
        grouped[record["table_name"]].append(record)
    shapes = {
        name: _read_shape(schema, name, versions[name], columns)
        for name, columns in grouped.items()
    }
    tables = {name: shape.table for name, shape in shapes.items()}
    return Shapes(Catalogue(tables, schema), shapes)


def _read_shape(schema: str, name: str, version: str | None, records: list[Record]) -> Shape:
    if not records:
        raise CatalogueError(
            f'there is no table "{name}" in schema "{schema}": create it, or correct its name '
            "under tables, or the setting schema"
        )
    if records[0]["relkind"] not in _WRITABLE_KINDS:
        raise CatalogueError(
            f'"{schema}"."{name}" is neither a table nor a view of this database, so its rows '
            "would not commit together with the fence: remove it from tables"
        )
    placed = [(int(record["key_place"]), record) for record in records]
    key = sorted((place, str(record["column_name"])) for place, record in placed if place > 0)
    table = Table(
        name=name,
        columns=tuple(_read_column(record) for record in records),
        primary_key=tuple(column for _, column in key),
        version_column=version,
    )
    columns = {record["column_name"]: _column_shape(record) for record in records}
    return Shape(
        table=table,
        name=Sql(records[0]["table_sql"]),
        columns=columns,
        version=None if version is None else _version_name(table, columns, version),
        tells_new=records[0]["relkind"] == "r",
    )


def _version_name(table: Table, columns: Mapping[str, ColumnShape], version: str) -> Sql:
    column = table.column(version)
    if column is None or column.kind is not ColumnKind.INTEGER:
        raise CatalogueError(
            f'table "{table.name}" has no integer column "{version}": add it, or correct '
            f"tables.{table.name}.version_column"
        )
    return columns[version].name


def _column_shape(record: Record) -> ColumnShape:
    return ColumnShape(
        name=Sql(record["column_sql"]),
        record_type=Sql(record["record_type"]),
        cast_type=Sql(record["cast_type"]),
        is_array=record["is_array"],
        default=None if record["default_sql"] is None else Sql(record["default_sql"]),
        is_json=record["is_builtin"] and record["base_name"] in ("json", "jsonb"),
        is_searchable=record["is_builtin"] and record["base_name"] == "tsvector",
    )


def _read_column(record: Record) -> Column:
    builtin, base = record["is_builtin"], record["base_name"]
    kind = _KINDS.get(base, ColumnKind.OTHER) if builtin else ColumnKind.OTHER
    return Column(
        name=record["column_name"],
        type_name=record["cast_type"],
        kind=kind,
        nullable=record["nullable"],
        has_default=record["has_default"],
        max_chars=record["max_chars"],
        # bpchar compares without trailing blanks, so two texts of it can be one value.
        collated=record["collated"] or base == "bpchar",
        generated=record["is_generated"],
    )
