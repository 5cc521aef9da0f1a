"""Whether a key's scope pattern can ever cover a request: what no rule and no store yields is dead.

Theory. What a rule names, what a store's own scopes look like and what a key covers are all texts
with gaps. Two such texts share a word when both can be walked to their ends together, a character
at a time; a gap may be stayed in. Captures hold normal form only (decisions, "Scope names").
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from gateway.policy.auth_settings import KeySettings
from gateway.policy.complaint import closest
from gateway.policy.document import Mode, PolicySet, StoreSettings
from gateway.policy.pattern import Pattern, covers, parse_pattern, parse_template
from gateway.policy.store_paths import below, resources

_CAPTURE: Final = re.compile(r"\{[a-z_][a-z0-9_]*(\*?)\}")
_IN_CAPTURES: Final = frozenset(string.ascii_letters + string.digits + "._~-%,/")
_DIGEST: Final = "~sha256-"


@dataclass(frozen=True, slots=True)
class _Step:
    """One character: `text`, or any of a gap. `stays` when it may come any number of times.

    `normal`: only characters that a captured path can have.
    """

    text: str = ""
    slash: bool = False
    normal: bool = False
    stays: bool = False

    def shares(self, other: _Step) -> bool:
        """True when some character fits both."""
        if self.text and other.text:
            return self.text == other.text
        if self.text or other.text:
            gap, text = (other, self.text) if self.text else (self, other.text)
            return gap.slash if text == "/" else not gap.normal or text in _IN_CAPTURES
        return True


_Steps = tuple[_Step, ...]
_SEGMENT: Final = (_Step(), _Step(stays=True))
_REST: Final = (_Step(slash=True, stays=True),)


def dead_scopes(policy: PolicySet) -> Iterator[tuple[tuple[int, int], str, str]]:
    """Each pattern that covers nothing: the indexes of its key and its own, and what was meant."""
    for index, key in enumerate(policy.keys):
        yielded = dict(_yielded(policy, key)) if key.scopes else {}
        for position, text in enumerate(key.scopes or ()):
            if _DIGEST not in text and not _covers_any(text, yielded):
                yield (index, position), text, _nearest(text, yielded)


def _covers_any(text: str, yielded: dict[str, _Steps]) -> bool:
    steps = _steps(text)
    return any(_meet(steps, other) for other in yielded.values())


def _nearest(text: str, yielded: dict[str, _Steps]) -> str:
    """The pattern without its last segments, where that would do; else what is written alike."""
    shorter = text
    while "/" in shorter:
        shorter = shorter.rpartition("/")[0]
        if _covers_any(shorter, yielded):
            return f"did you mean {shorter}?"
    longer = f"{text}/{{rest*}}"
    if _covers_any(longer, yielded):
        return f"did you mean {longer}?"
    known = sorted(yielded)
    return closest(text, known) or f"scopes are {', '.join(known)}"


def _yielded(policy: PolicySet, key: KeySettings) -> Iterator[tuple[str, _Steps]]:
    """What the scopes of the stores that a key covers look like, with their texts."""
    for store in policy.stores.values():
        if not key.covers(store.name):
            continue
        mine = [(r, parse_pattern(r.match)) for r in policy.rules if r.store in (None, store.name)]
        mine = [(rule, pattern) for rule, pattern in mine if below(store, pattern)]
        for rule, pattern in mine:
            if rule.scope is not None and rule.mode is not Mode.OFF:
                yield rule.scope, _of_template(rule.scope, pattern)
        unnamed = any(r.scope is None and r.mode is not Mode.OFF for r, _ in mine)
        if unnamed or not _all_taken(store, [pattern for _, pattern in mine]):
            yield from _own(store)


def _all_taken(store: StoreSettings, patterns: list[Pattern]) -> bool:
    return all(any(covers(p, wanted) for p in patterns) for wanted in resources(store))


def _own(store: StoreSettings) -> Iterator[tuple[str, _Steps]]:
    tables = getattr(store, "tables", {}) if store.dialect == "rows" else {}
    for table in tables:
        text = f"{store.name}:{table}/{{key}}"
        yield text, _normal(text)
    if store.dialect != "rows":
        text = f"{store.name}:{{path*}}"
        yield text, _normal(text)


def _of_template(scope: str, pattern: Pattern) -> _Steps:
    steps: list[_Step] = []
    for part in parse_template(scope, pattern).parts:
        if isinstance(part, str):
            steps += map(_Step, part)
        else:
            gap = _REST if pattern.captures[part].rest else _SEGMENT
            steps += (replace(step, normal=True) for step in gap)
    return tuple(steps)


def _normal(text: str) -> _Steps:
    return tuple(step if step.text else replace(step, normal=True) for step in _steps(text))


def _steps(text: str) -> _Steps:
    steps: list[_Step] = []
    end = 0
    for capture in _CAPTURE.finditer(text):
        steps += map(_Step, text[end : capture.start()])
        steps += _REST if capture[1] else _SEGMENT
        end = capture.end()
    return (*steps, *map(_Step, text[end:]))


def _meet(one: _Steps, other: _Steps) -> bool:
    """True when some text fits both."""
    seen, ahead = {(0, 0)}, [(0, 0)]
    while ahead:
        i, j = ahead.pop()
        if (i, j) == (len(one), len(other)):
            return True
        for place in _next(one, other, i, j):
            if place not in seen:
                seen.add(place)
                ahead.append(place)
    return False


def _next(one: _Steps, other: _Steps, i: int, j: int) -> Iterator[tuple[int, int]]:
    if i < len(one) and one[i].stays:
        yield i + 1, j
    if j < len(other) and other[j].stays:
        yield i, j + 1
    if i < len(one) and j < len(other) and one[i].shares(other[j]):
        yield (i if one[i].stays else i + 1), (j if other[j].stays else j + 1)
