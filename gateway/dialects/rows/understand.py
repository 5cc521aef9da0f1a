"""From a request's parts to its row action and resource: the decisions of the dialect, no I/O.

Source: PostgREST reference, "Tables and Views"; decisions, "Canonical resources".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.dialects.rows.accept import BodyForm, Shape
from gateway.dialects.rows.canonical import (
    canonical_value,
    changes_key,
    key_of_filters,
    key_of_members,
)
from gateway.dialects.rows.etags import ANY
from gateway.dialects.rows.prefer import Preferences, Resolution, Returning
from gateway.dialects.rows.problems import (
    RequestError,
    bad_body,
    bad_put,
    condition_unsupported,
    no_column,
    no_member_column,
)
from gateway.dialects.rows.query import Query
from gateway.dialects.rows.row_body import Row, check_keys, parse_rows
from gateway.dialects.rows.select import spelt_out
from gateway.model.catalogue import Table
from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.problem import Code, Problem
from gateway.model.row_action import (
    Conflict,
    DeleteRows,
    InsertRows,
    Member,
    Selected,
    Selection,
    SelectRows,
    UpdateRows,
    filters_in,
    pinning,
)

RowAction = SelectRows | InsertRows | UpdateRows | DeleteRows


@dataclass(frozen=True, slots=True)
class Asked:
    """The parts of a request, each understood for itself. `body` is empty where it is ignored."""

    method: str
    table: Table
    query: Query
    preferences: Preferences
    shape: Shape = Shape.ARRAY
    body: bytes = b""
    form: BodyForm = BodyForm.JSON
    conditions: Conditions = NO_CONDITIONS

    @property
    def single(self) -> bool:
        """True when anything but one row is to be refused."""
        return self.shape is Shape.OBJECT

    @property
    def csv(self) -> bool:
        """True when lines of values are wanted."""
        return self.shape is Shape.CSV


@dataclass(frozen=True, slots=True)
class Understood:
    """The action, and the canonical keys of the rows that it touches.

    `keys` is empty where they are not known: then the action counts as one on the whole table.
    """

    action: RowAction
    keys: tuple[str, ...] = ()


def action_of(asked: Asked) -> Understood:
    """Build the row action, and tell which rows it is pinned to. Raises RequestError."""
    _check_query_columns(asked.table, asked.query)
    match asked.method:
        case "POST":
            return _insert(asked)
        case "PUT":
            return _put(asked)
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
    if method == "PUT" and conditions.if_none_match is not None:
        fits = conditions.if_match is None and conditions.if_none_match == ANY
        return None if fits else "only If-Match alone, or If-None-Match: * alone, fit a PUT"
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


def _select(asked: Asked) -> Understood:
    query = asked.query
    action = SelectRows(
        table=asked.table.name,
        columns=spelt_out(query.select or (), asked.table),
        filters=query.filters,
        order=query.order,
        limit=query.limit,
        offset=query.offset,
        single=asked.single,
        count=asked.preferences.count,
        csv=asked.csv,
    )
    return _about(action, key_of_filters(asked.table, query.filters))


def _about(action: RowAction, key: str | None) -> Understood:
    return Understood(action, () if key is None else (key,))


def _insert(asked: Asked) -> Understood:
    rows = parse_rows(asked.body, asked.form)
    if asked.query.columns is None:
        check_keys(rows)
    keep_missing = not asked.preferences.missing_default
    written = tuple(_members(asked, row, keep_missing=keep_missing) for row in rows)
    conflict = _conflict(asked)
    action = InsertRows(
        asked.table.name, written, _returning(asked), asked.single, conflict, csv=asked.csv
    )
    if conflict is not None and conflict.merge and conflict.columns != asked.table.primary_key:
        return Understood(action)  # it changes rows of other keys than those in the body
    keys = [key_of_members(asked.table, row) for row in written]
    known = tuple(key for key in keys if key is not None)
    return Understood(action, known if len(known) == len(keys) else ())


def _conflict(asked: Asked) -> Conflict | None:
    """What `resolution` asks for; without `on_conflict` it is the primary key that conflicts."""
    resolution = asked.preferences.resolution
    if resolution is None:
        return None
    columns = asked.query.on_conflict or asked.table.primary_key
    for name in columns:
        if asked.table.column(name) is None:
            raise RequestError(no_column(name, asked.table.name))
    if set(columns) == set(asked.table.primary_key):
        columns = asked.table.primary_key
    return Conflict(columns, merge=resolution is Resolution.MERGE)


def _put(asked: Asked) -> Understood:
    """One row, named by its whole key in the query and given whole in the body.

    With If-Match it must be there already, so it is an update.
    """
    pinned = _put_key(asked)
    rows = [row for row in parse_rows(asked.body, asked.form) if _is_row(asked.table, row, pinned)]
    if len(rows) != 1:
        message = "Payload values do not match URL in primary key column(s)"
        raise RequestError(bad_put(message, "PGRST115"))
    members = _members(asked, rows[0], keep_missing=True)
    given = {member.column for member in members} | {asked.table.version_column}
    lacking = [c.name for c in asked.table.columns if c.name not in given and not c.generated]
    if lacking:
        message = f"PUT replaces the whole row, and the body lacks: {', '.join(lacking)}"
        raise RequestError(bad_body(message))
    key = key_of_filters(asked.table, asked.query.filters)
    table, returning = asked.table.name, _returning(asked)
    if asked.conditions.if_match is not None:
        change = tuple(m for m in members if m.column not in asked.table.primary_key)
        update = UpdateRows(
            table, change, asked.query.filters, returning, asked.single, csv=asked.csv
        )
        return _about(update, key)
    conflict = Conflict(asked.table.primary_key, merge=True)
    action = InsertRows(
        table, (members,), returning, asked.single, conflict, put=True, csv=asked.csv
    )
    return _about(action, key)


def _put_key(asked: Asked) -> dict[str, str]:
    pinned = {item.column: item.values[0] for item in pinning(asked.query.filters)}
    exactly = len(pinned) == len(asked.query.filters) == len(asked.table.primary_key)
    if not exactly or not pinned or set(pinned) != set(asked.table.primary_key):
        message = "Filters must include all and only primary key columns with 'eq' operators"
        raise RequestError(bad_put(message, "PGRST105"))
    return pinned


def _is_row(table: Table, row: Row, pinned: dict[str, str]) -> bool:
    """True when the row has the key that the query names."""
    sent = {member.column: member for member in row}
    for column in table.key_columns:
        member = sent.get(column.name)
        if member is None or member.text is None:
            return False
        if member.text != pinned[column.name]:
            asked = canonical_value(column, pinned[column.name])
            if asked is None or canonical_value(column, member.text) != asked:
                return False
    return True


def _update(asked: Asked) -> Understood:
    rows = parse_rows(asked.body, asked.form)
    if len(rows) > 1:
        raise RequestError(bad_body("A PATCH takes the changes of one object, not several"))
    members = _members(asked, rows[0], keep_missing=True) if rows else ()
    filters = asked.query.filters
    action = UpdateRows(
        table=asked.table.name,
        members=members,
        filters=filters,
        returning=_returning(asked),
        single=asked.single,
        max_affected=asked.preferences.max_affected,
        csv=asked.csv,
    )
    moves = changes_key(asked.table, filters, members)
    return _about(action, None if moves else key_of_filters(asked.table, filters))


def _delete(asked: Asked) -> Understood:
    filters = asked.query.filters
    action = DeleteRows(
        table=asked.table.name,
        filters=filters,
        returning=_returning(asked),
        single=asked.single,
        max_affected=asked.preferences.max_affected,
        csv=asked.csv,
    )
    return _about(action, key_of_filters(asked.table, filters))


def _returning(asked: Asked) -> Selection | None:
    match asked.preferences.returning:
        case Returning.REPRESENTATION:
            return spelt_out(asked.query.select or (), asked.table)
        case Returning.HEADERS_ONLY if asked.method == "POST":
            return tuple(map(Selected, asked.table.primary_key)) or None
        case _:
            return None


def _members(asked: Asked, row: Row, *, keep_missing: bool) -> Row:
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
        *(item.column for item in filters_in(query.filters)),
        *(item.column for item in query.select or () if item != Selected("*")),
        *(term.column for term in query.order),
    )
    for name in listed:
        if table.column(name) is None:
            raise RequestError(no_column(name, table.name))
    for name in query.columns or ():
        if table.column(name) is None:
            raise RequestError(no_member_column(name, table.name))
