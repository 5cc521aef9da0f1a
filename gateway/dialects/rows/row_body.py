"""The JSON body of a POST or PATCH: one object, strictly read, each value kept as it came.

Source: RFC 8259. Numbers keep every digit, since no value is turned into a Python number.
"""

from __future__ import annotations

import json
import re
from json.decoder import JSONDecodeError
from typing import Final, NoReturn

from gateway.dialects.rows.problems import RequestError, bad_body, unsupported
from gateway.model.row_action import Member

_BLANK: Final = re.compile(r"[ \t\n\r]*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_VALUES: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)


def parse_rows(body: bytes) -> tuple[tuple[Member, ...], ...]:
    """Read an object, or an array of objects, as rows of members. Raises RequestError.

    An array may hold at most one object: several rows in one request have several scopes.
    """
    try:
        text = body.decode("utf-8")
        rows, end = _rows(text, _skip(text, 0))
        if _skip(text, end) != len(text):
            raise ValueError("something follows the value")
    except (ValueError, IndexError, RecursionError):
        # ValueError covers UnicodeDecodeError and JSONDecodeError.
        raise RequestError(bad_body("Empty or invalid json")) from None
    if len(rows) > 1:
        raise RequestError(unsupported("a body of more than one row", mutates=True))
    return tuple(rows)


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    assert match is not None  # it matches the empty text too
    return match.end()


def _rows(text: str, at: int) -> tuple[list[tuple[Member, ...]], int]:
    if text[at] == "{":
        row, at = _object(text, at)
        return [row], at
    if text[at] != "[":
        raise ValueError("neither an object nor an array")
    rows: list[tuple[Member, ...]] = []
    at = _skip(text, at + 1)
    if text[at] == "]":
        return rows, at + 1
    while True:
        row, at = _object(text, at)
        rows.append(row)
        at = _skip(text, at)
        if text[at] == "]":
            return rows, at + 1
        at = _skip(text, _after(text, at, ","))


def _object(text: str, at: int) -> tuple[tuple[Member, ...], int]:
    at = _skip(text, _after(text, at, "{"))
    members: dict[str, Member] = {}
    if text[at] == "}":
        return (), at + 1
    while True:
        name, at = _name(text, at)
        at = _skip(text, _after(text, _skip(text, at), ":"))
        member, at = _member(name, text, at)
        if name in members:
            raise RequestError(bad_body(f"The body has the member '{name}' twice; send it once"))
        members[name] = member
        at = _skip(text, at)
        if text[at] == "}":
            return tuple(members.values()), at + 1
        at = _skip(text, _after(text, at, ","))


def _name(text: str, at: int) -> tuple[str, int]:
    name, end = _VALUES.raw_decode(text, at)
    if text[at] != '"' or not isinstance(name, str):
        raise JSONDecodeError("expected a name", text, at)
    return name, end


def _member(name: str, text: str, at: int) -> tuple[Member, int]:
    value, end = _VALUES.raw_decode(text, at)
    if "\\u" in text[at:end] and not _storable(value):
        why = "no database text can hold NUL or half a surrogate pair"
        raise RequestError(bad_body(f"The member '{name}' has an unsupported escape: {why}"))
    return Member(name, text[at:end]), end


def _storable(value: object) -> bool:
    """False when a text in the value has a character that PostgreSQL's text type refuses."""
    match value:
        case str():
            return "\0" not in value and not _SURROGATE.search(value)
        case list():
            return all(_storable(item) for item in value)
        case dict():
            return all(_storable(key) and _storable(item) for key, item in value.items())
        case _:
            return True


def _after(text: str, at: int, expected: str) -> int:
    if text[at] != expected:
        raise JSONDecodeError(f"expected {expected}", text, at)
    return at + 1
