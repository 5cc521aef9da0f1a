"""SQL pieces in which all engines agree, for stores that speak SQL.

An identifier enters SQL text through `quoted` alone, and `quoted` takes names of the catalogue;
a value never enters SQL text at all (PostgreSQL manual, 4.1.1; SQLite, "SQL Keywords").
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from gateway.model.catalogue import Column, Table
from gateway.model.row_action import Comparison, Order, Truth

BINARY_OPERATORS: Final = MappingProxyType(
    {
        Comparison.EQ: "=",
        Comparison.NEQ: "<>",
        Comparison.GT: ">",
        Comparison.GTE: ">=",
        Comparison.LT: "<",
        Comparison.LTE: "<=",
    }
)
"""The operators with one value on the right. `in` and `is` have a shape of their own."""

TRUTH_TESTS: Final = MappingProxyType(
    {
        Truth.NULL: "IS NULL",
        Truth.NOT_NULL: "IS NOT NULL",
        Truth.TRUE: "IS TRUE",
        Truth.FALSE: "IS FALSE",
        Truth.UNKNOWN: "IS NULL",
    }
)
"""What `is.…` becomes. UNKNOWN is NULL of a boolean; engines that type it may say so."""


def quoted(thing: Table | Column) -> str:
    """Quote the name of a catalogue entry as an SQL identifier.

    It takes entries, not strings: a name that came with a request has none.
    """
    return '"' + thing.name.replace('"', '""') + '"'


def order_terms(table: Table, order: tuple[Order, ...]) -> str:
    """Write the terms of ORDER BY, or the empty text. Raises KeyError for an unknown column."""
    terms = []
    for term in order:
        column = table.column(term.column)
        if column is None:
            raise KeyError(term.column)
        direction = "DESC" if term.descending else "ASC"
        nulls = "NULLS FIRST" if term.nulls_first else "NULLS LAST"
        terms.append(f"{quoted(column)} {direction} {nulls}")
    return ", ".join(terms)
