"""From an outcome to PostgREST's answer: status, fields, body.

Source: PostgREST reference, "Tables and Views" and "Errors"; wire contract for the gateway's own.
"""

from __future__ import annotations

import json
from typing import Final, assert_never
from urllib.parse import quote

from gateway.dialects.rows.accept import JSON, SINGLE
from gateway.dialects.rows.context import RowsContext
from gateway.dialects.rows.prefer import Returning
from gateway.model.outcome import Applied, Outcome, ReadFailed, ReadOk, Refused, Unknown
from gateway.model.problem import Problem
from gateway.model.reply import NotModified, Rows
from gateway.ports.dialect import RawFields, Reply

_UNKNOWN_RANGE: Final = b"*/*"


def render_outcome(method: str, context: RowsContext | None, outcome: Outcome) -> Reply:
    """Write any outcome. `context` is None only where parsing failed, and so with a problem."""
    match outcome:
        case Applied(reply=Rows() as rows) if context is not None:
            return _written(method, context, rows)
        case ReadOk(reply=Rows() as rows) if context is not None:
            return _read(method, context, rows)
        case ReadOk(reply=NotModified(etag=etag)):
            return Reply(304, ((b"etag", etag.encode("latin-1")),))
        case Refused(problem) | Unknown(problem) | ReadFailed(problem):
            return _problem(method, problem)
        case Applied() | ReadOk():
            raise TypeError(f"the rows dialect cannot render {type(outcome.reply).__name__}")
        case _:
            assert_never(outcome)


def _read(method: str, context: RowsContext, rows: Rows) -> Reply:
    assert rows.json is not None  # a read always has a representation
    fields = [
        (b"content-type", SINGLE if context.single else JSON),
        (b"content-range", _span(rows)),
        (b"content-location", context.content_location.encode("ascii")),
    ]
    fields.extend(_common(context, rows))
    return _answer(method, 200, fields, _text(rows.json, context))


def _written(method: str, context: RowsContext, rows: Rows) -> Reply:
    fields = [(b"content-range", _span(rows) if method == "PATCH" else _UNKNOWN_RANGE)]
    if context.returning is Returning.HEADERS_ONLY and rows.json is not None:
        fields.extend(_location(context, rows.json))
    shown = context.returning is Returning.REPRESENTATION and rows.json is not None
    body = b""
    if shown and rows.json is not None:
        fields.append((b"content-type", SINGLE if context.single else JSON))
        body = _text(rows.json, context)
    status = 201 if method == "POST" else 200 if shown else 204
    return Reply(status, (*fields, *_common(context, rows)), body)


def _common(context: RowsContext, rows: Rows) -> RawFields:
    fields = []
    if rows.etag is not None:
        fields.append((b"etag", rows.etag.encode("latin-1")))
    if context.applied:
        fields.append((b"preference-applied", context.applied.encode("latin-1")))
    return tuple(fields)


def _span(rows: Rows) -> bytes:
    if rows.count == 0:
        return _UNKNOWN_RANGE
    return b"%d-%d/*" % (rows.offset, rows.offset + rows.count - 1)


def _text(array: str, context: RowsContext) -> bytes:
    """The array, or its one object: the store has made sure that there is exactly one."""
    return (array[1:-1].strip() if context.single else array).encode()


def _location(context: RowsContext, array: str) -> RawFields:
    """Location of the row inserted, by its key (return=headers-only)."""
    found = json.loads(array, parse_int=str, parse_float=str)
    if len(found) != 1 or not context.primary_key:
        return ()
    row = found[0]
    terms = (f"{quote(name)}=eq.{quote(_key_text(row[name]))}" for name in context.primary_key)
    return ((b"location", f"{context.location}?{'&'.join(terms)}".encode("ascii")),)


def _key_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _problem(method: str, problem: Problem) -> Reply:
    code = problem.native or problem.code.value
    body = {
        "code": code,
        "message": problem.message,
        "details": problem.details,
        "hint": problem.hint,
    }
    fields = [
        (b"content-type", JSON),
        (b"proxy-status", f"PostgREST; error={code}".encode("ascii")),
    ]
    if problem.retry_after_s is not None:
        fields.append((b"retry-after", b"%d" % problem.retry_after_s))
    if problem.allow is not None:
        fields.append((b"allow", problem.allow.encode("ascii")))
    if problem.status == 401:
        fields.append((b"www-authenticate", b"Bearer"))
    # A name from the body may hold half a surrogate pair, which UTF-8 cannot.
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return _answer(method, problem.status, fields, text, close=problem.close)


def _answer(
    method: str,
    status: int,
    fields: list[tuple[bytes, bytes]],
    body: bytes,
    *,
    close: bool = False,
) -> Reply:
    """An answer with its body; HEAD tells the length and keeps it (RFC 9110 section 8.6)."""
    if method == "HEAD":
        fields.append((b"content-length", b"%d" % len(body)))
        body = b""
    return Reply(status, tuple(fields), body, close=close)
