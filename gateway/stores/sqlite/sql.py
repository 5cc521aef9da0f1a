"""SQL text for row actions on SQLite, with its bound values.

Names come from the catalogue through `quoted`, values only as parameters; a test of the syntax
tree holds this module to it (SQLite, "SQL As Understood By SQLite").
"""
# ruff: noqa: S608 - what is interpolated is checked by that test, part by part

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.dialects.rows.etags import ANY, versions_of, weak_versions_of
from gateway.dialects.rows.problems import RequestError, no_column
from gateway.dialects.rows.sql import BINARY_OPERATORS, TRUTH_TESTS
from gateway.model.catalogue import Column, ColumnKind, Table
from gateway.model.conditions import Conditions
from gateway.model.row_action import (
    Comparison,
    DeleteRows,
    Filter,
    InsertRow,
    Member,
    Order,
    SelectRows,
    Truth,
    UpdateRows,
)
from gateway.stores.sqlite.values import SqlValue, member_value, no_truth_value, text_value

_NO_LIMIT: Final = -1
_BOOLEAN_TESTS: Final = frozenset({Truth.TRUE, Truth.FALSE, Truth.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Piece:
    """Some SQL text, and the values of its parameters in order."""

    sql: str
    values: tuple[SqlValue, ...] = ()


def select(table: Table, action: SelectRows, columns: tuple[Column, ...]) -> Piece:
    """Read `columns` of the rows that the action's filters find. Raises RequestError."""
    where = _where(table, action.filters)
    terms = _joined([_order_term(table, term) for term in action.order], ", ")
    order = Piece(f"ORDER BY {terms.sql}") if action.order else Piece("")
    limit = _NO_LIMIT if action.limit is None else action.limit
    return Piece(
        f"SELECT {_names(columns)} FROM {quoted(table)} {where.sql} {order.sql} LIMIT ? OFFSET ?",
        (*where.values, limit, action.offset),
    )


def select_one(
    table: Table,
    filters: tuple[Filter, ...],
    columns: tuple[Column, ...],
    conditions: Conditions | None = None,
) -> Piece:
    """Read `columns` of any one row that filters and conditions find. Raises RequestError."""
    where = _where(table, filters, conditions)
    return Piece(f"SELECT {_names(columns)} FROM {quoted(table)} {where.sql} LIMIT 1", where.values)


def insert(
    table: Table, action: InsertRow, columns: tuple[Column, ...], *, only_new: bool
) -> Piece:
    """Insert the row, returning `columns`; the version starts at 1. Raises RequestError.

    `only_new`: a row with the same primary key is left alone and nothing is returned, which is
    what If-None-Match: * asks for.
    """
    pairs = [(_column(table, m.column), m) for m in action.members]
    names = [column for column, _ in pairs]
    values = [member_value(column, member) for column, member in pairs]
    if (version := version_of(table)) is not None:
        names.append(version)
        values.append(1)
    row = Piece("DEFAULT VALUES")
    if names:
        row = Piece(f"({_names(names)}) VALUES ({_marks(values)})", tuple(values))
    spare = Piece("")
    if only_new:
        spare = Piece(f"ON CONFLICT ({_names(table.key_columns)}) DO NOTHING")
    return Piece(
        f"INSERT OR ABORT INTO {quoted(table)} {row.sql} {spare.sql} RETURNING {_names(columns)}",
        row.values,
    )


def update(
    table: Table, action: UpdateRows, conditions: Conditions, columns: tuple[Column, ...]
) -> Piece:
    """Change the rows and raise their version, returning `columns`. Raises RequestError.

    OR ABORT overrides the table's own ON CONFLICT REPLACE, which would remove rows of other scopes
    (SQLite, "The ON CONFLICT Clause").
    """
    changes = [_change(table, member) for member in action.members]
    if (version := version_of(table)) is not None:
        changes.append(Piece(f"{quoted(version)} = coalesce({quoted(version)}, 0) + 1"))
    change = _joined(changes, ", ")
    where = _where(table, action.filters, conditions)
    return Piece(
        f"UPDATE OR ABORT {quoted(table)} SET {change.sql} {where.sql} RETURNING {_names(columns)}",
        (*change.values, *where.values),
    )


def delete(
    table: Table, action: DeleteRows, conditions: Conditions, columns: tuple[Column, ...]
) -> Piece:
    """Remove the rows, returning `columns`. Raises RequestError."""
    where = _where(table, action.filters, conditions)
    return Piece(
        f"DELETE FROM {quoted(table)} {where.sql} RETURNING {_names(columns)}", where.values
    )


def quoted(thing: Table | Column) -> str:
    """Quote the name of a catalogue entry.

    Not in double quotes: SQLite takes a double-quoted name that it does not know for a string,
    so a filter on a column that was dropped meanwhile would compare two constants (SQLite,
    "Quirks", section 8). A name in backticks is always a name.
    """
    return "`" + thing.name.replace("`", "``") + "`"


def version_of(table: Table) -> Column | None:
    """The table's version column, if it has one."""
    return None if table.version_column is None else table.column(table.version_column)


def _order_term(table: Table, term: Order) -> Piece:
    column = _column(table, term.column)
    if term.descending:
        return Piece(f"{quoted(column)} DESC {_nulls(term)}")
    return Piece(f"{quoted(column)} ASC {_nulls(term)}")


def _nulls(term: Order) -> str:
    return "NULLS FIRST" if term.nulls_first else "NULLS LAST"


def _column(table: Table, name: str) -> Column:
    column = table.column(name)
    if column is None:
        raise RequestError(no_column(name, table.name))
    return column


def _names(columns: Iterable[Column]) -> str:
    return ", ".join(quoted(column) for column in columns)


def _marks(values: Iterable[SqlValue]) -> str:
    return ", ".join("?" for _ in values)


def _joined(pieces: list[Piece], between: str) -> Piece:
    values = tuple(value for piece in pieces for value in piece.values)
    return Piece(between.join(piece.sql for piece in pieces), values)


def _change(table: Table, member: Member) -> Piece:
    column = _column(table, member.column)
    return Piece(f"{quoted(column)} = ?", (member_value(column, member),))


def _where(
    table: Table, filters: tuple[Filter, ...], conditions: Conditions | None = None
) -> Piece:
    tests = [_test(table, item) for item in filters]
    if conditions is not None:
        tests.extend(_version_tests(table, conditions))
    if not tests:
        return Piece("")
    whole = _joined(tests, " AND ")
    return Piece(f"WHERE {whole.sql}", whole.values)


def _version_tests(table: Table, conditions: Conditions) -> list[Piece]:
    """If-Match and If-None-Match as predicates of the statement that writes."""
    tests: list[Piece] = []
    version = version_of(table)
    if version is None:
        return tests
    if conditions.if_match is not None and conditions.if_match != ANY:
        known = versions_of(conditions.if_match)
        tests.append(Piece(f"{quoted(version)} IN ({_marks(known)})", known))
    if conditions.if_none_match is not None and conditions.if_none_match != ANY:
        known = weak_versions_of(conditions.if_none_match)
        tests.append(Piece(f"{quoted(version)} NOT IN ({_marks(known)})", known))
    return tests


def _test(table: Table, item: Filter) -> Piece:
    column = _column(table, item.column)
    test = _plain_test(column, item)
    return Piece(f"NOT ({test.sql})", test.values) if item.negated else test


def _plain_test(column: Column, item: Filter) -> Piece:
    if item.comparison is Comparison.IS:
        truth = Truth(item.values[0])
        if truth in _BOOLEAN_TESTS and column.kind is not ColumnKind.BOOLEAN:
            raise no_truth_value(column, truth)
        return Piece(f"{quoted(column)} {TRUTH_TESTS[truth]}")
    values = tuple(text_value(column, text) for text in item.values)
    if item.comparison is Comparison.IN:
        return Piece(f"{quoted(column)} IN ({_marks(values)})", values)
    return Piece(f"{quoted(column)} {BINARY_OPERATORS[item.comparison]} ?", values)
