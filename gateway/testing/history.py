"""Checks what clients saw against what a store did: the promise, and the three answers.

A history is the calls of all clients, with the times of their invocation and completion on one
clock, and the effects of a store in the order in which they happened, read from the store itself.
Acknowledgements alone prove nothing: a lost answer hides an effect, and two effects can be
acknowledged in the other order. A call without an answer stays open: it may have happened or not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

Outcome = Literal["applied", "refused", "unknown"]


@dataclass(frozen=True, slots=True)
class Call:
    """One mutation as its client saw it.

    `outcome` is that of the answer, "unknown" also where there was none. Times are in seconds on
    a clock that all clients share.
    """

    id: str
    scope: str
    token: int
    invoked_s: float
    completed_s: float
    outcome: Outcome


class Kind(Enum):
    """What is wrong with a history."""

    STALE_EFFECT = "took effect after a higher token of its scope"
    STALE_ANSWER = "took effect, but was asked for after a higher token was answered"
    STALE_APPLIED = "was answered applied, but asked for after a higher token was answered"
    REFUSED_EFFECT = "was refused, and took effect"
    LOST_EFFECT = "was answered applied, and took no effect"
    TWICE = "took effect more than once"
    UNASKED = "took effect, and nobody asked for it"


class Violation(NamedTuple):
    """A call that broke the promise, and the one that it broke it against, if any."""

    kind: Kind
    call: str
    against: str = ""

    def __str__(self) -> str:
        return f"{self.call} {self.kind.value}{f': {self.against}' if self.against else ''}"


def check(calls: Iterable[Call], effects: Sequence[str]) -> list[Violation]:
    """All violations of a history. `effects` are the ids of calls in the store's own order."""
    by_id = {call.id: call for call in calls}
    return [
        *_unasked_and_twice(by_id, effects),
        *_stale_effects([by_id[one] for one in effects if one in by_id]),
        *_answers(by_id, Counter(effects)),
        *_stale_answers(by_id, set(effects)),
    ]


def _unasked_and_twice(by_id: dict[str, Call], effects: Sequence[str]) -> Iterator[Violation]:
    for one, count in Counter(effects).items():
        if one not in by_id:
            yield Violation(Kind.UNASKED, one)
        elif count > 1:
            yield Violation(Kind.TWICE, one)


def _stale_effects(effects: Iterable[Call]) -> Iterator[Violation]:
    """The commit-order law: no lower token after a higher one."""
    highest: dict[str, Call] = {}
    for call in effects:
        top = highest.setdefault(call.scope, call)
        if call.token < top.token:
            yield Violation(Kind.STALE_EFFECT, call.id, top.id)
        elif call.token > top.token:
            highest[call.scope] = call


def _answers(by_id: dict[str, Call], happened: Counter[str]) -> Iterator[Violation]:
    for call in by_id.values():
        match call.outcome:
            case "applied" if not happened[call.id]:
                yield Violation(Kind.LOST_EFFECT, call.id)
            case "refused" if happened[call.id]:
                yield Violation(Kind.REFUSED_EFFECT, call.id)
            case _:
                pass


def _stale_answers(by_id: dict[str, Call], happened: set[str]) -> Iterator[Violation]:
    """The promise in time: what was answered for a higher token shuts out all that is asked later.

    Walks the invocations and the applied answers of each scope in the order of time.
    """
    moments: dict[str, list[tuple[float, bool, Call]]] = defaultdict(list)
    for call in by_id.values():
        moments[call.scope].append((call.invoked_s, True, call))
        if call.outcome == "applied":
            moments[call.scope].append((call.completed_s, False, call))
    for of_scope in moments.values():
        top: Call | None = None
        # At the same instant the invocation goes first: nothing is held against it.
        for _, asks, call in sorted(of_scope, key=lambda moment: (moment[0], not moment[1])):
            if asks and top is not None and call.token < top.token:
                if call.outcome == "applied":
                    yield Violation(Kind.STALE_APPLIED, call.id, top.id)
                elif call.id in happened:
                    yield Violation(Kind.STALE_ANSWER, call.id, top.id)
            elif not asks and (top is None or call.token > top.token):
                top = call
