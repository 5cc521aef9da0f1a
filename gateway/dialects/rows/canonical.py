"""The canonical form of a row's key: one row, one name (decisions, "Canonical resources").

The form is the database's text form after the cast to the column's type, so that `eq.01` and
`{"id": 1}` name the same row. Where that form is not certain there is none, and the operation
counts as one on the whole table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from gateway.model.catalogue import Column, ColumnKind, Table
from gateway.model.row_action import Member, Predicate, pinning

_INTEGER: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)0*([0-9]{1,19})[ \t\n\v\f\r]*")
_UUID: Final = re.compile(r"(\{?)([0-9a-f]{4}(?:-?[0-9a-f]{4}){7})(\}?)", re.ASCII)
_INT64: Final = range(-(2**63), 2**63)


def integer_of(text: str) -> int | None:
    """Read a 64-bit integer as PostgreSQL's input functions do, blanks around it and sign included.

    Hexadecimal and underscores, which newer releases take too, have no canonical form here.
    """
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if number in _INT64 else None


def uuid_of(text: str) -> str | None:
    """Read a UUID in any spelling that PostgreSQL takes, and write it as PostgreSQL does."""
    match = _UUID.fullmatch(text.lower())
    if match is None or bool(match[1]) != bool(match[3]):
        return None
    digits = match[2].replace("-", "")
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def canonical_value(column: Column, text: str) -> str | None:
    """Write one key value in the database's text form, or None where that is not certain."""
    if column.collated:
        return None
    if column.kind is ColumnKind.INTEGER:
        number = integer_of(text)
        return None if number is None else str(number)
    if column.kind is ColumnKind.UUID:
        return uuid_of(text)
    if column.kind is not ColumnKind.TEXT or not text:
        return None
    # A longer text is refused, or loses blanks at its end: it is not what will be stored.
    fits = column.max_chars is None or len(text) <= column.max_chars
    return text if fits else None


def escaped(text: str) -> str:
    """Escape all but unreserved characters (RFC 3986 section 2.3), as in resources and routes."""
    return quote(text, safe="")


def key_of_filters(table: Table, filters: Iterable[Predicate]) -> str | None:
    """The canonical key that the filters fix by `eq`, or None when they do not fix all of it."""
    found: dict[str, str | None] = {}
    for item in pinning(filters):
        column = table.column(item.column)
        if column is None:
            continue
        value = canonical_value(column, item.values[0])
        if found.setdefault(column.name, value) != value:
            return None
    return _key(table, found)


def key_of_members(table: Table, members: Iterable[Member]) -> str | None:
    """The canonical key that a row's body fixes, or None when it does not fix all of it."""
    found: dict[str, str | None] = {}
    for member in members:
        column = table.column(member.column)
        if column is None or member.text is None or member.json[0] in "{[tf":
            continue
        found[column.name] = canonical_value(column, member.text)
    return _key(table, found)


def changes_key(table: Table, filters: Iterable[Predicate], members: Iterable[Member]) -> bool:
    """True when an update may give the row another key, and so write a second resource."""
    fixed = tuple(member for member in members if member.column in table.primary_key)
    if not fixed:
        return False
    whole = {item.column: item for item in pinning(filters)}
    for member in fixed:
        column, item = table.column(member.column), whole.get(member.column)
        if column is None or item is None or member.text is None or member.json[0] in "{[tf":
            return True
        value = canonical_value(column, member.text)
        if value is None or value != canonical_value(column, item.values[0]):
            return True
    return False


def _key(table: Table, values: dict[str, str | None]) -> str | None:
    parts = [values.get(column.name) for column in table.key_columns]
    if not parts or None in parts:
        return None
    return ",".join(escaped(part) for part in parts if part is not None)
