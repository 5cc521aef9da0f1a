"""Owns the WHERE clause: filters of the dialect and the client's conditions as SQL predicates.

A filter's value is a text argument cast to the column's type, so the database parses it and an
index on the column serves it (PostgreSQL manual, 4.2.9 "Type Casts").
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from gateway.dialects.rows.etags import ANY, versions_of, weak_versions_of
from gateway.model.conditions import Conditions
from gateway.model.row_action import Comparison, Filter, Order, Truth
from gateway.stores.postgres.catalogue import ColumnShape, Shape
from gateway.stores.postgres.sql import Arguments, Sql, compose, join

TRUE: Final = Sql("true")
FALSE: Final = Sql("false")

_OPERATORS: Final = MappingProxyType(
    {
        Comparison.EQ: Sql("="),
        Comparison.NEQ: Sql("<>"),
        Comparison.GT: Sql(">"),
        Comparison.GTE: Sql(">="),
        Comparison.LT: Sql("<"),
        Comparison.LTE: Sql("<="),
    }
)
_TRUTHS: Final = MappingProxyType(
    {
        Truth.NULL: Sql("IS NULL"),
        Truth.NOT_NULL: Sql("IS NOT NULL"),
        Truth.TRUE: Sql("IS TRUE"),
        Truth.FALSE: Sql("IS FALSE"),
        Truth.UNKNOWN: Sql("IS UNKNOWN"),
    }
)


class UnknownColumn(Exception):
    """A column is not in the catalogue (it was when the request was parsed)."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


def column_of(shape: Shape, name: str) -> ColumnShape:
    """Find a column of the catalogue. Raises `UnknownColumn`."""
    try:
        return shape.columns[name]
    except KeyError:
        raise UnknownColumn(name) from None


def all_of(parts: Iterable[Sql]) -> Sql:
    """Join predicates with AND; true without any."""
    return join(" AND ", parts) or TRUE


def filters_sql(shape: Shape, filters: Iterable[Filter], arguments: Arguments) -> Sql:
    """Write the filters over the table's alias `t`."""
    return all_of(_filter_sql(shape, one, arguments) for one in filters)


def _filter_sql(shape: Shape, one: Filter, arguments: Arguments) -> Sql:
    column = column_of(shape, one.column)
    match one.comparison:
        case Comparison.IS:
            test = compose("t.{name} {test}", name=column.name, test=_TRUTHS[Truth(one.values[0])])
        case Comparison.IN:
            test = _in_sql(column, one.values, arguments)
        case operator:
            test = compose(
                "t.{name} {operator} {value}::{type}",
                name=column.name,
                operator=_OPERATORS[operator],
                value=arguments.text(one.values[0]),
                type=column.cast_type,
            )
    return compose("NOT ({test})", test=test) if one.negated else test


def _in_sql(column: ColumnShape, values: tuple[str, ...], arguments: Arguments) -> Sql:
    template = "t.{name} = ANY ({values}::{type}[])"
    if column.is_array:  # an array of arrays is one array to PostgreSQL, so they stay rows
        template = "t.{name} IN (SELECT v::{type} FROM unnest({values}) AS v)"
    return compose(
        template, name=column.name, values=arguments.texts(values), type=column.cast_type
    )


def conditions_sql(shape: Shape, conditions: Conditions, arguments: Arguments) -> Sql:
    """Write If-Match and If-None-Match over the row's version, as of the row that is changed.

    `If-Match: *` asks for a row and nothing more, which a change of no row does not satisfy.
    """
    parts = []
    wanted, known = conditions.if_match, conditions.if_none_match
    if wanted is not None and wanted != ANY:
        parts.append(_version_in(shape, versions_of(wanted), arguments))
    if known is not None:
        parts.append(
            FALSE
            if known == ANY
            else compose("NOT {test}", test=_version_in(shape, weak_versions_of(known), arguments))
        )
    return all_of(parts)


def _version_in(shape: Shape, versions: tuple[int, ...], arguments: Arguments) -> Sql:
    if shape.version is None:
        raise ValueError(f'table "{shape.table.name}" has no version column to compare')
    # As text: a tag may hold a number that no bigint can.
    return compose(
        "(coalesce(t.{version}, 0)::text = ANY ({versions}))",
        version=shape.version,
        versions=arguments.texts([str(version) for version in versions]),
    )


def order_sql(shape: Shape, order: tuple[Order, ...]) -> Sql:
    """Write ORDER BY with a leading blank, or nothing."""
    if not order:
        return Sql("")
    terms = join(", ", (_order_term(shape, term) for term in order))
    return compose(" ORDER BY {terms}", terms=terms)


def _order_term(shape: Shape, term: Order) -> Sql:
    return compose(
        "t.{name} {direction} {nulls}",
        name=column_of(shape, term.column).name,
        direction=Sql("DESC") if term.descending else Sql("ASC"),
        nulls=Sql("NULLS FIRST") if term.nulls_first else Sql("NULLS LAST"),
    )
