"""The body of a mutation: rows as JSON, CSV or form fields, strictly read, values as they came.

Source: RFC 8259, RFC 4180. Numbers keep every digit: no value is turned into a Python number.
"""

from __future__ import annotations

import csv
import json
import re
from io import StringIO
from json.decoder import JSONDecodeError
from typing import Final, NoReturn, assert_never
from urllib.parse import parse_qsl

from gateway.dialects.rows.accept import BodyForm
from gateway.dialects.rows.problems import RequestError, bad_body
from gateway.model.row_action import Member

_BLANK: Final = re.compile(r"[ \t\n\r]*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_VALUES: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)


Row = tuple[Member, ...]


def parse_rows(body: bytes, form: BodyForm = BodyForm.JSON) -> tuple[Row, ...]:
    """Read one row or several, each as its members. Raises RequestError."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError(bad_body("Empty or invalid json")) from None
    match form:
        case BodyForm.JSON:
            return _json_rows(text)
        case BodyForm.CSV:
            return _csv_rows(text)
        case BodyForm.FIELDS:
            return (_form_row(text),)
        case _:
            assert_never(form)


def check_keys(rows: tuple[Row, ...]) -> None:
    """Without `columns`, every row of a body has the same members. Raises RequestError."""
    keys = {frozenset(member.column for member in row) for row in rows}
    if len(keys) > 1:
        raise RequestError(bad_body("All object keys must match"))


def _json_rows(text: str) -> tuple[Row, ...]:
    try:
        rows, end = _rows(text, _skip(text, 0))
        if _skip(text, end) != len(text):
            raise ValueError("something follows the value")
    except (ValueError, IndexError, RecursionError):  # ValueError covers JSONDecodeError
        raise RequestError(bad_body("Empty or invalid json")) from None
    return tuple(rows)


def _csv_rows(text: str) -> tuple[Row, ...]:
    """Read RFC 4180's lines below a head of column names; the bare word NULL is null."""
    try:
        lines = list(csv.reader(StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise RequestError(bad_body(f"Invalid csv: {error}")) from None
    if not lines:
        return ()
    head, *rest = lines
    if len(set(head)) != len(head):
        raise RequestError(bad_body("A column stands twice in the first line"))
    if any(len(line) != len(head) for line in rest):
        raise RequestError(bad_body("All lines must have same number of fields"))
    return tuple(tuple(map(_field, head, line)) for line in rest)


def _form_row(text: str) -> Row:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict") if text else []
    except ValueError:  # UnicodeDecodeError too
        raise RequestError(bad_body("The body holds no fields of a form")) from None
    if len({name for name, _ in pairs}) != len(pairs):
        raise RequestError(bad_body("The body has a field twice; send it once"))
    return tuple(_text_member(name, value) for name, value in pairs)


def _field(name: str, value: str) -> Member:
    return Member(name, "null") if value == "NULL" else _text_member(name, value)


def _text_member(name: str, value: str) -> Member:
    if "\0" in name or "\0" in value:
        raise RequestError(bad_body(f"The field '{name}' holds NUL, which no database text can"))
    return Member(name, json.dumps(value))


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    assert match is not None  # it matches the empty text too
    return match.end()


def _rows(text: str, at: int) -> tuple[list[Row], int]:
    if text[at] == "{":
        row, at = _object(text, at)
        return [row], at
    if text[at] != "[":
        raise ValueError("neither an object nor an array")
    rows: list[Row] = []
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


def _object(text: str, at: int) -> tuple[Row, int]:
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
