"""Owns the one statement of a write: check, change, record and answer in a single round trip.

The check is a VOLATILE function in a MATERIALIZED CTE: it takes the scope's lock and then reads
the fence row in a fresh snapshot, and its answer gates the change as a One-Time Filter before any
row is touched (PostgreSQL manual, 7.8.3 and 38.7).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, assert_never

from gateway.dialects.rows.etags import ANY
from gateway.model.conditions import Conditions
from gateway.model.mark import Era, Mark, Scope
from gateway.model.row_action import DeleteRows, InsertRows, Member, RowWrite, UpdateRows
from gateway.model.write_id import RequestName
from gateway.stores.postgres.catalogue import ColumnShape, Shape
from gateway.stores.postgres.predicates import (
    FALSE,
    TRUE,
    all_of,
    column_of,
    conditions_sql,
    filters_sql,
)
from gateway.stores.postgres.shown import row_sql, rows_sql
from gateway.stores.postgres.sql import NOTHING, Arguments, Sql, Statement, compose, join

MAX_KEPT_BODY_BYTES: Final = 65_536
"""A longer representation is answered, but not kept for a retry, which then gets none."""

_WRITE: Final = (
    "WITH f AS MATERIALIZED (SELECT * FROM fencegate.admit({scope}, {era}, {token}, {holder}))"
    "{prior_cte}, u AS ({change}), "
    "s AS MATERIALIZED (SELECT count(*) AS rows, {body} AS body, {etag} AS etag, "
    "count(*) FILTER (WHERE r.made) AS made FROM u AS r){record} "
    "SELECT f.ok, f.era, f.token, f.burnt, f.holder, s.rows, s.body, s.etag, s.made, "
    "{matched} AS matched{prior_columns} FROM f CROSS JOIN s{prior_join}"
)
_RECORD: Final = (
    ", w AS (INSERT INTO fencegate.request (write_id, retry, rows, body, etag, made) "
    "SELECT {write_id}, {retry}, fencegate.limit_rows(s.rows, {single}, {most}), "
    "CASE WHEN octet_length(s.body) <= {kept} THEN s.body END, s.etag, s.made "
    "FROM s WHERE s.rows > 0)"
)
_PRIOR: Final = (
    ", p AS MATERIALIZED (SELECT r.rows, r.body, r.etag, r.made, r.write_id "
    "FROM fencegate.request AS r WHERE r.retry = {retry})"
)
_PRIOR_COLUMNS: Final = Sql(
    ", p.rows AS prior_rows, p.body AS prior_body, p.etag AS prior_etag, p.made AS prior_made, "
    "p.write_id AS prior_id"
)
_PRIOR_JOIN: Final = Sql(" LEFT JOIN p ON true")
_ADMITTED: Final = Sql("(SELECT f.ok FROM f)")
_NOT_YET: Final = Sql("NOT EXISTS (SELECT FROM p)")
_NULL_TEXT: Final = Sql("NULL::text")


@dataclass(frozen=True, slots=True)
class WriteContext:
    """What a write is checked against, and the ids it is recorded under."""

    scope: Scope
    mark: Mark
    write_id: str
    retry: str | None


@dataclass(frozen=True, slots=True)
class WriteStatement:
    """A write's statement. `probes_only`: it changes nothing, its rows only tell what was found."""

    statement: Statement
    probes_only: bool = False


def retry_digest(name: RequestName | None, era: Era) -> str | None:
    """What all attempts at one request share; a reset makes the tokens start afresh."""
    return None if name is None else f"{era}.{name.digest}"


def build_write(
    shape: Shape, action: RowWrite, conditions: Conditions, context: WriteContext, *, exact: bool
) -> WriteStatement:
    """Write the statement. Raises `UnknownColumn` for a name that the catalogue lacks."""
    arguments = Arguments()
    head = {
        "scope": arguments.text(context.scope),
        "era": arguments.number(context.mark.era),
        "token": arguments.number(context.mark.token),
        "holder": arguments.text(context.mark.holder),
    }
    prior = _prior(context, arguments)
    admitted = _ADMITTED if prior is None else all_of([_ADMITTED, _NOT_YET])
    change, matched = _change(shape, action, conditions, admitted, arguments)
    probes_only = isinstance(action, UpdateRows) and not action.members
    text = compose(
        _WRITE,
        **head,
        prior_cte=NOTHING if prior is None else prior,
        prior_columns=NOTHING if prior is None else _PRIOR_COLUMNS,
        prior_join=NOTHING if prior is None else _PRIOR_JOIN,
        change=change,
        body=_body(shape, action, arguments, probes_only=probes_only),
        etag=_etag(shape, action, exact or action.single),
        record=NOTHING if probes_only else _record(action, context, arguments),
        matched=matched,
    )
    return WriteStatement(arguments.statement(text), probes_only)


