"""Laws of shadow mode: it counts what an enforced rule would refuse, and never more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.engine.shadow import ShadowMarks
from gateway.machines import ledger, shadow
from gateway.machines.fence_state import Why
from gateway.model.claim import (
    Claim,
    ClaimBurnt,
    Claimed,
    ClaimImplausible,
    ClaimStale,
    Generation,
    RegistrationId,
    ReplicaId,
)
from gateway.model.mark import NO_MARK, Mark, Scope
from gateway.model.object_action import GetObject, PutObject
from gateway.model.operation import Kind, Operation
from gateway.model.resource import Resource
from gateway.model.token import MAX_TOKEN, Holder, Token
from gateway.policy.decide import Permit
from gateway.policy.document import Mode, Reads

SCOPE = Scope("s")
TOKENS = st.integers(1, 12) | st.just(MAX_TOKEN)
HOLDERS = st.sampled_from([None, "a", "b"])
ANSWERS: dict[type, Why | None] = {
    Claimed: None,
    ClaimStale: Why.STALE,
    ClaimBurnt: Why.DUPLICATE,
    ClaimImplausible: Why.IMPLAUSIBLE,
}


def agrees(seen: list[tuple[int, str | None]], max_jump: int | None) -> None:
    """Put the same requests to the ledger and to the shadow; they must say the same of each."""
    record, mark = ledger.EMPTY, NO_MARK
    for index, (token, holder) in enumerate(seen):
        claim = Claim(
            SCOPE,
            record.mark.era,
            Token(token),
            None if holder is None else Holder(holder),
            ReplicaId("r"),
            Generation("g"),
            RegistrationId(str(index)),
            max_jump,
        )
        ruling = ledger.claim(record, claim, member=True)
        judged = shadow.judge(mark, claim.token or Token(1), claim.holder, max_jump)
        assert ANSWERS[type(ruling.answer)] == judged.why
        record, mark = ruling.record, judged.mark
        assert mark == record.mark


@given(st.lists(st.tuples(TOKENS, HOLDERS), max_size=12), st.none() | st.integers(1, 4))
def test_the_shadow_says_what_the_ledger_would(
    seen: list[tuple[int, str | None]], max_jump: int | None
) -> None:
    """Any sequence of tokens and holders: the same verdicts and the same mark, step by step."""
    agrees(seen, max_jump)


def test_a_shadow_that_learns_what_it_would_refuse_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The comparison above has teeth: a mark that is raised too far shows."""
    real = shadow.judge

    def eager(mark: Mark, token: Token, holder: Holder | None, max_jump: int | None) -> object:
        judged = real(mark, token, holder, max_jump)
        return judged._replace(mark=mark._replace(token=max(mark.token, token)))

    monkeypatch.setattr(shadow, "judge", eager)
    with pytest.raises(AssertionError):
        agrees([(1, None), (9, None), (2, None)], 4)


def write(token: int | None, key: str = "a") -> Operation:
    number = None if token is None else Token(token)
    action = PutObject("", key, 0)
    return Operation(Resource("f", key), f"/f/{key}", Kind.WRITE, "PUT", action, number)


def read(token: int | None) -> Operation:
    return replace(write(token), kind=Kind.READ, method="GET", action=GetObject("", "a"))


def under(reads: Reads = Reads.CHECK, scope: str = "s") -> Permit:
    return Permit(Scope(scope), Mode.SHADOW, reads, None)


def test_reads_are_judged_as_their_rule_says() -> None:
    """check compares and raises nothing, seal raises, ignore does not look; none needs a token."""
    marks = ShadowMarks()
    assert marks.reason(write(5), under()) is None
    assert marks.reason(read(4), under()) == "stale"
    assert marks.reason(read(4), under(Reads.IGNORE)) is None
    assert marks.reason(read(None), under()) is None
    assert marks.reason(read(9), under()) is None
    assert marks.reason(write(5), under()) is None, "a check raised nothing"
    assert marks.reason(read(9), under(Reads.SEAL)) is None
    assert marks.reason(write(5), under()) == "stale"


def test_what_is_forgotten_is_not_counted() -> None:
    """The memory is bounded; the scope that was used last is kept."""
    marks = ShadowMarks(most_scopes=2)
    for scope in ("a", "b", "a", "c"):
        assert marks.reason(write(5), under(scope=scope)) is None
    assert marks.reason(write(4), under(scope="a")) == "stale"
    assert marks.reason(write(4), under(scope="b")) is None
