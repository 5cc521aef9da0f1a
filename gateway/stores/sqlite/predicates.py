"""Filters as SQL text for SQLite, with their bound values.

Names come from the catalogue through `quoted`, values only as parameters. What SQLite has no
equal of (regular expressions, ranges, arrays, text search) is refused by its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gateway.dialects.rows.array_text import array_elements
from gateway.dialects.rows.problems import RequestError, no_column
from gateway.dialects.rows.sql import BINARY_OPERATORS, TRUTH_TESTS
from gateway.dialects.rows.typed_text import no_documents, no_pattern, no_truth_value
from gateway.model.catalogue import Column, ColumnKind, Table
from gateway.model.row_action import (
    Comparison,
    Filter,
    Path,
    Predicate,
    Quantifier,
    Selected,
    Truth,
)
from gateway.stores.sqlite.patterns import glob_of, json_way, like_of
from gateway.stores.sqlite.values import (
    SqlValue,
    no_cast,
    no_operator,
    text_value,
)

CASTS: Final = MappingProxyType(
    {
        **dict.fromkeys(("text", "character varying"), ColumnKind.TEXT),
        **dict.fromkeys(("smallint", "integer", "bigint"), ColumnKind.INTEGER),
        **dict.fromkeys(("real", "double precision"), ColumnKind.REAL),
        "numeric": ColumnKind.NUMERIC,
    }
)
"""The casts of the dialect that SQLite knows, with what comes of each."""
_AFFINITIES: Final = MappingProxyType(
    {
        ColumnKind.TEXT: "TEXT",
        ColumnKind.INTEGER: "INTEGER",
        ColumnKind.REAL: "REAL",
        ColumnKind.NUMERIC: "NUMERIC",
    }
)
_BOOLEAN_TESTS: Final = frozenset({Truth.TRUE, Truth.FALSE, Truth.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Piece:
    """Some SQL text, and the values of its parameters in order."""

    sql: str
    values: tuple[SqlValue, ...] = ()


def joined(pieces: list[Piece], between: str) -> Piece:
    """Put pieces in a row."""
    values = tuple(value for piece in pieces for value in piece.values)
    return Piece(between.join(piece.sql for piece in pieces), values)


def quoted(thing: Table | Column) -> str:
    """Quote the name of a catalogue entry.

    Not in double quotes: SQLite takes a double-quoted name that it does not know for a string,
    so a filter on a column that was dropped meanwhile would compare two constants (SQLite,
    "Quirks", section 8). A name in backticks is always a name.
    """
    return "`" + thing.name.replace("`", "``") + "`"


def marks(values: Iterable[SqlValue]) -> str:
    """The placeholders of these values."""
    return ", ".join("?" for _ in values)


def column_of(table: Table, name: str) -> Column:
    """Find a column. Raises RequestError."""
    column = table.column(name)
    if column is None:
        raise RequestError(no_column(name, table.name))
    return column


@dataclass(frozen=True, slots=True)
class Expression:
    """A value of a row, and what is known of its type."""

    piece: Piece
    column: Column


def expression(table: Table, name: str, path: Path) -> Expression:
    """A column, or what a path into its document leads to: a text after `->>`, else JSON."""
    column = column_of(table, name)
    if not path:
        return Expression(Piece(f"{quoted(column)}"), column)
    if column.kind not in (ColumnKind.JSON, ColumnKind.TEXT):
        raise no_documents(column)
    way = json_way(path)
    if not path[-1].as_text:
        kind = Column(name, "json", ColumnKind.JSON)
        return Expression(Piece(f"({quoted(column)} -> ?)", (way,)), kind)
    text = Piece(
        f"(CASE json_type({quoted(column)}, ?) WHEN 'true' THEN 'true' WHEN 'false' THEN 'false'"
        f" ELSE CAST({quoted(column)} ->> ? AS TEXT) END)",
        (way, way),
    )
    return Expression(text, Column(name, "text", ColumnKind.TEXT))


def shown_value(table: Table, item: Selected) -> Expression:
    """What an item of `select` gives back. Raises RequestError."""
    value = expression(table, item.column, item.path)
    if item.cast is None:
        return value
    if item.cast not in CASTS:
        raise no_cast(item.cast)
    column = Column(item.column, item.cast, CASTS[item.cast])
    if column.kind is ColumnKind.TEXT and value.column.kind is ColumnKind.BOOLEAN:
        piece = Piece(
            f"(CASE {value.piece.sql} WHEN 0 THEN 'false' WHEN 1 THEN 'true' END)",
            value.piece.values,
        )
    else:
        piece = Piece(f"CAST({value.piece.sql} AS {_AFFINITIES[column.kind]})", value.piece.values)
    return Expression(piece, column)


def where(table: Table, filters: Iterable[Predicate], more: Iterable[Piece] = ()) -> Piece:
    """The WHERE clause of filters and further tests, empty without any. Raises RequestError."""
    tests = [*(_predicate(table, item) for item in filters), *more]
    if not tests:
        return Piece("")
    whole = joined(tests, " AND ")
    return Piece(f"WHERE {whole.sql}", whole.values)


def _predicate(table: Table, item: Predicate) -> Piece:
    if isinstance(item, Filter):
        test = _test(table, item)
    else:
        test = joined([_predicate(table, part) for part in item.parts], _between(item.any_of))
        test = Piece(f"({test.sql})", test.values)
    return Piece(f"NOT ({test.sql})", test.values) if item.negated else test


def _between(any_of: bool) -> str:
    return " OR " if any_of else " AND "


def _test(table: Table, item: Filter) -> Piece:
    left = expression(table, item.column, item.path)
    if item.comparison is Comparison.IS:
        return _truth_test(left, Truth(item.values[0]))
    if item.comparison is Comparison.IN:
        values = tuple(text_value(left.column, text) for text in item.values)
        return _after(left, Piece(f"IN ({marks(values)})", values))
    if item.quantifier is None:
        return _comparison(left, item.comparison, item.values[0])
    elements = array_elements(item.values[0])
    if not elements:
        return Piece("1") if item.quantifier is Quantifier.ALL else Piece("0")
    tests = [_comparison(left, item.comparison, element) for element in elements]
    whole = joined(tests, _between(item.quantifier is Quantifier.ANY))
    return Piece(f"({whole.sql})", whole.values)


def _comparison(left: Expression, comparison: Comparison, text: str) -> Piece:
    match comparison:
        case Comparison.LIKE | Comparison.ILIKE:
            if left.column.kind not in (ColumnKind.TEXT, ColumnKind.OTHER):
                raise no_pattern(left.column)
            pattern = text.replace("*", "%")
            if comparison is Comparison.LIKE:
                return _after(left, Piece("GLOB ?", (glob_of(pattern),)))
            return _after(left, Piece("LIKE ? ESCAPE '\\'", (like_of(pattern),)))
        case Comparison.IS_DISTINCT:
            return _after(left, Piece("IS NOT ?", (text_value(left.column, text),)))
        case known if known in BINARY_OPERATORS:
            value = text_value(left.column, text)
            return _after(left, Piece(f"{BINARY_OPERATORS[known]} ?", (value,)))
        case _:
            raise no_operator(comparison)


def _after(left: Expression, test: Piece) -> Piece:
    return Piece(f"{left.piece.sql} {test.sql}", (*left.piece.values, *test.values))


def _truth_test(left: Expression, truth: Truth) -> Piece:
    if truth in _BOOLEAN_TESTS and left.column.kind is not ColumnKind.BOOLEAN:
        raise no_truth_value(left.column, truth)
    return _after(left, Piece(f"{TRUTH_TESTS[truth]}"))
