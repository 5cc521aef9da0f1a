"""The statements of a mutation, and what their results mean: one batch after the other.

Sans-IO: a generator yields a batch of statements, is sent their results, and returns the effect.
Every statement that changes a row carries the fence's own condition, by a join with its row where
the grammar takes one; MariaDB has no RETURNING on UPDATE, so changed rows are read again by key.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, assert_never

from gateway.dialects.rows.etags import ANY
from gateway.dialects.rows.problems import (
    RequestError,
    not_one_row,
    precondition_failed,
    too_many_affected,
    unsupported,
)
from gateway.model.catalogue import Column, Table
from gateway.model.conditions import Conditions
from gateway.model.row_action import (
    Conflict,
    DeleteRows,
    InsertRows,
    Member,
    Predicate,
    RowWrite,
    UpdateRows,
    pinning,
)
from gateway.stores.mariadb import sql
from gateway.stores.mariadb.catalogue import Shape
from gateway.stores.mariadb.predicates import (
    all_of,
    column_of,
    conditions_sql,
    filters_sql,
    version_of,
)
from gateway.stores.mariadb.readout import Readout, Row, readout
from gateway.stores.mariadb.sql import Sql, bare_name, column_name, compose, join, table_name
from gateway.stores.mariadb.values import member_sql, stored_sql

_UPDATE: Final = "UPDATE {table} JOIN fencegate_fence ON {fence} SET {changes} WHERE {where}"
_DELETE: Final = "DELETE {table} FROM {table} JOIN fencegate_fence ON {fence} WHERE {where}"
_DELETE_SHOWN: Final = (
    "DELETE FROM {table} WHERE {where} AND EXISTS "
    "(SELECT 1 FROM fencegate_fence WHERE {fence} LOCK IN SHARE MODE) RETURNING {shown}"
)
_INSERT: Final = (
    "INSERT INTO {table} ({names}) SELECT {values} FROM fencegate_fence WHERE {fence}{absent} "
    "LOCK IN SHARE MODE RETURNING {shown}"
)
_ABSENT: Final = " AND NOT EXISTS (SELECT 1 FROM {table} WHERE {same})"
_SELECT: Final = "SELECT {shown} FROM {table} WHERE {where}"
_SELECT_ONE: Final = "SELECT {shown} FROM {table} WHERE {where} LIMIT 1"
_SELECT_LOCKED: Final = "SELECT {shown} FROM {table} WHERE {where} FOR UPDATE"
_MATCHED: Final = "SELECT 1 FROM {table} WHERE {where} LIMIT 1"


@dataclass(frozen=True, slots=True)
class Result:
    """What one statement came to: the rows found or changed, and what it gave back of them."""

    count: int
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Effect:
    """What a mutation did: rows, their text, the version of the first, and how many are new."""

    count: int
    text: str | None
    version: int | None
    made: int


Steps = Generator[list[Sql], list[Result], Effect]


def change(shape: Shape, action: RowWrite, conditions: Conditions, fence: Sql) -> Steps:
    """Carry a mutation out. `fence` is true of the fence row that admits it.

    Raises RequestError to undo it.
    """
    table = shape.table
    shown = readout(table, action.returning, csv=action.csv)
    match action:
        case InsertRows():
            effect = yield from _insert(shape, action, conditions, fence, shown)
        case UpdateRows(members=()):
            effect = yield from _probe(table, action, conditions, shown)
        case UpdateRows():
            effect = yield from _update(table, action, conditions, fence, shown)
        case DeleteRows():
            effect = yield from _delete(table, action, conditions, fence, shown)
        case _:
            assert_never(action)
    _check_count(action, effect.count)
    return effect


# --- inserts --------------------------------------------------------------------------------------
def _insert(
    shape: Shape, action: InsertRows, conditions: Conditions, fence: Sql, shown: Readout
) -> Steps:
    conflict, create_only = action.conflict, conditions.if_none_match == ANY
    if create_only:
        conflict = Conflict(shape.table.primary_key, merge=False)
    batch, groups = list[Sql](), list[_Placed]()
    for row in action.rows:
        same = None if conflict is None else _same_key(shape.table, row, conflict)
        merge = same is not None and conflict is not None and conflict.merge
        groups.append(_Placed(len(batch), merge))
        if same is not None and merge:
            batch.append(_merge(shape.table, row, fence, same))
        batch.append(_insert_one(shape, row, fence, shown, same))
        if same is not None and merge:
            batch.append(
                compose(_SELECT, shown=shown.sql, table=table_name(shape.table), where=same)
            )
    results = (yield batch) if batch else []
    rows, made = list[Row](), 0
    for placed in groups:
        at = placed.first + placed.merges
        made += results[at].count
        rows.extend(results[at + placed.merges].rows)
    if not rows and create_only:
        raise RequestError(precondition_failed("a row with this key exists already"))
    found = shown.collect(rows)
    made = made if action.rows else 1
    return Effect(found.count, found.text, found.version, made)


class _Placed(NamedTuple):
    """Where the statements of one row stand in the batch; one that merges has three."""

    first: int
    merges: bool


def _same_key(table: Table, row: tuple[Member, ...], conflict: Conflict) -> Sql | None:
    """Find the row that this one conflicts with; None where it can conflict with none."""
    sent = {member.column: member for member in row}
    tests = []
    for name in conflict.columns:
        column, member = column_of(table, name), sent.get(name)
        if member is None or member.text is None:
            return None
        value = member_sql(column, member)
        tests.append(compose("{name} = {value}", name=column_name(table, column), value=value))
    return all_of(tests)


def _merge(table: Table, row: tuple[Member, ...], fence: Sql, same: Sql) -> Sql:
    return compose(
        _UPDATE,
        table=table_name(table),
        fence=fence,
        changes=_changes(table, row),
        where=same,
    )


def _insert_one(
    shape: Shape, row: tuple[Member, ...], fence: Sql, shown: Readout, same: Sql | None
) -> Sql:
    table, version = shape.table, version_of(shape.table)
    pairs = [(column_of(table, member.column), member) for member in row]
    names = [bare_name(column) for column, _ in pairs]
    values = [member_sql(column, member) for column, member in pairs]
    if version is not None:
        names.append(bare_name(version))
        values.append(sql.number(1))
    if not names:
        if shape.filler is None:
            raise RequestError(unsupported("a row without any value on MariaDB", mutates=True))
        names, values = [bare_name(shape.filler)], [sql.NULL]
    name = table_name(table)
    return compose(
        _INSERT,
        table=name,
        names=join(", ", names),
        values=join(", ", values),
        fence=fence,
        absent=sql.NOTHING if same is None else compose(_ABSENT, table=name, same=same),
        shown=shown.sql,
    )


# --- changes --------------------------------------------------------------------------------------
def _probe(table: Table, action: UpdateRows, conditions: Conditions, shown: Readout) -> Steps:
    """A change of nothing: its conditions are judged all the same, and no row is shown."""
    where = _where(table, action.filters, conditions)
    tried, *rest = yield [
        compose(_MATCHED, table=table_name(table), where=where),
        *_matched(table, action.filters, conditions),
    ]
    if not tried.rows:
        _explain(conditions, rest)
    nothing = shown.collect(())
    return Effect(0, nothing.text, None, 0)


def _update(
    table: Table, action: UpdateRows, conditions: Conditions, fence: Sql, shown: Readout
) -> Steps:
    where = _where(table, action.filters, conditions)
    pins = _pinned(table, action)
    wants_rows = shown.names is not None or (shown.versioned and (action.single or bool(pins)))
    if wants_rows and pins is None:
        return (yield from _update_by_key(table, action, conditions, fence, shown))
    batch = [_update_where(table, action, fence, where)]
    if wants_rows and pins is not None:
        batch.append(compose(_SELECT, shown=shown.sql, table=table_name(table), where=pins))
    changed, *rest = yield [*batch, *_matched(table, action.filters, conditions)]
    if changed.count == 0:
        _explain(conditions, rest)
    found = shown.collect(rest[0].rows if wants_rows and changed.count else ())
    return Effect(changed.count, found.text, found.version, 0)


def _update_by_key(
    table: Table, action: UpdateRows, conditions: Conditions, fence: Sql, shown: Readout
) -> Steps:
    """Lock the rows that are found, change them by their keys, and read them by their new ones."""
    if not table.primary_key:
        raise RequestError(
            unsupported("return=representation of a change without a primary key", mutates=True)
        )
    where = _where(table, action.filters, conditions)
    keys = join(", ", (column_name(table, column) for column in table.key_columns))
    name = table_name(table)
    locked, *rest = yield [
        compose(_SELECT_LOCKED, shown=keys, table=name, where=where),
        *_matched(table, action.filters, conditions),
    ]
    if not locked.rows:
        _explain(conditions, rest)
        found = shown.collect(())
        return Effect(0, found.text, None, 0)
    _check_count(action, len(locked.rows))
    before = [_key_values(table, row, ()) for row in locked.rows]
    after = [_key_values(table, row, action.members) for row in locked.rows]
    changed, again = yield [
        _update_where(table, action, fence, _keys_in(table, before)),
        compose(_SELECT, shown=shown.sql, table=name, where=_keys_in(table, after)),
    ]
    found = shown.collect(again.rows)
    return Effect(changed.count, found.text, found.version, 0)


def _pinned(table: Table, action: UpdateRows) -> Sql | None:
    """Find the one row of the filters again after the change; None unless that is certain."""
    given = {one.column: one for one in pinning(action.filters)}
    moved = {member.column for member in action.members}
    if not table.primary_key or not set(table.primary_key) <= set(given) - moved:
        return None
    return filters_sql(table, (given[name] for name in table.primary_key))


def _key_values(table: Table, row: Row, members: tuple[Member, ...]) -> list[Sql]:
    given = {member.column: member for member in members}
    return [
        member_sql(column, given[column.name]) if column.name in given else stored_sql(column, cell)
        for column, cell in zip(table.key_columns, row, strict=True)
    ]


def _keys_in(table: Table, keys: list[list[Sql]]) -> Sql:
    names = join(", ", (column_name(table, column) for column in table.key_columns))
    values = join(", ", (compose("({key})", key=join(", ", key)) for key in keys))
    return compose("({names}) IN ({values})", names=names, values=values)


def _update_where(table: Table, action: UpdateRows, fence: Sql, where: Sql) -> Sql:
    return compose(
        _UPDATE,
        table=table_name(table),
        fence=fence,
        changes=_changes(table, action.members),
        where=where,
    )


def _changes(table: Table, members: tuple[Member, ...]) -> Sql:
    changes = [_assign(table, column_of(table, m.column), m) for m in members]
    if (version := version_of(table)) is not None:
        name = column_name(table, version)
        changes.append(compose("{name} = COALESCE({name}, 0) + 1", name=name))
    return join(", ", changes)


def _assign(table: Table, column: Column, member: Member) -> Sql:
    name, value = column_name(table, column), member_sql(column, member)
    return compose("{name} = {value}", name=name, value=value)


def _delete(
    table: Table, action: DeleteRows, conditions: Conditions, fence: Sql, shown: Readout
) -> Steps:
    where, name = _where(table, action.filters, conditions), table_name(table)
    if shown.names is None:
        statement = compose(_DELETE, table=name, fence=fence, where=where)
    else:
        statement = compose(_DELETE_SHOWN, table=name, fence=fence, where=where, shown=shown.sql)
    gone, *rest = yield [statement, *_matched(table, action.filters, conditions)]
    if gone.count == 0:
        _explain(conditions, rest)
    found = shown.collect(gone.rows)
    return Effect(gone.count, found.text, None, 0)


# --- both -----------------------------------------------------------------------------------------
def _where(table: Table, filters: tuple[Predicate, ...], conditions: Conditions) -> Sql:
    found = filters_sql(table, filters)
    if not conditions:
        return compose("({found})", found=found)
    met = conditions_sql(table, conditions)
    return compose("({found}) AND ({met})", found=found, met=met)


def _matched(table: Table, filters: tuple[Predicate, ...], conditions: Conditions) -> Iterator[Sql]:
    """Ask, as the last statement, whether there is a row at all: why a condition failed."""
    if conditions:
        where = filters_sql(table, filters)
        yield compose(_MATCHED, table=table_name(table), where=where)


def _explain(conditions: Conditions, rest: list[Result]) -> None:
    """No row was found. Raises RequestError where a condition is to blame."""
    if conditions and rest[-1].rows:
        raise RequestError(precondition_failed("the row has another version"))
    if conditions.if_match is not None:
        raise RequestError(precondition_failed("there is no such row"))


def _check_count(action: RowWrite, count: int) -> None:
    """Undo what touched another number of rows than the client allows. Raises RequestError."""
    if action.single and count != 1:
        raise RequestError(not_one_row(count))
    if isinstance(action, InsertRows) or action.max_affected is None:
        return
    if count > action.max_affected:
        raise RequestError(too_many_affected(count))
