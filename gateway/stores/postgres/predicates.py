"""Owns the WHERE clause: filters of the dialect and the client's conditions as SQL predicates.

A filter's value is a text argument cast to the column's type, so the database parses it and an
index on the column serves it (PostgreSQL manual, 4.2.9 "Type Casts").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gateway.dialects.rows.etags import ANY, versions_of, weak_versions_of
from gateway.model.conditions import Conditions
from gateway.model.row_action import (
    Comparison,
    Filter,
    Order,
    Path,
    Predicate,
    Quantifier,
    Step,
    Truth,
)
from gateway.stores.postgres.catalogue import ColumnShape, Shape
from gateway.stores.postgres.sql import NOTHING, Arguments, Sql, compose, join

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
        Comparison.LIKE: Sql("LIKE"),
        Comparison.ILIKE: Sql("ILIKE"),
        Comparison.MATCH: Sql("~"),
        Comparison.IMATCH: Sql("~*"),
        Comparison.IS_DISTINCT: Sql("IS DISTINCT FROM"),
        Comparison.CONTAINS: Sql("@>"),
        Comparison.CONTAINED: Sql("<@"),
        Comparison.OVERLAPS: Sql("&&"),
        Comparison.LEFT_OF: Sql("<<"),
        Comparison.RIGHT_OF: Sql(">>"),
        Comparison.NOT_RIGHT_OF: Sql("&<"),
        Comparison.NOT_LEFT_OF: Sql("&>"),
        Comparison.ADJACENT: Sql("-|-"),
    }
)
_PATTERNS: Final = frozenset(
    {Comparison.LIKE, Comparison.ILIKE, Comparison.MATCH, Comparison.IMATCH}
)
_SEARCHES: Final = MappingProxyType(
    {
        Comparison.FTS: Sql("to_tsquery"),
        Comparison.PLAIN_FTS: Sql("plainto_tsquery"),
        Comparison.PHRASE_FTS: Sql("phraseto_tsquery"),
        Comparison.WEB_FTS: Sql("websearch_to_tsquery"),
    }
)
_QUANTIFIERS: Final = MappingProxyType({Quantifier.ANY: Sql("ANY"), Quantifier.ALL: Sql("ALL")})
_TEXT: Final = Sql("text")
_JSONB: Final = Sql("jsonb")
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


@dataclass(frozen=True, slots=True)
class Expression:
    """A value of a row as SQL, and the type that what it is compared with is cast to."""

    sql: Sql
    type: Sql
    is_array: bool = False
    is_searchable: bool = False


def expression(
    shape: Shape, name: str, path: Path, arguments: Arguments, *, compared: bool = True
) -> Expression:
    """A column of the table's alias `t`, or what a path into it leads to.

    The end of a path is a text after `->>`. After `->` it is a document as it stands, or, to be
    `compared`, a jsonb: plain json has no equality.
    """
    column = column_of(shape, name)
    sql = compose("t.{name}", name=column.name)
    if not path:
        return Expression(sql, column.cast_type, column.is_array, column.is_searchable)
    if not column.is_json:
        sql = compose("to_jsonb({sql})", sql=sql)
    for step in path:
        # An index is an integer to `->`, which has another meaning for it than for a key.
        key = arguments.text(step.key) if isinstance(step.key, str) else _index(step, arguments)
        sql = compose(
            "({sql} {arrow} {key})",
            sql=sql,
            arrow=Sql("->>") if step.as_text else Sql("->"),
            key=key,
        )
    if path[-1].as_text:
        return Expression(sql, _TEXT)
    return Expression(compose("{sql}::jsonb", sql=sql) if compared else sql, _JSONB)


def _index(step: Step, arguments: Arguments) -> Sql:
    assert isinstance(step.key, int)
    return compose("{number}::integer", number=arguments.number(step.key))


def filters_sql(shape: Shape, filters: Iterable[Predicate], arguments: Arguments) -> Sql:
    """Write the filters over the table's alias `t`."""
    return all_of(_predicate_sql(shape, one, arguments) for one in filters)


def _predicate_sql(shape: Shape, one: Predicate, arguments: Arguments) -> Sql:
    if isinstance(one, Filter):
        test = _filter_sql(shape, one, arguments)
    else:
        parts = [
            compose("({part})", part=_predicate_sql(shape, part, arguments)) for part in one.parts
        ]
        test = join(" OR " if one.any_of else " AND ", parts)
        if not one.negated:
            return compose("({test})", test=test)
    return compose("NOT ({test})", test=test) if one.negated else test


def _filter_sql(shape: Shape, one: Filter, arguments: Arguments) -> Sql:
    left = expression(shape, one.column, one.path, arguments)
    if one.comparison is Comparison.IS:
        return compose("{left} {test}", left=left.sql, test=_TRUTHS[Truth(one.values[0])])
    if one.comparison is Comparison.IN:
        return _in_sql(left, one.values, arguments)
    if one.comparison in _SEARCHES:
        return _search_sql(left, one, arguments)
    value = one.values[0]
    kind = _TEXT if one.comparison in _PATTERNS else left.type
    if one.comparison in (Comparison.LIKE, Comparison.ILIKE):
        value = value.replace("*", "%")
    given = arguments.text(value)
    if one.quantifier is None:
        right = compose("{value}::{type}", value=given, type=kind)
    else:
        right = compose(
            "{quantifier} ({value}::{type}[])",
            quantifier=_QUANTIFIERS[one.quantifier],
            value=given,
            type=kind,
        )
    operator = _OPERATORS[one.comparison]
    return compose("{left} {operator} {right}", left=left.sql, operator=operator, right=right)


def _search_sql(left: Expression, one: Filter, arguments: Arguments) -> Sql:
    language = NOTHING
    if one.language is not None:
        language = compose("{name}::regconfig, ", name=arguments.text(one.language))
    document = left.sql
    if not left.is_searchable:
        document = compose("to_tsvector({language}{sql})", language=language, sql=left.sql)
    return compose(
        "{document} @@ {search}({language}{value})",
        document=document,
        search=_SEARCHES[one.comparison],
        language=language,
        value=arguments.text(one.values[0]),
    )


def _in_sql(left: Expression, values: tuple[str, ...], arguments: Arguments) -> Sql:
    template = "{left} = ANY ({values}::{type}[])"
    if left.is_array:  # an array of arrays is one array to PostgreSQL, so they stay rows
        template = "{left} IN (SELECT v::{type} FROM unnest({values}) AS v)"
    return compose(template, left=left.sql, values=arguments.texts(values), type=left.type)


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


def order_sql(shape: Shape, order: tuple[Order, ...], arguments: Arguments) -> Sql:
    """Write ORDER BY with a leading blank, or nothing."""
    if not order:
        return Sql("")
    terms = join(", ", (_order_term(shape, term, arguments) for term in order))
    return compose(" ORDER BY {terms}", terms=terms)


def _order_term(shape: Shape, term: Order, arguments: Arguments) -> Sql:
    return compose(
        "{value} {direction} {nulls}",
        value=expression(shape, term.column, term.path, arguments).sql,
        direction=Sql("DESC") if term.descending else Sql("ASC"),
        nulls=Sql("NULLS FIRST") if term.nulls_first else Sql("NULLS LAST"),
    )
