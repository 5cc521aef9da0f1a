"""The http dialect, answering half: outcomes as HTTP answers (RFC 9110, RFC 9457)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from email.utils import formatdate
from functools import lru_cache
from typing import assert_never

from gateway.dialects.problem_json import problem_reply
from gateway.model.object_action import Fields
from gateway.model.operation import Operation
from gateway.model.outcome import Applied, Outcome, ReadFailed, ReadOk, Refused, Unknown
from gateway.model.problem import Code, Problem
from gateway.model.reply import (
    BucketFound,
    Buckets,
    Listing,
    NotModified,
    ObjectDeleted,
    ObjectFound,
    ObjectPut,
    ReadReply,
    Relay,
    Rows,
    WriteReply,
)
from gateway.ports.dialect import Reply


def render_outcome(outcome: Outcome, request_id: str, operation: Operation | None) -> Reply:
    """Give any outcome its wire form.

    An unsatisfiable range tells the size as RFC 9110, 14.4 wants, when `details` is `bytes */size`.
    """
    match outcome:
        case Applied(reply) | ReadOk(reply):
            return _render_reply(reply, request_id, operation)
        case Refused(problem) | Unknown(problem) | ReadFailed(problem):
            return _render_problem(problem, request_id, operation)
        case _:
            assert_never(outcome)


def _render_reply(
    reply: ReadReply | WriteReply, request_id: str, operation: Operation | None
) -> Reply:
    match reply:
        case ObjectFound():
            return _found(reply)
        case NotModified(etag):
            return Reply(304, ((b"etag", etag.encode("latin-1")),))
        case ObjectPut(etag, created):
            status = 201 if created else 204
            return Reply(status, ((b"etag", etag.encode("latin-1")),))
        case ObjectDeleted(existed):
            if existed:
                return Reply(204, ())
            nothing = Problem(Code.NOT_FOUND, "there was no such object to delete")
            return problem_reply(nothing, request_id, operation)
        case Relay():
            return _relayed(reply)
        case Rows() | Listing() | Buckets() | BucketFound():
            raise TypeError(f"the http dialect has no form for {type(reply).__name__}")
        case _:
            assert_never(reply)


def _render_problem(problem: Problem, request_id: str, operation: Operation | None) -> Reply:
    if problem.relay is not None:
        return _relayed(problem.relay, close=problem.close)
    reply = problem_reply(problem, request_id, operation)
    if problem.code is not Code.NOT_SATISFIABLE or problem.details is None:
        return reply
    if not problem.details.startswith("bytes */"):
        return reply
    content_range = (b"content-range", problem.details.encode("ascii"))
    return Reply(reply.status, (*reply.fields, content_range), reply.body, reply.close)


def _found(found: ObjectFound) -> Reply:
    meta = found.meta
    fields: list[tuple[bytes, bytes]] = [
        (b"etag", meta.etag.encode("latin-1")),
        (b"last-modified", _http_date(meta.last_modified_s)),
        (b"accept-ranges", b"bytes"),
        (b"content-length", b"%d" % found.length),
    ]
    fields += _encoded(meta.metadata)
    status = 200
    if found.span is not None:
        status = 206
        fields.append((b"content-range", b"bytes %d-%d/%d" % found.span))
    body: bytes | AsyncIterator[bytes] = b"" if found.chunks is None else found.chunks
    return Reply(status, tuple(fields), body)


def _relayed(relay: Relay, *, close: bool = False) -> Reply:
    """An origin's answer; its store has left out the fields of their connection."""
    body: bytes | AsyncIterator[bytes] = relay.body if relay.chunks is None else relay.chunks
    return Reply(relay.status, tuple(_encoded(relay.fields)), body, close)


def _encoded(fields: Fields) -> list[tuple[bytes, bytes]]:
    return [(name.encode("ascii"), value.encode("latin-1")) for name, value in fields]


@lru_cache(maxsize=1024)
def _http_date(unix_s: int) -> bytes:
    return formatdate(unix_s, usegmt=True).encode("ascii")
