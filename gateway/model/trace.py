"""Trace context: which trace a request belongs to, as W3C Trace Context (level 2) writes it.

A field that does not follow the specification is ignored and a new trace begins (section 4.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

SAMPLED: Final = 0x01
RANDOM: Final = 0x02

_PARENT: Final = re.compile(
    rb"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})"
    rb"(?P<more>-.*)?",
    re.DOTALL,
)
_MEMBER: Final = re.compile(
    rb"([a-z0-9][a-z0-9_*/@-]{0,255})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_MAX_MEMBERS: Final = 32
_MAX_STATE_BYTES: Final = 512
_LONG_MEMBER_BYTES: Final = 128
_RATIO_BITS: Final = 2**64


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A place in a trace. `state` is what tracing systems pass along in `tracestate`."""

    trace_id: int
    span_id: int
    sampled: bool
    random: bool = False
    state: bytes = b""

    def traceparent(self, span_id: int) -> bytes:
        """The field that names a span of this trace as the parent."""
        flags = (SAMPLED if self.sampled else 0) | (RANDOM if self.random else 0)
        return b"00-%032x-%016x-%02x" % (self.trace_id, span_id, flags)


def read_context(parents: Sequence[bytes], states: Iterable[bytes]) -> TraceContext | None:
    """Understand the values of `traceparent` and `tracestate`. None: a new trace begins."""
    found = _PARENT.fullmatch(parents[0].strip(b" \t")) if len(parents) == 1 else None
    if found is None or found["version"] == b"ff":
        return None
    if found["version"] == b"00" and found["more"] is not None:
        return None
    trace_id, span_id = int(found["trace"], 16), int(found["span"], 16)
    if trace_id == 0 or span_id == 0:
        return None
    flags = int(found["flags"], 16)
    return TraceContext(
        trace_id, span_id, bool(flags & SAMPLED), bool(flags & RANDOM), read_state(states)
    )


def read_state(values: Iterable[bytes]) -> bytes:
    """The combined `tracestate`, in canonical form; empty when it breaks the specification."""
    members: dict[bytes, bytes] = {}
    for text in b",".join(values).split(b","):
        member = text.strip(b" \t")
        if not member:
            continue
        found = _MEMBER.fullmatch(member)
        if found is None or found[1] in members or len(members) == _MAX_MEMBERS:
            return b""
        members[found[1]] = member
    return b",".join(_bounded(list(members.values())))


def _bounded(members: list[bytes]) -> list[bytes]:
    """What is too long loses its long members first, then its oldest (section 3.3.1.5)."""
    if _size(members) > _MAX_STATE_BYTES:
        members = [m for m in members if len(m) <= _LONG_MEMBER_BYTES]
    while _size(members) > _MAX_STATE_BYTES:
        members.pop()
    return members


def _size(members: list[bytes]) -> int:
    return sum(len(m) + 1 for m in members) - 1


def is_sampled(trace_id: int, ratio: float) -> bool:
    """Whether a new trace is kept: by its id, so that every service decides alike."""
    return trace_id % _RATIO_BITS < ratio * _RATIO_BITS
