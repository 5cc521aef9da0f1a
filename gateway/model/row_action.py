"""What a worker wants done with rows, in the words of the PostgREST dialect.

Values stay text: the database types them (facts: never Python values through native codecs).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Comparison(StrEnum):
    """The filter operators of the dialect that this release knows."""

    EQ = "eq"
    NEQ = "neq"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    IN = "in"
    IS = "is"


@dataclass(frozen=True, slots=True)
class Filter:
    """`column=op.value`; `values` has one element except for `in`. `negated`: `not.` before."""

    column: str
    comparison: Comparison
    values: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """One `order` term; `nulls_first` is None when the client left it to the dialect."""

    column: str
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class SelectRows:
    """Read rows. `columns` empty means all; `single` asks for exactly one as an object."""

    table: str
    columns: tuple[str, ...] = ()
    filters: tuple[Filter, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    single: bool = False
    head: bool = False


@dataclass(frozen=True, slots=True)
class InsertRow:
    """Insert one row: `body` is the JSON object's text, `columns` the members it has."""

    table: str
    body: str
    columns: tuple[str, ...]
    returning: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class UpdateRows:
    """Change the rows that the filters find. `returning`: None minimal, () all columns."""

    table: str
    body: str
    columns: tuple[str, ...]
    filters: tuple[Filter, ...]
    returning: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class DeleteRows:
    """Remove the rows that the filters find."""

    table: str
    filters: tuple[Filter, ...]
    returning: tuple[str, ...] | None = None


RowRead = SelectRows
RowWrite = InsertRow | UpdateRows | DeleteRows