def _prior(context: WriteContext, arguments: Arguments) -> Sql | None:
    if context.retry is None:
        return None
    return compose(_PRIOR, retry=arguments.text(context.retry))


def _record(action: RowWrite, context: WriteContext, arguments: Arguments) -> Sql:
    most = None if isinstance(action, InsertRows) else action.max_affected
    return compose(
        _RECORD,
        write_id=arguments.text(context.write_id),
        retry=arguments.text(context.retry),
        single=arguments.truth(action.single),
        most=arguments.number(most),
        kept=arguments.number(MAX_KEPT_BODY_BYTES),
    )


def _change(
    shape: Shape,
    action: RowWrite,
    conditions: Conditions,
    admitted: Sql,
    arguments: Arguments,
) -> tuple[Sql, Sql]:
    """The data-modifying part, and a count of the rows that its filters alone find."""
    if isinstance(action, InsertRows):
        return _insert(shape, action, conditions, admitted, arguments), Sql("NULL::bigint")
    filters = filters_sql(shape, action.filters, arguments)
    where = all_of([admitted, filters, conditions_sql(shape, conditions, arguments)])
    returning = _returning(shape, action, arguments)
    parts = {"table": shape.name, "where": where, "returning": returning}
    match action:
        case UpdateRows(members=()):
            change = compose(
                "SELECT false AS made, {v} AS v FROM {table} AS t WHERE {where}",
                table=shape.name,
                where=where,
                v=_version(shape),
            )
        case UpdateRows():
            change = compose(
                "UPDATE {table} AS t SET {sets} FROM {source} WHERE {where} RETURNING {returning}",
                sets=_sets(shape, action.members),
                source=_source(shape, action.members, action.body, arguments),
                **parts,
            )
        case DeleteRows():
            change = compose(
                "DELETE FROM {table} AS t WHERE {where} RETURNING {returning}", **parts
            )
        case _:
            assert_never(action)
    if not conditions:
        return change, Sql("NULL::bigint")
    matched = compose(
        "CASE WHEN s.rows = 0 THEN (SELECT count(*) FROM {table} AS t WHERE {filters}) END",
        table=shape.name,
        filters=filters,
    )
    return change, matched


def _insert(
    shape: Shape,
    action: InsertRows,
    conditions: Conditions,
    admitted: Sql,
    arguments: Arguments,
) -> Sql:
    columns = [name for name in action.columns if name != shape.table.version_column]
    names = [column_of(shape, column).name for column in columns]
    values = [_inserted(shape, action, column, arguments) for column in columns]
    if shape.version is not None:
        names.append(shape.version)
        values.append(Sql("1"))
    return compose(
        "INSERT INTO {table} AS t{columns} SELECT {values} FROM {source} "
        "WHERE {admitted}{conflict} RETURNING {returning}",
        table=shape.name,
        columns=compose(" ({names})", names=join(", ", names)) if names else NOTHING,
        values=join(", ", values),
        source=_rows_source(shape, action, columns, arguments),
        admitted=admitted,
        conflict=_conflict(shape, action, columns, conditions),
        returning=_returning(shape, action, arguments),
    )


def _inserted(shape: Shape, action: InsertRows, name: str, arguments: Arguments) -> Sql:
    """The value of one column; where a row of several has none, what the database would put."""
    column = column_of(shape, name)
    value = compose("b.{name}", name=column.name)
    if name not in action.ragged or column.default is None:
        return value
    return compose(
        "CASE WHEN e.doc -> {key} IS NULL THEN {default} ELSE {value} END",
        key=arguments.text(name),
        default=column.default,
        value=value,
    )


