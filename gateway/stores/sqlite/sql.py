"""SQL text for row actions on SQLite, with its bound values.

Names come from the catalogue through `quoted`, values only as parameters; a test of the syntax
tree holds this module to it (SQLite, "SQL As Understood By SQLite").
"""
# ruff: noqa: S608 - what is interpolated is checked by that test, part by part

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.dialects.rows.etags import ANY, versions_of, weak_versions_of
from gateway.model.catalogue import Column, Table
from gateway.model.conditions import Conditions
from gateway.model.row_action import (
    Conflict,
    DeleteRows,
    Member,
    Order,
    Predicate,
    SelectRows,
    UpdateRows,
)
from gateway.stores.sqlite.predicates import (
    Piece,
    column_of,
    expression,
    joined,
    marks,
    quoted,
    where,
)
from gateway.stores.sqlite.result import Readout
from gateway.stores.sqlite.values import SqlValue, member_value

_NO_LIMIT: Final = -1
_DIRECTIONS: Final = {True: "DESC", False: "ASC"}
_NULLS: Final = {True: "NULLS FIRST", False: "NULLS LAST"}


def select(table: Table, action: SelectRows, shown: Readout) -> Piece:
    """Read what is shown of the rows that the action's filters find. Raises RequestError."""
    found = where(table, action.filters)
    order = Piece("")
    if action.order:
        terms = joined([_order_term(table, term) for term in action.order], ", ")
        order = Piece(f"ORDER BY {terms.sql}", terms.values)
    limit = _NO_LIMIT if action.limit is None else action.limit
    read = shown.piece
    return Piece(
        f"SELECT {read.sql} FROM {quoted(table)} {found.sql} {order.sql} LIMIT ? OFFSET ?",
        (*read.values, *found.values, *order.values, limit, action.offset),
    )


def count(table: Table, filters: tuple[Predicate, ...]) -> Piece:
    """Count the rows that filters find. Raises RequestError."""
    found = where(table, filters)
    return Piece(f"SELECT count(*) FROM {quoted(table)} {found.sql}", found.values)


def select_one(
    table: Table,
    filters: tuple[Predicate, ...],
    shown: Readout,
    conditions: Conditions | None = None,
) -> Piece:
    """Read any one row that filters and conditions find. Raises RequestError."""
    tests = [] if conditions is None else _version_tests(table, conditions)
    found, read = where(table, filters, tests), shown.piece
    return Piece(
        f"SELECT {read.sql} FROM {quoted(table)} {found.sql} LIMIT 1",
        (*read.values, *found.values),
    )


def standing(table: Table, row: tuple[Member, ...], conflict: Conflict) -> Piece | None:
    """Look for the row that this one conflicts with; None where it can conflict with none."""
    sent = {member.column: member for member in row}
    tests = []
    for name in conflict.columns:
        column, member = column_of(table, name), sent.get(name)
        if member is None or member.text is None:
            return None
        tests.append(Piece(f"{quoted(column)} = ?", (member_value(column, member),)))
    found = where(table, (), tests)
    return Piece(f"SELECT 1 FROM {quoted(table)} {found.sql}", found.values)


def insert(
    table: Table,
    row: tuple[Member, ...],
    shown: Readout,
    conflict: Conflict | None,
) -> Piece:
    """Insert one row; the version starts at 1. Raises RequestError.

    A row that stands there already under the columns of `conflict` is changed, with its version
    raised, or left alone: nothing is returned then.
    """
    pairs = [(column_of(table, m.column), m) for m in row]
    names = [column for column, _ in pairs]
    values = [member_value(column, member) for column, member in pairs]
    sets = [Piece(f"{quoted(column)} = excluded.{quoted(column)}") for column in names]
    if (version := version_of(table)) is not None:
        names.append(version)
        values.append(1)
        sets.append(_raised(version))
    what = Piece("DEFAULT VALUES")
    if names:
        what = Piece(f"({_names(names)}) VALUES ({marks(values)})", tuple(values))
    spare = Piece("")
    if conflict is not None and names:
        target = [column_of(table, name) for name in conflict.columns]
        change = joined(sets, ", ")
        spare = Piece(f"ON CONFLICT ({_names(target)}) DO NOTHING")
        if conflict.merge:
            spare = Piece(f"ON CONFLICT ({_names(target)}) DO UPDATE SET {change.sql}")
    read = shown.piece
    return Piece(
        f"INSERT OR ABORT INTO {quoted(table)} {what.sql} {spare.sql} RETURNING {read.sql}",
        (*what.values, *read.values),
    )


def update(table: Table, action: UpdateRows, conditions: Conditions, shown: Readout) -> Piece:
    """Change the rows and raise their version. Raises RequestError.

    OR ABORT overrides the table's own ON CONFLICT REPLACE, which would remove rows of other scopes
    (SQLite, "The ON CONFLICT Clause").
    """
    changes = [_change(table, member) for member in action.members]
    if (version := version_of(table)) is not None:
        changes.append(_raised(version))
    change = joined(changes, ", ")
    found = where(table, action.filters, _version_tests(table, conditions))
    read = shown.piece
    return Piece(
        f"UPDATE OR ABORT {quoted(table)} SET {change.sql} {found.sql} RETURNING {read.sql}",
        (*change.values, *found.values, *read.values),
    )


def delete(table: Table, action: DeleteRows, conditions: Conditions, shown: Readout) -> Piece:
    """Remove the rows. Raises RequestError."""
    found = where(table, action.filters, _version_tests(table, conditions))
    read = shown.piece
    return Piece(
        f"DELETE FROM {quoted(table)} {found.sql} RETURNING {read.sql}",
        (*found.values, *read.values),
    )


def version_of(table: Table) -> Column | None:
    """The table's version column, if it has one."""
    return None if table.version_column is None else table.column(table.version_column)


def _raised(version: Column) -> Piece:
    return Piece(f"{quoted(version)} = coalesce({quoted(version)}, 0) + 1")


def _order_term(table: Table, term: Order) -> Piece:
    value = expression(table, term.column, term.path).piece
    return Piece(
        f"{value.sql} {_DIRECTIONS[term.descending]} {_NULLS[term.nulls_first]}", value.values
    )


def _names(columns: Iterable[Column]) -> str:
    return ", ".join(quoted(column) for column in columns)


def _change(table: Table, member: Member) -> Piece:
    column = column_of(table, member.column)
    return Piece(f"{quoted(column)} = ?", (member_value(column, member),))


def _version_tests(table: Table, conditions: Conditions) -> list[Piece]:
    """If-Match and If-None-Match as predicates of the statement that writes."""
    tests: list[Piece] = []
    version = version_of(table)
    if version is None:
        return tests
    if conditions.if_match is not None and conditions.if_match != ANY:
        known: tuple[SqlValue, ...] = versions_of(conditions.if_match)
        tests.append(Piece(f"{quoted(version)} IN ({marks(known)})", known))
    if conditions.if_none_match is not None and conditions.if_none_match != ANY:
        known = weak_versions_of(conditions.if_none_match)
        tests.append(Piece(f"{quoted(version)} NOT IN ({marks(known)})", known))
    return tests
