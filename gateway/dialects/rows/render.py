"""From an outcome to PostgREST's answer: status, fields, body.

Source: PostgREST reference, "Tables and Views" and "Errors"; wire contract for the gateway's own.
"""

from __future__ import annotations

import json
from typing import Final, assert_never
from urllib.parse import quote

from gateway.dialects.rows.accept import CSV, JSON, SINGLE, Shape
from gateway.dialects.rows.context import RowsContext
from gateway.dialects.rows.prefer import Resolution, Returning
from gateway.model.outcome import Applied, Outcome, ReadFailed, ReadOk, Refused, Unknown
from gateway.model.problem import Problem
from gateway.model.reply import NotModified, Rows
from gateway.ports.dialect import RawFields, Reply

_TYPES: Final = {Shape.ARRAY: JSON, Shape.OBJECT: SINGLE, Shape.CSV: CSV}


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
        (b"content-type", _TYPES[context.shape]),
        (b"content-range", _span(rows)),
        (b"content-location", context.content_location.encode("ascii")),
    ]
    fields.extend(_common(context, rows))
    partial = rows.total is not None and rows.count < rows.total
    status = 206 if partial else 200
    return _answer(method, status, fields, _text(rows.json, context))


def _written(method: str, context: RowsContext, rows: Rows) -> Reply:
    span = _span(rows) if method == "PATCH" else b"*/" + _total(rows)
    if context.counted:
        span = span.partition(b"/")[0] + b"/%d" % rows.count
    fields = [(b"content-range", span)]
    if context.returning is Returning.HEADERS_ONLY and rows.json is not None:
        fields.extend(_location(context, rows.json))
    shown = context.returning is Returning.REPRESENTATION and rows.json is not None
    body = b""
    if shown and rows.json is not None:
        fields.append((b"content-type", _TYPES[context.shape]))
        body = _text(rows.json, context)
    status = _status(method, context, rows, shown=shown)
    return Reply(status, (*fields, *_common(context, rows)), body)


def _status(method: str, context: RowsContext, rows: Rows, *, shown: bool) -> int:
    """201 for what was made, 200 for a body about what was there, 204 for neither."""
    match method:
        case "POST":
            merged = context.resolution is Resolution.MERGE and not rows.inserted
            return 200 if merged else 201
        case "PUT" if rows.inserted:
            return 201
        case _:
            return 200 if shown else 204


def _common(context: RowsContext, rows: Rows) -> RawFields:
    fields = []
    if rows.etag is not None:
        fields.append((b"etag", rows.etag.encode("latin-1")))
    if context.applied:
        fields.append((b"preference-applied", context.applied.encode("latin-1")))
    return tuple(fields)


def _span(rows: Rows) -> bytes:
    if rows.count == 0:
        return b"*/" + _total(rows)
    return b"%d-%d/%s" % (rows.offset, rows.offset + rows.count - 1, _total(rows))


def _total(rows: Rows) -> bytes:
    return b"*" if rows.total is None else b"%d" % rows.total


def _text(found: str, context: RowsContext) -> bytes:
    """What was found, or its one object: the store has made sure that there is exactly one."""
    return (found[1:-1].strip() if context.shape is Shape.OBJECT else found).encode()


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
    if problem.total is not None:
        fields.append((b"content-range", b"*/%d" % problem.total))
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
