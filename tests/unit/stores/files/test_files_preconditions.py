"""Conditions and ranges, as tables."""

from __future__ import annotations

import pytest

from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.object_action import GetObject
from gateway.model.problem import Code, Problem
from gateway.model.reply import NotModified, ObjectMeta
from gateway.stores.files.preconditions import Span, read_verdict, span_of, write_refusal

ABSENT = Problem(Code.NOT_FOUND, "nothing there")
TAG = '"w1"'
MODIFIED_S = 1_700_000_000  # Tue, 14 Nov 2023 22:13:20 GMT
SAME = "Tue, 14 Nov 2023 22:13:20 GMT"
EARLIER = "Tue, 14 Nov 2023 22:13:19 GMT"


@pytest.mark.parametrize(
    "match, none_match, etag, code",
    [
        (None, None, None, None),
        (None, None, TAG, None),
        ((TAG,), None, TAG, None),
        (("w1",), None, TAG, None),
        (("*",), None, TAG, None),
        (('"x"', TAG), None, TAG, None),
        (('"x"',), None, TAG, Code.PRECONDITION_FAILED),
        ((f"W/{TAG}",), None, TAG, Code.PRECONDITION_FAILED),
        ((TAG,), None, None, Code.NOT_FOUND),
        (("*",), None, None, Code.NOT_FOUND),
        (None, ("*",), None, None),
        (None, ("*",), TAG, Code.PRECONDITION_FAILED),
        (None, (TAG,), TAG, Code.PRECONDITION_FAILED),
        (None, (f"W/{TAG}",), TAG, Code.PRECONDITION_FAILED),
        (None, ('"x"',), TAG, None),
        ((TAG,), ("*",), TAG, Code.PRECONDITION_FAILED),
        ((), None, TAG, Code.PRECONDITION_FAILED),
    ],
)
def test_writes(
    match: tuple[str, ...] | None,
    none_match: tuple[str, ...] | None,
    etag: str | None,
    code: Code | None,
) -> None:
    """If-Match compares strongly, If-None-Match weakly; nothing is there has its own answer."""
    problem = write_refusal(Conditions(match, none_match), etag, ABSENT)
    assert (problem.code if problem else None) is code


@pytest.mark.parametrize(
    "conditions, since, unmodified, answer",
    [
        (NO_CONDITIONS, None, None, "ok"),
        (Conditions(if_none_match=(TAG,)), None, None, "304"),
        (Conditions(if_none_match=(f"W/{TAG}",)), None, None, "304"),
        (Conditions(if_none_match=('"x"',)), SAME, None, "ok"),
        (NO_CONDITIONS, SAME, None, "304"),
        (NO_CONDITIONS, EARLIER, None, "ok"),
        (NO_CONDITIONS, "yesterday", None, "ok"),
        (NO_CONDITIONS, "", None, "ok"),
        (NO_CONDITIONS, None, SAME, "ok"),
        (NO_CONDITIONS, None, EARLIER, "412"),
        (Conditions(if_match=('"x"',)), None, None, "412"),
        (Conditions(if_match=(TAG,)), None, EARLIER, "ok"),
        (Conditions(if_match=(TAG,), if_none_match=(TAG,)), None, None, "304"),
    ],
)
def test_reads(
    conditions: Conditions, since: str | None, unmodified: str | None, answer: str
) -> None:
    """The order of RFC 9110 section 13.2.2: tags before dates, If-Match before If-None-Match."""
    action = GetObject("", "k", if_modified_since=since, if_unmodified_since=unmodified)
    verdict = read_verdict(action, conditions, ObjectMeta(TAG, 5, MODIFIED_S))
    match verdict:
        case None:
            assert answer == "ok"
        case NotModified(etag):
            assert (answer, etag) == ("304", TAG)
        case Problem():
            assert (answer, verdict.code) == ("412", Code.PRECONDITION_FAILED)


@pytest.mark.parametrize(
    "text, size, answer",
    [
        (None, 10, None),
        ("", 10, None),
        ("bytes=0-9", 10, Span(0, 9)),
        ("bytes=0-99", 10, Span(0, 9)),
        ("bytes=3-", 10, Span(3, 9)),
        ("bytes=-3", 10, Span(7, 9)),
        ("bytes=-30", 10, Span(0, 9)),
        ("Bytes=3-4", 10, Span(3, 4)),
        ("bytes= 3-4", 10, Span(3, 4)),
        ("bytes=0-0,5-5", 10, None),
        ("bytes=5-1", 10, None),
        ("bytes=-", 10, None),
        ("bytes=a-b", 10, None),
        ("lines=1-2", 10, None),
        ("bytes=+1-2", 10, None),
        ("bytes=\u0661-2", 10, None),
        ("bytes=10-", 10, 416),
        ("bytes=10-11", 10, 416),
        ("bytes=-0", 10, 416),
        ("bytes=0-", 0, 416),
        ("bytes=-1", 0, 416),
        ("bytes=9999999999999999999-", 10, 416),
        ("bytes=99999999999999999999-", 10, None),
    ],
)
def test_ranges(text: str | None, size: int, answer: Span | int | None) -> None:
    """One satisfiable range gives its part; several, and nonsense, the whole; else 416."""
    span = span_of(text, size)
    if isinstance(span, Problem):
        assert (span.status, span.details) == (answer, f"bytes */{size}")
    else:
        assert span == answer
