"""Owns the statement of a read: rows as one JSON text, their number, and one row's version."""

from __future__ import annotations

from typing import Final

from gateway.model.row_action import SelectRows
from gateway.stores.postgres.catalogue import Shape
from gateway.stores.postgres.predicates import filters_sql, order_sql
from gateway.stores.postgres.shown import row_sql, rows_sql
from gateway.stores.postgres.sql import Arguments, Sql, Statement, compose

_READ: Final = (
    "SELECT count(*) AS rows, {body} AS body, min(r.v) AS version, {total} AS total FROM "
    "(SELECT {row} AS j, {version} AS v FROM {table} AS t WHERE {where}{order}{page}) AS r"
)
MAX_BIGINT: Final = 2**63 - 1


def build_read(shape: Shape, action: SelectRows) -> Statement:
    """Write the statement. Raises `UnknownColumn` for a name that the catalogue lacks."""
    arguments = Arguments()
    version = Sql("NULL::bigint")
    if shape.version is not None:
        version = compose("coalesce(t.{name}, 0)::bigint", name=shape.version)
    where = filters_sql(shape, action.filters, arguments)
    total = Sql("NULL::bigint")
    if action.count is not None:
        total = compose(
            "(SELECT count(*) FROM {table} AS t WHERE {where})", table=shape.name, where=where
        )
    text = compose(
        _READ,
        body=rows_sql(shape, action.columns, arguments, csv=action.csv),
        row=row_sql(shape, action.columns, arguments, csv=action.csv),
        version=version,
        total=total,
        table=shape.name,
        where=where,
        order=order_sql(shape, action.order, arguments),
        page=_page(action, arguments),
    )
    return arguments.statement(text)


def _page(action: SelectRows, arguments: Arguments) -> Sql:
    if action.limit is None and action.offset == 0:
        return Sql("")
    limit = None if action.limit is None else min(action.limit, MAX_BIGINT)
    return compose(
        " LIMIT {limit} OFFSET {offset}",
        limit=arguments.number(limit),
        offset=arguments.number(min(action.offset, MAX_BIGINT)),
    )