def _rows_source(shape: Shape, action: InsertRows, columns: list[str], arguments: Arguments) -> Sql:
    """The request's rows in their order, typed by the catalogue."""
    if not columns:  # rows of nothing but defaults
        return compose("generate_series(1, {n}) AS b", n=arguments.number(len(action.rows)))
    body = arguments.text(action.body)
    typed = _typed(column_of(shape, name) for name in columns)
    if action.ragged:
        return compose(
            "json_array_elements({body}::json) AS e(doc), json_to_record(e.doc) AS b({typed})",
            body=body,
            typed=typed,
        )
    return compose("json_to_recordset({body}::json) AS b({typed})", body=body, typed=typed)


def _typed(columns: Iterable[ColumnShape]) -> Sql:
    return join(", ", (compose("{n} {t}", n=one.name, t=one.record_type) for one in columns))


def _conflict(shape: Shape, action: InsertRows, columns: list[str], conditions: Conditions) -> Sql:
    """What becomes of rows that stand there already; If-None-Match: * leaves them alone."""
    if conditions.if_none_match == ANY:
        return compose(" ON CONFLICT ({key}) DO NOTHING", key=join(", ", shape.key))
    if action.conflict is None:
        return NOTHING
    names = (column_of(shape, name).name for name in action.conflict.columns)
    target = join(", ", names)
    if not (action.conflict.merge and columns):
        return compose(" ON CONFLICT ({target}) DO NOTHING", target=target)
    sets = [compose("{n} = EXCLUDED.{n}", n=column_of(shape, name).name) for name in columns]
    if shape.version is not None:
        sets.append(_raised_version(shape.version))
    return compose(
        " ON CONFLICT ({target}) DO UPDATE SET {sets}", target=target, sets=join(", ", sets)
    )


def _raised_version(name: Sql) -> Sql:
    return compose("{name} = coalesce(t.{name}, 0) + 1", name=name)


def _settable(shape: Shape, members: tuple[Member, ...]) -> tuple[Member, ...]:
    return tuple(member for member in members if member.column != shape.table.version_column)


def _sets(shape: Shape, members: tuple[Member, ...]) -> Sql:
    sets = [
        compose("{name} = b.{name}", name=column_of(shape, member.column).name)
        for member in _settable(shape, members)
    ]
    if shape.version is not None:
        sets.append(_raised_version(shape.version))
    return join(", ", sets)


def _source(shape: Shape, members: tuple[Member, ...], body: str, arguments: Arguments) -> Sql:
    """The request's JSON as one row, typed by the catalogue. Without members: one empty row."""
    columns = [column_of(shape, member.column) for member in _settable(shape, members)]
    if not columns:
        return Sql("(SELECT) AS b")
    return compose(
        "json_to_record({body}::json) AS b({typed})",
        body=arguments.text(body),
        typed=_typed(columns),
    )


def _version(shape: Shape) -> Sql:
    if shape.version is None:
        return Sql("NULL::bigint")
    return compose("coalesce(t.{version}, 0)::bigint", version=shape.version)


def _returning(shape: Shape, action: RowWrite, arguments: Arguments) -> Sql:
    row = NOTHING
    if action.returning is not None:
        shown = row_sql(shape, action.returning, arguments, csv=action.csv)
        row = compose("{row} AS j, ", row=shown)
    return compose(
        "{row}{version} AS v, {made} AS made",
        row=row,
        version=_version(shape),
        made=_made(shape, action),
    )


def _made(shape: Shape, action: RowWrite) -> Sql:
    """Whether a row was not there before: an update of ON CONFLICT leaves its lock in `xmax`."""
    if not isinstance(action, InsertRows):
        return FALSE
    merges = action.conflict is not None and action.conflict.merge
    return Sql("(t.xmax = 0)") if merges and shape.tells_new else TRUE


def _body(shape: Shape, action: RowWrite, arguments: Arguments, *, probes_only: bool) -> Sql:
    if action.returning is None:
        return _NULL_TEXT
    if probes_only:
        return Sql("'[]'")
    return rows_sql(shape, action.returning, arguments, csv=action.csv)


def _etag(shape: Shape, action: RowWrite, wanted: bool) -> Sql:
    if shape.version is None or isinstance(action, DeleteRows) or not wanted:
        return _NULL_TEXT
    return Sql("CASE WHEN count(*) = 1 THEN min(r.v)::text END")
