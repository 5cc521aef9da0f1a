"""Owns what of a row is shown: as a member of a JSON array, or as a line of values."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from gateway.dialects.rows.csv_text import csv_name
from gateway.model.row_action import Selected, Selection
from gateway.stores.postgres.catalogue import Shape
from gateway.stores.postgres.predicates import column_of, expression
from gateway.stores.postgres.sql import Arguments, Sql, compose, join

CASTS: Final = MappingProxyType(
    {
        "text": Sql("text"),
        "json": Sql("json"),
        "jsonb": Sql("jsonb"),
        "uuid": Sql("uuid"),
        "bytea": Sql("bytea"),
        "date": Sql("date"),
        "money": Sql("money"),
        "inet": Sql("inet"),
        "cidr": Sql("cidr"),
        "interval": Sql("interval"),
        "real": Sql("real"),
        "numeric": Sql("numeric"),
        "time": Sql("time"),
        "timetz": Sql("timetz"),
        "timestamp": Sql("timestamp"),
        "timestamptz": Sql("timestamptz"),
        "smallint": Sql("smallint"),
        "integer": Sql("integer"),
        "bigint": Sql("bigint"),
        "boolean": Sql("boolean"),
        "double precision": Sql("double precision"),
        "character varying": Sql("character varying"),
    }
)
"""The types of the dialect's own list, which a request can only choose from."""


def row_sql(shape: Shape, wanted: Selection, arguments: Arguments, *, csv: bool) -> Sql:
    """One row of the alias `t`, its members in the order asked for."""
    return _line(shape, wanted, arguments) if csv else _object(shape, wanted, arguments)


def rows_sql(shape: Shape, wanted: Selection, arguments: Arguments, *, csv: bool) -> Sql:
    """All rows of a relation `r` with a column `j` in one text."""
    if not csv:
        return Sql("coalesce(json_agg(r.j), '[]')::text")
    names = [item.name for item in wanted] or list(shape.columns)
    return compose(
        "{head} || coalesce(E'\\n' || string_agg(r.j, E'\\n'), '')",
        head=arguments.text(",".join(map(csv_name, names))),
    )


def _object(shape: Shape, wanted: Selection, arguments: Arguments) -> Sql:
    if all(item.plain for item in wanted):
        # `x.*`, because plain `x` would be the column of that name in a table that has one.
        columns = _plain_columns(shape, wanted)
        return compose("(SELECT row_to_json(x.*) FROM (SELECT {columns}) AS x)", columns=columns)
    # Names of the client's choice are arguments here, and never identifiers.
    members = join(
        ", ",
        (
            compose("{name}, {value}", name=arguments.text(item.name), value=value)
            for item in wanted
            for value in [_value(shape, item, arguments)]
        ),
    )
    return compose("json_build_object({members})", members=members)


def _line(shape: Shape, wanted: Selection, arguments: Arguments) -> Sql:
    """A row as PostgreSQL writes records, without the parentheses around it."""
    if all(item.plain for item in wanted):
        values = _plain_columns(shape, wanted)
    else:
        values = join(", ", (_value(shape, item, arguments) for item in wanted))
    return compose(
        "(SELECT substr(x.r, 2, length(x.r) - 2) FROM (SELECT ROW({values})::text AS r) AS x)",
        values=values,
    )


def _plain_columns(shape: Shape, wanted: Selection) -> Sql:
    names = [item.name for item in wanted] or list(shape.columns)
    return join(", ", (compose("t.{n}", n=column_of(shape, name).name) for name in names))


def _value(shape: Shape, item: Selected, arguments: Arguments) -> Sql:
    value = expression(shape, item.column, item.path, arguments, compared=False).sql
    if item.cast is None:
        return value
    return compose("({value})::{type}", value=value, type=CASTS[item.cast])
