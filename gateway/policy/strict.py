"""What is no mistake, but often not meant: paths without a rule, and rules that overlap in part.

A narrow rule before a wider one is how rules are written, and not told.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from gateway.policy.document import PolicySet, RuleSettings, StoreSettings
from gateway.policy.pattern import Capture, Literal, Pattern, covers, parse_pattern

_ONE: Final = Capture("any")
_REST: Final = Capture("rest", rest=True)


def doubts(policy: PolicySet) -> Iterator[str]:
    """A line for each doubt, with file and line where a rule is concerned."""
    patterns = [(rule, parse_pattern(rule.match)) for rule in policy.rules]
    for store in policy.stores.values():
        mine = [(rule, p) for rule, p in patterns if rule.store in (None, store.name)]
        for resource in _resources(store):
            row = Pattern((*resource.segments, _ONE))  # a rule may take a table, or each row of it
            either = (resource, row) if store.dialect == "rows" else (resource,)
            if not any(covers(p, wanted) for _, p in mine for wanted in either):
                file = policy.sources[0] if policy.sources else "policy"
                yield (
                    f"{file}: stores.{store.name}: some paths of {_written(resource)} meet no "
                    "rule, so each is a scope of its own; say so with a last rule that takes all"
                )
    yield from _overlaps(policy, patterns)


def _overlaps(policy: PolicySet, patterns: list[tuple[RuleSettings, Pattern]]) -> Iterator[str]:
    for (first, wide), (second, narrow) in combinations(patterns, 2):
        if None not in (first.store, second.store) and first.store != second.store:
            continue
        if covers(narrow, wide) or covers(wide, narrow) or not meet(wide, narrow):
            continue
        if any(_below(store, wide) and _below(store, narrow) for store in policy.stores.values()):
            yield (
                f"{second.where}: rules.match: {second.match} and {first.match} (at {first.where}) "
                "share some paths, which the first of them takes; put a rule for those before both"
            )


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


def _resources(store: StoreSettings) -> tuple[Pattern, ...]:
    """Patterns that take everything a store has: per table for rows."""
    if store.dialect == "s3":
        return (Pattern((_ONE, _REST)),)
    mount = parse_pattern(store.mount or "/").segments
    if store.dialect != "rows":
        return (Pattern((*mount, _REST)),)
    tables = getattr(store, "tables", {})
    return tuple(Pattern((*mount, Literal(table))) for table in tables)


def _below(store: StoreSettings, pattern: Pattern) -> bool:
    """True when the store may have paths that the pattern matches."""
    if store.mount is None:
        return True
    return meet(Pattern((*parse_pattern(store.mount).segments, _REST)), pattern)


def _written(pattern: Pattern) -> str:
    parts = (s.text if isinstance(s, Literal) else "*" for s in pattern.segments)
    return "/" + "/".join(parts)
