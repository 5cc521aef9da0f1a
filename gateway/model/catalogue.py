"""The catalogue: the tables, columns and keys of a database that workers may reach.

A table name or a column name reaches SQL text only when it stands here (facts of the rows dialect:
identifiers are never interpolated from a request). Types are those of the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class ColumnKind(StrEnum):
    """What the gateway must know of a column's type; the database knows the rest."""

    INTEGER = "integer"
    REAL = "real"
    NUMERIC = "numeric"
    TEXT = "text"
    BOOLEAN = "boolean"
    UUID = "uuid"
    JSON = "json"
    BINARY = "binary"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `type_name` is the type as the database spells it, fit for a cast.

    `max_chars` is the length that a text type cuts or refuses at, None without one. `collated` is
    True when the database takes two different texts for equal (a case-insensitive collation).
    `generated`: the database computes it from the others, so that nobody can write it.
    """

    name: str
    type_name: str
    kind: ColumnKind
    nullable: bool = True
    has_default: bool = False
    max_chars: int | None = None
    collated: bool = False
    generated: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `primary_key` names its key columns in order, empty without a key.

    `version_column` is the integer column that the gateway raises with every change, if any.
    """

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    version_column: str | None = None

    def column(self, name: str) -> Column | None:
        """Find a column by its exact name."""
        for column in self.columns:
            if column.name == name:
                return column
        return None

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns of the primary key, in its order."""
        found = (self.column(name) for name in self.primary_key)
        return tuple(column for column in found if column is not None)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All tables that workers may reach, by exact name, in one schema."""

    tables: Mapping[str, Table]
    schema: str = "public"
