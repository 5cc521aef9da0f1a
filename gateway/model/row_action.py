"""What a worker wants done with rows, in the words of the PostgREST dialect.

Values stay text: the database types them, and no number goes through a float on its way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class Comparison(StrEnum):
    """The filter operators of the dialect."""

    EQ = "eq"
    NEQ = "neq"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    LIKE = "like"
    ILIKE = "ilike"
    MATCH = "match"
    IMATCH = "imatch"
    IN = "in"
    IS = "is"
    IS_DISTINCT = "isdistinct"
    CONTAINS = "cs"
    CONTAINED = "cd"
    OVERLAPS = "ov"
    LEFT_OF = "sl"
    RIGHT_OF = "sr"
    NOT_RIGHT_OF = "nxr"
    NOT_LEFT_OF = "nxl"
    ADJACENT = "adj"
    FTS = "fts"
    PLAIN_FTS = "plfts"
    PHRASE_FTS = "phfts"
    WEB_FTS = "wfts"


TEXT_SEARCHES = frozenset(
    {Comparison.FTS, Comparison.PLAIN_FTS, Comparison.PHRASE_FTS, Comparison.WEB_FTS}
)
"""The operators that search a text; they may name a language."""

QUANTIFIABLE = frozenset(
    {Comparison.EQ, Comparison.GT, Comparison.GTE, Comparison.LT, Comparison.LTE}
    | {Comparison.LIKE, Comparison.ILIKE, Comparison.MATCH, Comparison.IMATCH}
)
"""The operators that `(any)` and `(all)` go with."""


class Truth(StrEnum):
    """What `is` can compare with."""

    NULL = "null"
    NOT_NULL = "not_null"
    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


class Quantifier(StrEnum):
    """`(any)` or `(all)` after an operator: the value is then an array literal, `{a,b}`."""

    ANY = "any"
    ALL = "all"


class Count(StrEnum):
    """Which total of rows was asked for; all are answered with the exact one."""

    EXACT = "exact"
    PLANNED = "planned"
    ESTIMATED = "estimated"


@dataclass(frozen=True, slots=True)
class Step:
    """One step into a document: `->key`, `->0`, or with `as_text` `->>key`."""

    key: str | int
    as_text: bool = False


Path = tuple[Step, ...]
"""The way from a column into its document; empty for the column itself."""


@dataclass(frozen=True, slots=True)
class Filter:
    """`column=op.value`. `negated`: `not.` stood before the operator.

    `values` has exactly one element, but any number (also none) for `in`; for `is` it is the text
    of a `Truth`. `language` is that of a text search.
    """

    column: str
    comparison: Comparison
    values: tuple[str, ...]
    negated: bool = False
    path: Path = ()
    quantifier: Quantifier | None = None
    language: str | None = None

    @property
    def pins(self) -> bool:
        """True when the column itself must equal one value."""
        plain = not (self.negated or self.path or self.quantifier)
        return plain and self.comparison is Comparison.EQ


@dataclass(frozen=True, slots=True)
class Group:
    """`and=(…)` or `or=(…)`; `any_of` for `or`."""

    any_of: bool
    parts: tuple[Predicate, ...]
    negated: bool = False


Predicate = Filter | Group


def pinning(predicates: Iterable[Predicate]) -> Iterator[Filter]:
    """The filters that every row found must satisfy, and that fix a column to one value."""
    for one in predicates:
        match one:
            case Filter():
                if one.pins:
                    yield one
            case Group(any_of=False, negated=False):
                yield from pinning(one.parts)
            case Group():
                pass


def filters_in(predicates: Iterable[Predicate]) -> Iterator[Filter]:
    """All filters, those inside groups too."""
    for one in predicates:
        match one:
            case Filter():
                yield one
            case Group():
                yield from filters_in(one.parts)


@dataclass(frozen=True, slots=True)
class Selected:
    """One item of `select`: a column or a path into it, a cast, and the name in the answer."""

    column: str
    path: Path = ()
    cast: str | None = None
    alias: str | None = None

    @property
    def plain(self) -> bool:
        """True for a column as it is, under its own name."""
        return not self.path and self.cast is None and self.alias is None

    @property
    def name(self) -> str:
        """The member that it becomes: its alias, or the last name of its path, or the column's."""
        if self.alias is not None:
            return self.alias
        names = (step.key for step in reversed(self.path) if isinstance(step.key, str))
        return next(names, self.column)


Selection = tuple[Selected, ...]
"""What of a row is shown; empty stands for all columns."""


@dataclass(frozen=True, slots=True)
class Order:
    """One `order` term. The dialect's default is spelt out: nulls last ascending, else first."""

    column: str
    descending: bool = False
    nulls_first: bool = False
    path: Path = ()


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
    """Read rows. `single` asks for exactly one row, else 406. `csv`: as comma-separated values."""

    table: str
    columns: Selection = ()
    filters: tuple[Predicate, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    single: bool = False
    count: Count | None = None
    csv: bool = False


@dataclass(frozen=True, slots=True)
class Conflict:
    """What becomes of a row whose `columns` stand there already: merged into it, or left out."""

    columns: tuple[str, ...]
    merge: bool


@dataclass(frozen=True, slots=True)
class InsertRows:
    """Insert rows; a row's columns without a member get their default.

    `returning` is None for no representation, empty for all columns, else what is wanted.
    `single`: anything but one row is refused and undone. `put`: the one row of this key (decided
    by the dialect) is replaced, or made where it is not there.
    """

    table: str
    rows: tuple[tuple[Member, ...], ...]
    returning: Selection | None = None
    single: bool = False
    conflict: Conflict | None = None
    put: bool = False
    csv: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that some row has a member for, in the order of their first mention."""
        return tuple(dict.fromkeys(member.column for row in self.rows for member in row))

    @property
    def ragged(self) -> frozenset[str]:
        """The columns that some rows have a member for, and others have not."""
        sent = [frozenset(member.column for member in row) for row in self.rows]
        return frozenset(self.columns) - frozenset.intersection(*sent) if sent else frozenset()

    @property
    def body(self) -> str:
        """The rows as JSON array text, for engines that take the whole body as one parameter."""
        return "[" + ",".join(map(object_text, self.rows)) + "]"


@dataclass(frozen=True, slots=True)
class UpdateRows:
    """Change the rows that the filters find; without members nothing is changed.

    `returning` and `single` as in `InsertRows`. More than `max_affected` rows are refused and
    undone.
    """

    table: str
    members: tuple[Member, ...]
    filters: tuple[Predicate, ...]
    returning: Selection | None = None
    single: bool = False
    max_affected: int | None = None
    csv: bool = False

    @property
    def body(self) -> str:
        """The changes as JSON object text."""
        return object_text(self.members)


@dataclass(frozen=True, slots=True)
class DeleteRows:
    """Remove the rows that the filters find. The other fields as in `UpdateRows`."""

    table: str
    filters: tuple[Predicate, ...]
    returning: Selection | None = None
    single: bool = False
    max_affected: int | None = None
    csv: bool = False


RowRead = SelectRows
RowWrite = InsertRows | UpdateRows | DeleteRows
