"""Laws of the mark that a store keeps itself: what stands after another was carried to it."""

from __future__ import annotations

import itertools

import pytest

from gateway.machines.witness import carried, in_two_hands
from gateway.model.mark import Era, Mark
from gateway.model.token import Holder

HOLDERS = (None, Holder("a"), Holder("b"))
MARKS = [
    Mark(Era(era), token, burnt, None if burnt else holder)
    for era, token, burnt in itertools.product((1, 2), (0, 5, 6), (False, True))
    for holder in ((None,) if burnt else HOLDERS)
]
FIVE = Mark(Era(1), 5)
OF_A, OF_B = (FIVE._replace(holder=Holder(name)) for name in "ab")
BURNT = FIVE._replace(burnt=True)


@pytest.mark.parametrize(
    "standing, mark, after",
    [
        (None, FIVE, FIVE),
        (FIVE, FIVE, FIVE),
        (FIVE, OF_A, OF_A),
        (OF_A, FIVE, OF_A),
        (OF_A, OF_A, OF_A),
        (OF_A, OF_B, BURNT),
        (OF_A, BURNT, BURNT),
        (BURNT, OF_A, BURNT),
        (BURNT, BURNT, BURNT),
        (OF_A, Mark(Era(1), 4, holder=Holder("b")), OF_A),
        (BURNT, Mark(Era(1), 6, holder=Holder("b")), Mark(Era(1), 6, holder=Holder("b"))),
        (BURNT, Mark(Era(2), 0), Mark(Era(2), 0)),
        (Mark(Era(2), 0), BURNT, Mark(Era(2), 0)),
    ],
)
def test_what_stands_after_a_carry(standing: Mark | None, mark: Mark, after: Mark) -> None:
    """Higher stands; a holder is bound once; a second one burns; burnt stays until a higher one."""
    assert carried(standing, mark) == after


def test_it_never_falls_and_settles() -> None:
    """For all pairs: not below either, and the same mark carried again changes nothing."""
    for standing, mark in itertools.product(MARKS, MARKS):
        after = carried(standing, mark)
        assert after.rank >= max(standing.rank, mark.rank)
        assert carried(after, mark) == after


def test_two_holders_of_one_rank_end_burnt_in_either_order() -> None:
    """Whoever comes second: nobody may write under the token any more."""
    assert in_two_hands(OF_A, OF_B)
    assert carried(OF_A, OF_B) == carried(OF_B, OF_A) == BURNT
    assert not in_two_hands(OF_A, FIVE)
