"""Texts of requests as values of a type, for engines that would take a wrong one in silence.

They follow PostgreSQL's input functions, and refuse with its SQLSTATEs (its manual, chapter 8).
"""

from __future__ import annotations

import json
import math
import re
from typing import Final, NoReturn

from gateway.dialects.rows.canonical import integer_of
from gateway.dialects.rows.problems import RequestError, from_sqlstate
from gateway.model.catalogue import Column

_INTEGER: Final = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
DECIMAL: Final = re.compile(
    r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?\s*", re.ASCII
)
"""A decimal number, with its digits and its exponent as groups."""
_BYTES: Final = re.compile(r"\\x((?:[0-9a-fA-F]{2})*)")
_TRUE: Final = frozenset({"t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"})
_FALSE: Final = frozenset({"f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"})


def integer(column: Column, text: str) -> int:
    """A 64-bit integer. Raises RequestError."""
    number = integer_of(text)
    if number is None:
        raise out_of_range(column, text) if _INTEGER.fullmatch(text) else invalid(column, text)
    return number


def real(column: Column, text: str) -> float:
    """A finite double. Raises RequestError."""
    if not DECIMAL.fullmatch(text):
        raise invalid(column, text)
    number = float(text)
    if not math.isfinite(number):
        raise out_of_range(column, text)
    return number


def boolean(column: Column, text: str) -> int:
    """A truth value, as 0 or 1. Raises RequestError."""
    word = text.strip().lower()
    if word not in _TRUE and word not in _FALSE:
        raise invalid(column, text)
    return int(word in _TRUE)


def octets(column: Column, text: str) -> bytes:
    r"""Bytes from their hexadecimal form, `\x00ff`. Raises RequestError."""
    match = _BYTES.fullmatch(text)
    if match is None:
        raise invalid(column, text)
    return bytes.fromhex(match[1])


def is_json(text: str) -> bool:
    """Whether a text is one JSON document (RFC 8259)."""
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def invalid(column: Column, text: str) -> RequestError:
    """The refusal of a text that is no value of the column's type."""
    message = f'invalid input syntax for type {column.kind}: "{text}"'
    return RequestError(from_sqlstate("22P02", message))


def out_of_range(column: Column, text: str) -> RequestError:
    """The refusal of a number that the column's type cannot hold."""
    message = f'value "{text}" is out of range for type {column.kind}'
    return RequestError(from_sqlstate("22003", message))


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


def no_equality(column: Column) -> RequestError:
    """The refusal to compare documents: PostgreSQL's `json` has no equality."""
    message = f"operator does not exist: {column.kind} = text"
    return RequestError(from_sqlstate("42883", message))
