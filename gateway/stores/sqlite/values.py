"""Values between JSON text and SQLite, typed by the declared type of the column.

SQLite itself would store the text "abc" in an integer column and round a long decimal; the rows
dialect promises PostgreSQL's answers, so both are refused here (SQLite, "Datatypes", section 3).
"""

from __future__ import annotations

import json
import math
import re
from typing import Final, NoReturn

from gateway.dialects.rows.canonical import integer_of, uuid_of
from gateway.dialects.rows.problems import RequestError, from_sqlstate, unsupported
from gateway.model.catalogue import Column, ColumnKind
from gateway.model.row_action import Member

SqlValue = int | float | str | bytes | None

_INTEGER: Final = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
_DECIMAL: Final = re.compile(
    r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?\s*", re.ASCII
)
_BYTES: Final = re.compile(r"\\x((?:[0-9a-fA-F]{2})*)")
# A double holds every decimal of this many digits (IEEE 754 binary64).
_EXACT_DIGITS: Final = 15
_TRUE: Final = frozenset({"t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"})
_FALSE: Final = frozenset({"f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"})


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
            return _integer(column, text)
        case ColumnKind.REAL:
            return _real(column, text)
        case ColumnKind.NUMERIC:
            return _numeric(column, text)
        case ColumnKind.BOOLEAN:
            return _boolean(column, text)
        case ColumnKind.UUID:
            found = uuid_of(text)
            if found is None:
                raise _invalid(column, text)
            return found
        case ColumnKind.BINARY:
            match = _BYTES.fullmatch(text)
            if match is None:
                raise _invalid(column, text)
            return bytes.fromhex(match[1])
        case ColumnKind.JSON:
            message = f"operator does not exist: {column.kind} = text"
            raise RequestError(from_sqlstate("42883", message))
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
        case str() if column.kind is ColumnKind.JSON and _is_json(value):
            return value
        case str():
            return json.dumps(value, ensure_ascii=False)


def no_truth_value(column: Column, truth: str) -> RequestError:
    """The refusal of `is.true` on a column that holds no truth values."""
    message = f"argument of IS {truth.upper()} must be type boolean, not type {column.kind}"
    return RequestError(from_sqlstate("42804", message))


def no_documents(column: Column) -> RequestError:
    """The refusal of a path into a column that holds no documents."""
    return RequestError(from_sqlstate("42883", f"column {column.name} holds no JSON documents"))


def no_pattern(column: Column) -> RequestError:
    """The refusal of LIKE on a column that holds no texts."""
    message = f"operator does not exist: {column.kind} ~~ text"
    return RequestError(from_sqlstate("42883", message))


def no_operator(operator: str) -> RequestError:
    """The refusal of an operator that SQLite has no equal of."""
    return RequestError(unsupported(f'the operator "{operator}" on SQLite', mutates=True))


def no_cast(name: str) -> RequestError:
    """The refusal of a cast that SQLite has no equal of."""
    return RequestError(unsupported(f'the cast to "{name}" on SQLite', mutates=True))


def _integer(column: Column, text: str) -> int:
    number = integer_of(text)
    if number is None:
        raise _out_of_range(column, text) if _INTEGER.fullmatch(text) else _invalid(column, text)
    return number


def _real(column: Column, text: str) -> float:
    if not _DECIMAL.fullmatch(text):
        raise _invalid(column, text)
    number = float(text)
    if not math.isfinite(number):
        raise _out_of_range(column, text)
    return number


def _numeric(column: Column, text: str) -> int | float:
    number = integer_of(text)
    if number is not None:
        return number
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise _invalid(column, text)
    digits = match[1].replace(".", "").strip("0")
    if len(digits) > _EXACT_DIGITS:
        message = f'value "{text}" has more digits than SQLite keeps; use a text column'
        raise RequestError(from_sqlstate("22003", message))
    return _real(column, text)


def _boolean(column: Column, text: str) -> int:
    word = text.strip().lower()
    if word not in _TRUE and word not in _FALSE:
        raise _invalid(column, text)
    return int(word in _TRUE)


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


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _infinite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _invalid(column: Column, text: str) -> RequestError:
    message = f'invalid input syntax for type {column.kind}: "{text}"'
    return RequestError(from_sqlstate("22P02", message))


def _out_of_range(column: Column, text: str) -> RequestError:
    message = f'value "{text}" is out of range for type {column.kind}'
    return RequestError(from_sqlstate("22003", message))
