"""The checker of histories: right ones pass, and every planted violation is flagged."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.testing.history import Call, Kind, Violation, check

History = tuple[list[Call], list[str]]


def right_history(seed: int, length: int = 120) -> History:
    """What an ideal gateway could have done: overlapping calls, lost answers, takeovers."""
    chance = random.Random(seed)
    marks = dict.fromkeys(("a", "b", "c"), 1)
    calls: list[Call] = []
    effects: list[str] = []
    for number in range(length):
        scope = chance.choice(list(marks))
        if chance.random() < 0.2:
            marks[scope] += chance.randint(1, 3)
        token = max(1, marks[scope] - chance.choice((0, 0, 0, 1, 2)))
        # Instants rise with the number, calls overlap: invoked earlier, answered later.
        invoked_s, answered_s = number - chance.random() * 3, number + chance.random() * 3
        call = Call(f"c{number}", scope, token, invoked_s, answered_s, "refused")
        if token == marks[scope]:
            effects.append(call.id)
            call = replace(call, outcome="applied" if chance.random() < 0.8 else "unknown")
        elif chance.random() < 0.1:
            call = replace(call, outcome="unknown")
        calls.append(call)
    return calls, effects


@pytest.mark.parametrize("seed", range(40))
def test_a_right_history_passes(seed: int) -> None:
    """Overlapping calls, takeovers, lost answers: nothing is held against an ideal gateway."""
    assert check(*right_history(seed)) == []


def plant(kind: Kind, history: History, chance: random.Random) -> History:
    """The same history with one violation of that kind, and perhaps what follows from it."""
    calls, effects = list(history[0]), list(history[1])
    end_s = max(call.completed_s for call in calls)
    applied = [call for call in calls if call.outcome == "applied" and call.token > 1]
    refused = [call for call in calls if call.outcome == "refused"]
    one = chance.choice(applied)
    match kind:
        case Kind.STALE_EFFECT:  # asked in time, and held up on its way
            late = replace(one, id="late", token=one.token - 1, outcome="unknown", invoked_s=-9.0)
            calls.append(late)
            effects.insert(chance.randint(effects.index(one.id) + 1, len(effects)), late.id)
        case Kind.STALE_ANSWER:
            times = {"invoked_s": end_s + 1, "completed_s": end_s + 2}
            late = replace(one, id="late", token=one.token - 1, outcome="unknown", **times)
            calls.append(late)
            effects.insert(chance.randint(0, effects.index(one.id)), late.id)
        case Kind.STALE_APPLIED:
            times = {"invoked_s": end_s + 1, "completed_s": end_s + 2}
            late = replace(one, id="late", token=one.token - 1, **times)
            calls.append(late)
            effects.insert(chance.randint(0, len(effects)), late.id)
        case Kind.REFUSED_EFFECT:
            effects.insert(chance.randint(0, len(effects)), chance.choice(refused).id)
        case Kind.LOST_EFFECT:
            effects.remove(one.id)
        case Kind.TWICE:
            effects.insert(effects.index(one.id), one.id)
        case Kind.UNASKED:
            effects.insert(chance.randint(0, len(effects)), "nobody's")
    return calls, effects


@pytest.mark.parametrize("kind", list(Kind))
def test_every_planted_violation_is_flagged(kind: Kind) -> None:
    """Of forty histories with one violation of a kind, forty are flagged as that kind."""
    for seed in range(40):
        found = check(*plant(kind, right_history(seed), random.Random(seed)))
        assert kind in {violation.kind for violation in found}, (kind, seed, found)


def test_acknowledgements_alone_would_pass_a_broken_store() -> None:
    """Negative control: the older write lands last, both are answered in the order of tokens."""
    calls = [
        Call("old", "a", 1, 0, 5, "unknown"),
        Call("new", "a", 2, 1, 2, "applied"),
    ]
    assert check(calls, ["old", "new"]) == []
    assert check(calls, ["new", "old"]) == [Violation(Kind.STALE_EFFECT, "old", "new")]


def test_an_open_call_may_have_happened_or_not() -> None:
    """Unknown stays open: both are right, as long as no higher token was in between."""
    calls = [Call("one", "a", 1, 0, 1, "unknown")]
    assert check(calls, []) == []
    assert check(calls, ["one"]) == []


def test_scopes_are_judged_apart() -> None:
    """A low token of another scope is nobody's business."""
    calls = [Call("one", "a", 9, 0, 1, "applied"), Call("two", "b", 1, 2, 3, "applied")]
    assert check(calls, ["one", "two"]) == []


def test_an_equal_token_is_not_stale() -> None:
    """One holder writes many times."""
    calls = [Call(f"c{i}", "a", 4, i, i + 0.5, "applied") for i in range(5)]
    assert check(calls, [call.id for call in calls]) == []


@settings(max_examples=200)
@given(st.data())
def test_checking_is_the_same_whatever_the_order_of_calls(data: st.DataObject) -> None:
    """The checker reads times, not the order in which clients reported."""
    calls, effects = right_history(data.draw(st.integers(0, 1000)), 30)
    if data.draw(st.booleans()):
        effects = data.draw(st.permutations(effects))
    shuffled = data.draw(st.permutations(calls))
    assert sorted(map(str, check(shuffled, effects))) == sorted(map(str, check(calls, effects)))


def test_a_long_history_is_checked_in_time() -> None:
    """A hundred thousand calls are no more than a sort: it is done before the deadline."""
    numbers = count()
    calls = [
        Call(f"c{n}", f"s{n % 50}", n // 50 + 1, n, n + 0.5, "applied") for n in range(100_000)
    ]
    assert check(calls, [f"c{next(numbers)}" for _ in calls]) == []
