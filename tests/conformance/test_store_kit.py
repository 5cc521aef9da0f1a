"""The object-store kit itself: it passes a store that is right, and catches each known fault."""

from __future__ import annotations

import pytest

from gateway.testing import store_order
from gateway.testing.store_contract import (
    OBJECT_STORE_LAWS,
    Law,
    OpenSubject,
    Traits,
    laws_for,
)
from gateway.testing.store_order import (
    Trial,
    late_effects,
    overtake_a_stalled_body,
    overtaken,
    storm,
)
from tests.conformance.kit_reference_store import REFERENCE, open_reference

FAULTS = {
    "check_then_write": "order_of_a_stalled_body",
    "lowers_marks": "carry",
    "trusts_every_holder": "two_hands",
    "no_behind": "behind",
    "long_keys": "key_limits",
    "early_effect": "gate_last",
    "keeps_broken_bodies": "broken_body",
    "any_length": "short_body",
    "no_replays": "replays",
    "no_conditions": "put_conditions",
    "no_gate": "gate_last",
    "asks_twice": "gate_last",
    "ignores_gate": "gate_shut",
    "same_etags": "etags_unique",
    "forgets_metadata": "metadata",
    "shows_stamp": "metadata",
    "off_by_one": "ranges",
    "utf_16_order": "list_order",
    "empty_page": "list_pages",
}


def law(name: str) -> Law:
    """The law with this name."""
    return next(each for each in OBJECT_STORE_LAWS if each.name == name)


@pytest.mark.parametrize("each", OBJECT_STORE_LAWS, ids=lambda each: each.name)
async def test_a_right_store_passes(each: Law) -> None:
    """The kit asks nothing that a right store would not do."""
    await each.check(open_reference())


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_caught(fault: str) -> None:
    """A store with one fault is caught by the law that is about it."""
    with pytest.raises(AssertionError):
        await law(FAULTS[fault]).check(open_reference(fault))


@pytest.mark.parametrize("name", ["race_to_create", "race_to_replace", "order_in_storms"])
async def test_check_then_write_is_caught_under_load(name: str) -> None:
    """Conditions and marks that are compared before the body comes lose races and storms."""
    with pytest.raises(AssertionError):
        await law(name).check(open_reference("check_then_write"))


async def test_answers_do_not_show_what_effects_show() -> None:
    """A store that checks first and writes later passes every test of its answers alone.

    The same runs, judged by the real order of effects, break the law.
    """
    late = 0
    async for trial in _trials(open_reference("check_then_write")):
        assert any(attempt.applied for attempt in trial.attempts)
        assert overtaken(trial.attempts) == []  # what clients can see is in order
        journal = trial.subject.journal
        assert journal is not None
        disorder = late_effects(await journal(), trial.attempts)
        if disorder:
            late += 1
            with pytest.raises(AssertionError, match="after a higher one"):
                await trial.judge()
    assert late >= 2  # the stalled body, and storms


async def test_a_right_store_passes_both() -> None:
    """The right store's runs are in order by answers and by effects: the control of the above."""
    async for trial in _trials(open_reference()):
        assert overtaken(trial.attempts) == []
        await trial.judge()


async def _trials(open_subject: OpenSubject):  # type: ignore[no-untyped-def]
    async with open_subject() as subject:
        yield await overtake_a_stalled_body(subject)
    for seed in range(store_order.STORMS):
        async with open_subject() as subject:
            yield await storm(subject, seed)


async def test_a_test_of_answers_can_fail() -> None:
    """`overtaken` does find a lower write that was sent after a higher one's answer, and passed."""
    async with open_reference()() as subject:
        trial = Trial(subject)
        fence = store_order.TinyFence(subject.store, deaf=False)
        high = await trial.run(fence, trial.attempt(2, "one"))
        low = await trial.run(fence, trial.attempt(1, "two"))
        assert overtaken(trial.attempts) == []
        low.result = high.result
        assert overtaken(trial.attempts) == [(high, low)]


@pytest.mark.parametrize("fault", ["check_then_write"])
async def test_a_fence_that_hears_itself_covers_a_store_without_one(fault: str) -> None:
    """For a store that is not exact the drain and the gate keep the order, whatever it checks."""
    inexact = Traits(bucketed=True, exact=False, numbered=True)
    for name in ("order_of_a_stalled_body", "order_at_the_gate", "order_in_storms"):
        await law(name).check(open_reference(fault, traits=inexact))


async def test_a_gate_ignored_breaks_the_order_of_such_a_store() -> None:
    """The control of the above: without the gate, drain alone does not keep the order."""
    inexact = Traits(bucketed=True, exact=False, numbered=True)
    with pytest.raises(AssertionError, match="after a higher one"):
        await law("order_of_a_stalled_body").check(
            open_reference("check_then_write", "ignores_gate", traits=inexact)
        )


def test_laws_follow_traits() -> None:
    """Every law applies to a store that claims everything; claims left out leave laws out."""
    assert laws_for(REFERENCE) == OBJECT_STORE_LAWS
    weak = Traits(
        bucketed=False,
        conditions=False,
        exact=False,
        etag_unique=False,
        replays=False,
        unknown_length=False,
    )
    names = {each.name for each in laws_for(weak)}
    assert {"round_trip", "exact_bytes", "gate_shut", "broken_body"} <= names
    assert not names & {"odd_keys", "put_conditions", "carry", "replays", "race_to_create"}
    assert len({each.name for each in OBJECT_STORE_LAWS}) == len(OBJECT_STORE_LAWS)
