"""The paths that a store has, as patterns, and whether two patterns share some."""

from __future__ import annotations

from typing import Final

from gateway.policy.document import StoreSettings
from gateway.policy.pattern import Capture, Literal, Pattern, parse_pattern

_ONE: Final = Capture("any")
_REST: Final = Capture("rest", rest=True)


def meet(one: Pattern, other: Pattern) -> bool:
    """True when some path is matched by both."""
    for mine, theirs in zip(one.segments, other.segments, strict=False):
        if _is_rest(mine) or _is_rest(theirs):
            return True
        if isinstance(mine, Literal) and isinstance(theirs, Literal):
            if mine != theirs:
                return False
        elif Literal("") in (mine, theirs):
            return False
    return len(one.segments) == len(other.segments)


def _is_rest(segment: Capture | Literal) -> bool:
    return isinstance(segment, Capture) and segment.rest


def resources(store: StoreSettings) -> tuple[Pattern, ...]:
    """Patterns that take everything a store has: per table for rows."""
    if store.dialect == "s3":
        return (Pattern((_ONE, _REST)),)
    mount = parse_pattern(store.mount or "/").segments
    if store.dialect != "rows":
        return (Pattern((*mount, _REST)),)
    tables = getattr(store, "tables", {})
    return tuple(Pattern((*mount, Literal(table))) for table in tables)


def below(store: StoreSettings, pattern: Pattern) -> bool:
    """True when the store may have paths that the pattern matches."""
    if store.mount is None:
        return True
    return meet(Pattern((*parse_pattern(store.mount).segments, _REST)), pattern)
