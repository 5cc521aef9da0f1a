"""Filters and the client's conditions as predicates.

What MariaDB has no equal of (ranges, arrays, text search) is refused by its name, and so are
regular expressions: its own are of another grammar than PostgreSQL's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gateway.dialects.rows.array_text import array_elements
from gateway.dialects.rows.etags import ANY, versions_of, weak_versions_of
from gateway.dialects.rows.problems import RequestError, from_sqlstate, no_column, unsupported
from gateway.dialects.rows.typed_text import no_documents, no_pattern, no_truth_value
from gateway.model.catalogue import Column, ColumnKind, Table
from gateway.model.conditions import Conditions
from gateway.model.row_action import (
    Comparison,
    Filter,
    Order,
    Path,
    Predicate,
    Quantifier,
    Selected,
    Truth,
)
from gateway.stores.mariadb import sql
from gateway.stores.mariadb.sql import Sql, column_name, compose, join
from gateway.stores.mariadb.values import no_cast, no_operator, value_sql

TRUE: Final = Sql("1 = 1")
FALSE: Final = Sql("1 = 0")

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
        Truth.UNKNOWN: Sql("IS NULL"),
    }
)
_BOOLEAN_TESTS: Final = frozenset({Truth.TRUE, Truth.FALSE, Truth.UNKNOWN})
# `LIKE` with the case of letters: bytes are compared, whatever the column's collation says.
_LIKE: Final = "CONVERT({left} USING utf8mb4) COLLATE utf8mb4_nopad_bin LIKE {pattern} ESCAPE '\\'"
_ILIKE: Final = (
    "LOWER(CONVERT({left} USING utf8mb4)) COLLATE utf8mb4_nopad_bin "
    "LIKE LOWER({pattern}) ESCAPE '\\'"
)
_TEXT_AT: Final = (
    "(CASE JSON_TYPE(JSON_EXTRACT({document}, {way})) WHEN 'NULL' THEN NULL "
    "ELSE JSON_UNQUOTE(JSON_EXTRACT({document}, {way})) END)"
)
_CASTS: Final = MappingProxyType(
    {
        **dict.fromkeys(("text", "character varying"), ColumnKind.TEXT),
        **dict.fromkeys(("smallint", "integer", "bigint"), ColumnKind.INTEGER),
        **dict.fromkeys(("real", "double precision"), ColumnKind.REAL),
    }
)
_NUMBERS: Final = frozenset({ColumnKind.INTEGER, ColumnKind.NUMERIC})
_CAST_TYPES: Final = MappingProxyType(
    {
        ColumnKind.TEXT: Sql("CHAR CHARACTER SET utf8mb4"),
        ColumnKind.INTEGER: Sql("SIGNED"),
        ColumnKind.REAL: Sql("DOUBLE"),
    }
)
_OPEN_ESCAPE: Final = re.compile(r"(?:[^\\]|\\.)*\\", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Expression:
    """A value of a row as SQL, and what is known of its type."""

    sql: Sql
    column: Column


def column_of(table: Table, name: str) -> Column:
    """Find a column. Raises RequestError."""
    column = table.column(name)
    if column is None:
        raise RequestError(no_column(name, table.name))
    return column


def expression(table: Table, name: str, path: Path) -> Expression:
    """A column, or what a path into its document leads to: a text after `->>`, else JSON."""
    column = column_of(table, name)
    found = column_name(table, column)
    if not path:
        if column.type_name.startswith("bit"):  # as text it would be its bytes
            found = compose("({found} + 0)", found=found)
        return Expression(found, column)
    if column.kind not in (ColumnKind.JSON, ColumnKind.TEXT):
        raise no_documents(column)
    way = sql.text(_way(path))
    if path[-1].as_text:
        text = compose(_TEXT_AT, document=found, way=way)
        return Expression(text, Column(name, "text", ColumnKind.TEXT))
    part = compose("JSON_EXTRACT({document}, {way})", document=found, way=way)
    return Expression(part, Column(name, "json", ColumnKind.JSON))


def _way(path: Path) -> str:
    """A path as MariaDB writes it (its manual, "JSONPath Expressions"). Raises RequestError."""
    return "$" + "".join(_step(step.key) for step in path)


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    if '"' in key or "\\" in key:
        raise RequestError(unsupported(f"the key {key!r} of a path", mutates=True))
    return f'."{key}"'


def shown_value(table: Table, item: Selected) -> Expression:
    """What an item of `select` gives back. Raises RequestError."""
    value = expression(table, item.column, item.path)
    if item.cast is None:
        return value
    if item.cast == "numeric" and value.column.kind in _NUMBERS:
        return Expression(value.sql, Column(item.column, item.cast, ColumnKind.NUMERIC))
    if item.cast not in _CASTS:
        raise no_cast(item.cast)
    column = Column(item.column, item.cast, _CASTS[item.cast])
    if column.kind is ColumnKind.TEXT and value.column.kind is ColumnKind.BOOLEAN:
        word = compose("(CASE {v} WHEN 0 THEN 'false' WHEN 1 THEN 'true' END)", v=value.sql)
        return Expression(word, column)
    cast = compose("CAST({value} AS {type})", value=value.sql, type=_CAST_TYPES[column.kind])
    return Expression(cast, column)


def all_of(tests: Iterable[Sql]) -> Sql:
    """Join predicates with AND; true without any."""
    return join(" AND ", tests) or TRUE


def filters_sql(table: Table, filters: Iterable[Predicate]) -> Sql:
    """Write the filters. Raises RequestError."""
    return all_of(_predicate(table, one) for one in filters)


def _predicate(table: Table, item: Predicate) -> Sql:
    if isinstance(item, Filter):
        test = _test(table, item)
    else:
        parts = [_predicate(table, part) for part in item.parts]
        test = _grouped(parts, any_of=item.any_of)
    return compose("NOT ({test})", test=test) if item.negated else test


def _grouped(parts: Iterable[Sql], *, any_of: bool) -> Sql:
    each = [compose("({part})", part=part) for part in parts]
    return compose("({test})", test=join(" OR " if any_of else " AND ", each))


def _test(table: Table, item: Filter) -> Sql:
    left = expression(table, item.column, item.path)
    if item.comparison is Comparison.IS:
        return _truth_test(left, Truth(item.values[0]))
    if item.comparison is Comparison.IN:
        values = [value_sql(left.column, text) for text in item.values]
        if not values:  # is false for NULL, too
            return FALSE
        return compose("{left} IN ({values})", left=left.sql, values=join(", ", values))
    if item.quantifier is None:
        return _comparison(left, item.comparison, item.values[0])
    elements = array_elements(item.values[0])
    if not elements:
        return TRUE if item.quantifier is Quantifier.ALL else FALSE
    tests = [_comparison(left, item.comparison, element) for element in elements]
    return _grouped(tests, any_of=item.quantifier is Quantifier.ANY)


def _comparison(left: Expression, comparison: Comparison, text: str) -> Sql:
    match comparison:
        case Comparison.LIKE | Comparison.ILIKE:
            if left.column.kind not in (ColumnKind.TEXT, ColumnKind.OTHER):
                raise no_pattern(left.column)
            if _OPEN_ESCAPE.fullmatch(text):
                message = "LIKE pattern must not end with escape character"
                raise RequestError(from_sqlstate("22025", message))
            pattern = sql.text(text.replace("*", "%"))
            template = _LIKE if comparison is Comparison.LIKE else _ILIKE
            return compose(template, left=left.sql, pattern=pattern)
        case Comparison.IS_DISTINCT:
            value = value_sql(left.column, text)
            return compose("NOT ({left} <=> {value})", left=left.sql, value=value)
        case known if known in _OPERATORS:
            value = value_sql(left.column, text)
            return compose(
                "{left} {operator} {value}", left=left.sql, operator=_OPERATORS[known], value=value
            )
        case _:
            raise no_operator(comparison)


def _truth_test(left: Expression, truth: Truth) -> Sql:
    if truth in _BOOLEAN_TESTS and left.column.kind is not ColumnKind.BOOLEAN:
        raise no_truth_value(left.column, truth)
    return compose("({left} {test})", left=left.sql, test=_TRUTHS[truth])


def conditions_sql(table: Table, conditions: Conditions) -> Sql:
    """Write If-Match and If-None-Match over the row's version, as of the row that is changed.

    `If-Match: *` asks for a row and nothing more, which a change of no row does not satisfy.
    """
    version = version_of(table)
    if version is None:
        return TRUE
    tests = []
    wanted, known = conditions.if_match, conditions.if_none_match
    if wanted is not None and wanted != ANY:
        tests.append(_version_in(table, version, versions_of(wanted)))
    if known is not None and known != ANY:
        unmet = _version_in(table, version, weak_versions_of(known))
        tests.append(compose("NOT {test}", test=unmet))
    return all_of(tests)


def _version_in(table: Table, version: Column, versions: tuple[int, ...]) -> Sql:
    if not versions:
        return compose("({never})", never=FALSE)
    return compose(
        "(COALESCE({version}, 0) IN ({versions}))",
        version=column_name(table, version),
        versions=join(", ", map(sql.number, versions)),
    )


def version_of(table: Table) -> Column | None:
    """The table's version column, if it has one."""
    return None if table.version_column is None else table.column(table.version_column)


def order_sql(table: Table, order: tuple[Order, ...]) -> Sql:
    """Write ORDER BY with a leading blank, or nothing. Raises RequestError."""
    if not order:
        return sql.NOTHING
    terms = join(", ", (_order_term(table, term) for term in order))
    return compose(" ORDER BY {terms}", terms=terms)


def _order_term(table: Table, term: Order) -> Sql:
    """MariaDB has no NULLS FIRST: whether a value is NULL is ordered by before the value."""
    return compose(
        "({value} IS NULL) {nulls}, {value} {direction}",
        value=expression(table, term.column, term.path).sql,
        nulls=Sql("DESC") if term.nulls_first else Sql("ASC"),
        direction=Sql("DESC") if term.descending else Sql("ASC"),
    )
