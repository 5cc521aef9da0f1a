"""Why a row has no name although its key was given, and which tables no key can name rows of.

A name must be certain: two spellings of one key would be two scopes, and two holders would write
one row. What is said here is told to the worker, and to the operator by `check --connect`.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.rows.canonical import canonical_value, changes_key
from gateway.model.catalogue import Column, ColumnKind, Table
from gateway.model.row_action import DeleteRows, InsertRows, SelectRows, UpdateRows, pinning

_NAMING: Final = frozenset({ColumnKind.INTEGER, ColumnKind.UUID, ColumnKind.TEXT})


def nameless(table: Table) -> str:
    """Why no row of a table can be named by its key; empty where rows can be."""
    if not table.primary_key:
        return f'table "{table.name}" has no primary key'
    for column in table.key_columns:
        if why := _no_one_spelling(column):
            return why
    return ""


def unnamed(action: SelectRows | InsertRows | UpdateRows | DeleteRows, table: Table) -> str:
    """Why a request without a canonical key has none, if it gave the key; empty if it did not."""
    if why := nameless(table):
        return why
    if isinstance(action, InsertRows) and len(action.rows) != 1:
        return f"the body has {len(action.rows)} rows"
    given = _given(action)
    if isinstance(action, UpdateRows) and changes_key(table, action.filters, action.members):
        return "the body may change the primary key, and so write two rows"
    if any(column.name not in given for column in table.key_columns):
        return ""
    for column in table.key_columns:
        text = given[column.name]
        if canonical_value(column, text) is None:
            what = "is an empty text" if not text else f"has no certain spelling as {column.kind}"
            return f'the value of key column "{column.name}" {what}'
    return ""


def _given(action: SelectRows | InsertRows | UpdateRows | DeleteRows) -> dict[str, str]:
    if isinstance(action, InsertRows):
        row = action.rows[0] if len(action.rows) == 1 else ()
        return {m.column: m.text for m in row if m.text is not None}
    return {item.column: item.values[0] for item in pinning(action.filters)}


def _no_one_spelling(column: Column) -> str:
    if column.collated:
        return f'key column "{column.name}" takes different texts for equal (its collation)'
    if column.kind in _NAMING:
        return ""
    kind = column.type_name or "untyped"
    return f'key column "{column.name}" ({kind}) has values of more than one spelling'
