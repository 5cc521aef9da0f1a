"""From a request's parts to its row action and resource: the decisions of the dialect, no I/O.

Source: PostgREST reference, "Tables and Views"; decisions, "Canonical resources".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.dialects.rows.canonical import changes_key, key_of_filters, key_of_members
from gateway.dialects.rows.etags import ANY
from gateway.dialects.rows.prefer import Preferences, Returning
from gateway.dialects.rows.problems import (
    RequestError,
    condition_unsupported,
    no_column,
    no_member_column,
    unsupported,
)
from gateway.dialects.rows.query import Query
from gateway.dialects.rows.row_body import parse_rows
from gateway.model.catalogue import Table
from gateway.model.conditions import Conditions
from gateway.model.problem import Code, Problem
from gateway.model.row_action import DeleteRows, InsertRow, Member, SelectRows, UpdateRows

RowAction = SelectRows | InsertRow | UpdateRows | DeleteRows


@dataclass(frozen=True, slots=True)
class Asked:
    """The parts of a request, each understood for itself. `body` is empty where it is ignored."""

    method: str
    table: Table
    query: Query
    preferences: Preferences
    single: bool
    body: bytes = b""


def action_of(asked: Asked) -> tuple[RowAction, str | None]:
    """Build the row action, and the canonical key it is pinned to, if any. Raises RequestError."""
    _check_query_columns(asked.table, asked.query)
    match asked.method:
        case "POST":
            return _insert(asked)
        case "PATCH":
            return _update(asked)
        case "DELETE":
            return _delete(asked)
        case _:
            return _select(asked)


def check_conditions(
    method: str, conditions: Conditions, table: Table, *, pinned: bool, single: bool
) -> None:
    """Refuse by name a condition that cannot be evaluated for this request. Raises RequestError."""
    if not conditions:
        return
    field = "If-Match" if conditions.if_match is not None else "If-None-Match"
    if why := _why_not(method, conditions, table, pinned, single):
        raise RequestError(condition_unsupported(field, why))


def _why_not(
    method: str, conditions: Conditions, table: Table, pinned: bool, single: bool
) -> str | None:
    if method == "POST":
        if conditions.if_match is not None or conditions.if_none_match != ANY:
            return "a row to be inserted has no version yet; only If-None-Match: * fits"
        return None if pinned else "the body must hold the row's whole primary key"
    if table.version_column is None:
        return f'table "{table.name}" has no version_column in the policy'
    if method in ("GET", "HEAD"):
        return None if pinned or single else "the filters must pin one row by its primary key"
    if conditions.if_none_match == ANY:
        return "a row that must not exist cannot be changed"
    return None if pinned else "the filters must pin one row by its primary key with eq"


def _select(asked: Asked) -> tuple[SelectRows, str | None]:
    query = asked.query
    action = SelectRows(
        table=asked.table.name,
        columns=query.select or (),
        filters=query.filters,
        order=query.order,
        limit=query.limit,
        offset=query.offset,
        single=asked.single,
        head=asked.method == "HEAD",
    )
    return action, key_of_filters(asked.table, query.filters)


def _insert(asked: Asked) -> tuple[InsertRow, str | None]:
    rows = parse_rows(asked.body)
    if not rows:
        raise RequestError(unsupported("a body of no row", mutates=True))
    members = _members(asked, rows[0], keep_missing=not asked.preferences.missing_default)
    action = InsertRow(asked.table.name, members, _returning(asked), asked.single)
    return action, key_of_members(asked.table, members)


def _update(asked: Asked) -> tuple[UpdateRows, str | None]:
    rows = parse_rows(asked.body)
    members = _members(asked, rows[0], keep_missing=True) if rows else ()
    filters = asked.query.filters
    action = UpdateRows(
        table=asked.table.name,
        members=members,
        filters=filters,
        returning=_returning(asked),
        single=asked.single,
        max_affected=asked.preferences.max_affected,
    )
    moves = changes_key(asked.table, filters, members)
    return action, None if moves else key_of_filters(asked.table, filters)


def _delete(asked: Asked) -> tuple[DeleteRows, str | None]:
    filters = asked.query.filters
    action = DeleteRows(
        table=asked.table.name,
        filters=filters,
        returning=_returning(asked),
        single=asked.single,
        max_affected=asked.preferences.max_affected,
    )
    return action, key_of_filters(asked.table, filters)


def _returning(asked: Asked) -> tuple[str, ...] | None:
    match asked.preferences.returning:
        case Returning.REPRESENTATION:
            return asked.query.select or ()
        case Returning.HEADERS_ONLY if asked.method == "POST":
            return asked.table.primary_key or None
        case _:
            return None


def _members(asked: Asked, row: tuple[Member, ...], *, keep_missing: bool) -> tuple[Member, ...]:
    """The members to write: all of the body, or what `columns` lists."""
    listed = asked.query.columns
    if listed is not None:
        sent = {member.column: member for member in row}
        missing = (Member(name, "null") for name in listed if name not in sent and keep_missing)
        row = (*(sent[name] for name in listed if name in sent), *missing)
    for member in row:
        if asked.table.column(member.column) is None:
            raise RequestError(no_member_column(member.column, asked.table.name))
        if member.column == asked.table.version_column:
            raise RequestError(_version_in_body(member.column))
    return tuple(row)


def _version_in_body(column: str) -> Problem:
    return Problem(
        Code.REQUEST_MALFORMED,
        f"column '{column}' is raised by the gateway itself; leave it out of the body, "
        "and send If-Match with the row's ETag to change only that version",
    )


def _check_query_columns(table: Table, query: Query) -> None:
    listed: Iterable[str] = (
        *(item.column for item in query.filters),
        *(query.select or ()),
        *(term.column for term in query.order),
    )
    for name in listed:
        if table.column(name) is None:
            raise RequestError(no_column(name, table.name))
    for name in query.columns or ():
        if table.column(name) is None:
            raise RequestError(no_member_column(name, table.name))
