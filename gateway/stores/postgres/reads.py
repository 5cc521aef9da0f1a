"""Owns the statement of a read: rows as one JSON text, their number, and one row's version."""

from __future__ import annotations

from typing import Final

from gateway.model.row_action import SelectRows
from gateway.stores.postgres.catalogue import Shape
from gateway.stores.postgres.predicates import filters_sql, order_sql
from gateway.stores.postgres.sql import Arguments, Sql, Statement, compose
from gateway.stores.postgres.writes import row_json

_READ: Final = (
    "SELECT count(*) AS rows, {body} AS body, min(r.v) AS version FROM "
    "(SELECT {row} AS j, {version} AS v FROM {table} AS t WHERE {where}{order}{page}) AS r"
)
MAX_BIGINT: Final = 2**63 - 1


def build_read(shape: Shape, action: SelectRows) -> Statement:
    """Write the statement. Raises `UnknownColumn` for a name that the catalogue lacks."""
    arguments = Arguments()
    version = Sql("NULL::bigint")
    if shape.version is not None:
        version = compose("coalesce(t.{name}, 0)::bigint", name=shape.version)
    text = compose(
        _READ,
        body=Sql("NULL::text") if action.head else Sql("coalesce(json_agg(r.j), '[]')::text"),
        row=row_json(shape, action.columns),
        version=version,
        table=shape.name,
        where=filters_sql(shape, action.filters, arguments),
        order=order_sql(shape, action.order),
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
