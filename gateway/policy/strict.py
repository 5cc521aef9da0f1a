"""What is no mistake, but often not meant: paths without a rule, rules that overlap in part, keys
whose scopes nothing has.

A narrow rule before a wider one is how rules are written, and not told.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from gateway.policy.complaint import dotted
from gateway.policy.document import PolicySet, RuleSettings
from gateway.policy.key_scopes import dead_scopes
from gateway.policy.pattern import Capture, Literal, Pattern, covers, parse_pattern
from gateway.policy.store_paths import below, meet, resources

_ONE: Final = Capture("any")


def doubts(policy: PolicySet) -> Iterator[str]:
    """A line for each doubt, with file and line where a rule is concerned."""
    patterns = [(rule, parse_pattern(rule.match)) for rule in policy.rules]
    for store in policy.stores.values():
        mine = [(rule, p) for rule, p in patterns if rule.store in (None, store.name)]
        for resource in resources(store):
            row = Pattern((*resource.segments, _ONE))  # a rule may take a table, or each row of it
            either = (resource, row) if store.dialect == "rows" else (resource,)
            if not any(covers(p, wanted) for _, p in mine for wanted in either):
                file = policy.sources[0] if policy.sources else "policy"
                yield (
                    f"{file}: stores.{store.name}: some paths of {_written(resource)} meet no "
                    "rule, so each is a scope of its own; say so with a last rule that takes all"
                )
    yield from _overlaps(policy, patterns)
    for (index, position), text, hint in dead_scopes(policy):
        path = ("auth", "keys", index, "scopes", position)
        place = policy.scope_places.get((index, position), "policy")
        yield f'{place}: {dotted(path)}: no request has a scope that "{text}" covers ({hint})'


def _overlaps(policy: PolicySet, patterns: list[tuple[RuleSettings, Pattern]]) -> Iterator[str]:
    for (first, wide), (second, narrow) in combinations(patterns, 2):
        if None not in (first.store, second.store) and first.store != second.store:
            continue
        if covers(narrow, wide) or covers(wide, narrow) or not meet(wide, narrow):
            continue
        if any(below(store, wide) and below(store, narrow) for store in policy.stores.values()):
            yield (
                f"{second.where}: rules.match: {second.match} and {first.match} (at {first.where}) "
                "share some paths, which the first of them takes; put a rule for those before both"
            )


def _written(pattern: Pattern) -> str:
    parts = (s.text if isinstance(s, Literal) else "*" for s in pattern.segments)
    return "/" + "/".join(parts)
