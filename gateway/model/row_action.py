"""What a worker wants done with rows, in the words of the PostgREST dialect.

Values stay text: the database types them, and no number goes through a float on its way.
"""

from __future__ import annotations

import json
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


class Truth(StrEnum):
    """What `is` can compare with."""

    NULL = "null"
    NOT_NULL = "not_null"
    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Filter:
    """`column=op.value`. `negated`: `not.` stood before the operator.

    `values` has exactly one element, but any number (also none) for `in`; for `is` it is the text
    of a `Truth`.
    """

    column: str
    comparison: Comparison
    values: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """One `order` term. The dialect's default is spelt out: nulls last ascending, else first."""

    column: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a row's JSON object: the column, and its value's JSON text as it came."""

    column: str
    json: str

    @property
    def text(self) -> str | None:
        """What the column type's text input gets: None for null, a string's content, else JSON."""
        if self.json == "null":
            return None
        if self.json.startswith('"'):
            content: str = json.loads(self.json)
            return content
        return self.json


def object_text(members: tuple[Member, ...]) -> str:
    """Write the members as one JSON object, with each value as it came."""
    return "{" + ",".join(f"{json.dumps(m.column)}:{m.json}" for m in members) + "}"


@dataclass(frozen=True, slots=True)
class SelectRows:
    """Read rows. `columns` empty means all; `single` asks for exactly one row, else 406."""

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
    """Insert one row with these members; columns without one get their default.

    `returning` is None for no representation, empty for all columns, else the columns wanted.
    `single`: anything but one row is refused and undone.
    """

    table: str
    members: tuple[Member, ...]
    returning: tuple[str, ...] | None = None
    single: bool = False

    @property
    def body(self) -> str:
        """The row as JSON object text, for engines that take the whole body as one parameter."""
        return object_text(self.members)


@dataclass(frozen=True, slots=True)
class UpdateRows:
    """Change the rows that the filters find; without members nothing is changed.

    `returning` and `single` as in `InsertRow`. More than `max_affected` rows are refused and
    undone.
    """

    table: str
    members: tuple[Member, ...]
    filters: tuple[Filter, ...]
    returning: tuple[str, ...] | None = None
    single: bool = False
    max_affected: int | None = None

    @property
    def body(self) -> str:
        """The changes as JSON object text."""
        return object_text(self.members)


@dataclass(frozen=True, slots=True)
class DeleteRows:
    """Remove the rows that the filters find. The other fields as in `UpdateRows`."""

    table: str
    filters: tuple[Filter, ...]
    returning: tuple[str, ...] | None = None
    single: bool = False
    max_affected: int | None = None


RowRead = SelectRows
RowWrite = InsertRow | UpdateRows | DeleteRows
