"""Decides what a version means for a request: conditions and ranges (RFC 9110, sections 13, 14).

Nothing here awaits or touches the disk.
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

from gateway.model.conditions import Conditions
from gateway.model.object_action import GetObject
from gateway.model.problem import Code, Problem
from gateway.model.reply import NotModified, ObjectMeta

_RANGE: Final = re.compile(r"bytes=\s*([0-9]{0,19})-([0-9]{0,19})\s*", re.IGNORECASE)


class Span(NamedTuple):
    """The first and the last byte of a part."""

    first: int
    last: int


def _opaque(tag: str) -> str:
    """Clients of S3 send tags with and without quotes."""
    return tag.removeprefix('"').removesuffix('"')


def _matches(tags: tuple[str, ...], etag: str | None, *, weak: bool) -> bool:
    if etag is None:
        return False
    return any(
        tag == "*"
        or _opaque(tag) == _opaque(etag)
        or (weak and _opaque(tag.removeprefix("W/")) == _opaque(etag))
        for tag in tags
    )


def _failed(name: str) -> Problem:
    return Problem(
        Code.PRECONDITION_FAILED,
        f"{name} does not hold for the object as it is now: read it again and decide anew",
        native="PreconditionFailed",
    )


def write_refusal(conditions: Conditions, etag: str | None, absent: Problem) -> Problem | None:
    """The client's own conditions of a write, against the current tag (None: nothing is there).

    `absent` answers an If-Match on nothing: 412 for http, 404 for S3.
    """
    if conditions.if_match is not None and not _matches(conditions.if_match, etag, weak=False):
        return absent if etag is None else _failed("If-Match")
    if conditions.if_none_match is not None and _matches(conditions.if_none_match, etag, weak=True):
        return _failed("If-None-Match")
    return None


def no_match_on_absent() -> Problem:
    """The http answer to an If-Match where there is nothing."""
    return _failed("If-Match")


def read_verdict(
    action: GetObject, conditions: Conditions, meta: ObjectMeta
) -> NotModified | Problem | None:
    """The conditions of a read, in the order of RFC 9110 section 13.2.2; None: answer it."""
    if conditions.if_match is not None:
        if not _matches(conditions.if_match, meta.etag, weak=False):
            return _failed("If-Match")
    elif _later(meta.last_modified_s, action.if_unmodified_since) is True:
        return _failed("If-Unmodified-Since")
    if conditions.if_none_match is not None:
        if _matches(conditions.if_none_match, meta.etag, weak=True):
            return NotModified(meta.etag)
    elif _later(meta.last_modified_s, action.if_modified_since) is False:
        return NotModified(meta.etag)
    return None


def _later(modified_s: int, date: str | None) -> bool | None:
    """Whether the object changed after an HTTP date; None without a valid one."""
    if date is None:
        return None
    try:
        limit = parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return None
    if limit.tzinfo is None:
        limit = limit.replace(tzinfo=UTC)
    return modified_s > limit.timestamp()


def span_of(range_: str | None, size: int) -> Span | Problem | None:
    """The part that a Range field asks for; None: the whole (several parts and nonsense too)."""
    match = _RANGE.fullmatch(range_ or "")
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if first == "":
        begin, end = max(size - int(last), 0), size - 1
        possible = int(last) > 0 and size > 0
    else:
        begin = int(first)
        end = min(int(last), size - 1) if last else size - 1
        if last and int(last) < begin:
            return None
        possible = begin < size
    if not possible:
        return Problem(
            Code.NOT_SATISFIABLE,
            f"the object has {size} bytes, none of them in the range",
            native="InvalidRange",
            details=f"bytes */{size}",
        )
    return Span(begin, end)
