"""Values between JSON text and SQLite, typed by the declared type of the column.

SQLite itself would store the text "abc" in an integer column and round a long decimal; the rows
dialect promises PostgreSQL's answers, so both are refused here (SQLite, "Datatypes", section 3).
"""

from __future__ import annotations

import json
import math
from typing import Final

from gateway.dialects.rows.canonical import integer_of, uuid_of
from gateway.dialects.rows.problems import RequestError, from_sqlstate, unsupported
from gateway.dialects.rows.typed_text import (
    DECIMAL,
    boolean,
    integer,
    invalid,
    is_json,
    no_equality,
    octets,
    real,
)
from gateway.model.catalogue import Column, ColumnKind
from gateway.model.row_action import Member

SqlValue = int | float | str | bytes | None

# A double holds every decimal of this many digits (IEEE 754 binary64).
_EXACT_DIGITS: Final = 15


def member_value(column: Column, member: Member) -> SqlValue:
    """The value to store for one member of a row's body. Raises RequestError."""
    text = member.text
    if text is None:
        return None
    if column.kind is ColumnKind.JSON:
        return _json_document(column, member.json)
    if column.kind is ColumnKind.OTHER and not member.json.startswith('"'):
        return _untyped(column, member.json)
    return text_value(column, text)


def text_value(column: Column, text: str) -> SqlValue:
    """The value that a text stands for in a column of this type. Raises RequestError."""
    match column.kind:
        case ColumnKind.INTEGER:
            return integer(column, text)
        case ColumnKind.REAL:
            return real(column, text)
        case ColumnKind.NUMERIC:
            return _numeric(column, text)
        case ColumnKind.BOOLEAN:
            return boolean(column, text)
        case ColumnKind.UUID:
            found = uuid_of(text)
            if found is None:
                raise invalid(column, text)
            return found
        case ColumnKind.BINARY:
            return octets(column, text)
        case ColumnKind.JSON:
            raise no_equality(column)
        case _:
            return text


def json_text(column: Column, value: SqlValue) -> str:
    """Write a stored value as JSON text."""
    match value:
        case None:
            return "null"
        case int() if column.kind is ColumnKind.BOOLEAN and value in (0, 1):
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else json.dumps(_infinite(value))
        case bytes():
            return json.dumps("\\x" + value.hex())
        case str() if column.kind is ColumnKind.JSON and is_json(value):
            return value
        case str():
            return json.dumps(value, ensure_ascii=False)


def no_operator(operator: str) -> RequestError:
    """The refusal of an operator that SQLite has no equal of."""
    return RequestError(unsupported(f'the operator "{operator}" on SQLite', mutates=True))


def no_cast(name: str) -> RequestError:
    """The refusal of a cast that SQLite has no equal of."""
    return RequestError(unsupported(f'the cast to "{name}" on SQLite', mutates=True))


def _numeric(column: Column, text: str) -> int | float:
    number = integer_of(text)
    if number is not None:
        return number
    match = DECIMAL.fullmatch(text)
    if match is None:
        raise invalid(column, text)
    digits = match[1].replace(".", "").strip("0")
    if len(digits) > _EXACT_DIGITS:
        message = f'value "{text}" has more digits than SQLite keeps; use a text column'
        raise RequestError(from_sqlstate("22003", message))
    return real(column, text)


def _json_document(column: Column, document: str) -> str:
    """A JSON column keeps the document's text; a bare number passes SQLite's numeric affinity."""
    if document[0] not in '"{[tfn':
        _numeric(column, document)
    return document


def _untyped(column: Column, document: str) -> SqlValue:
    """A column whose type says nothing takes the value with the type that JSON gives it."""
    if document in ("true", "false"):
        return int(document == "true")
    return document if document[0] in "{[" else _numeric(column, document)


def _infinite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
