"""The heartbeat's judgements, as plain calls (protocol, rules 7 to 9)."""

from __future__ import annotations

from gateway.machines import heartbeat
from gateway.machines.heartbeat import Incarnation, Membership, Pulse
from gateway.model.claim import Generation, Member, ReplicaId

ONE = Member(ReplicaId("r1"), Generation("g1"), 4)
TWO = Member(ReplicaId("r2"), Generation("g2"), 9)


def test_deadline_counts_from_before_the_beat_was_sent() -> None:
    """Rule 5: how long the answer took does not lengthen the membership."""
    own = heartbeat.joined(Generation("g"), 10.0, 3.0)
    assert own.deadline_s == 13.0
    assert heartbeat.renewed(own, 11.0, 12.5, 3.0).deadline_s == 14.0


def test_an_answer_behind_the_deadline_renews_nothing() -> None:
    """Rule 7: somebody may have ended the generation in between."""
    own = Membership(Generation("g"), 13.0)
    assert heartbeat.renewed(own, 12.9, 13.0, 3.0) == own
    assert heartbeat.has_lapsed(own, 13.0)
    assert not heartbeat.has_lapsed(own, 12.999)


def test_beats_answered_out_of_order_never_shorten() -> None:
    """A slow older beat does not take back what a newer one has gained."""
    own = Membership(Generation("g"), 15.0)
    assert heartbeat.renewed(own, 11.0, 14.0, 3.0).deadline_s == 15.0


def test_a_counter_that_moves_starts_anew() -> None:
    """Rule 8: silence is counted from the first sight of the value that stands still."""
    pulses = heartbeat.watched({}, (ONE, TWO), 100.0)
    moved = ONE._replace(beat=5)
    pulses = heartbeat.watched(pulses, (moved, TWO), 103.0)
    assert pulses[ONE.generation] == Pulse(moved, 103.0)
    assert pulses[TWO.generation] == Pulse(TWO, 100.0)
    assert heartbeat.watched(pulses, (moved,), 104.0).keys() == {ONE.generation}


def test_nobody_is_ended_before_time_to_live_and_settle() -> None:
    """Rule 8: silence outlasts both, and a margin for clocks of different speed; never oneself."""
    silence = heartbeat.silence_s(3.0, 10.0)
    assert silence > 13.0
    pulses = heartbeat.watched({}, (ONE, TWO), 0.0)
    assert heartbeat.silent(pulses, ONE.generation, silence - 0.001, silence) == ()
    assert heartbeat.silent(pulses, ONE.generation, silence, silence) == (TWO,)


def test_grace_runs_from_the_first_sight_of_an_incarnation() -> None:
    """Rule 9: it starts once per incarnation, and ends early when somebody vouches for it."""
    first = heartbeat.met(None, "a", 5.0, vouched=False)
    assert heartbeat.grace_ends_s(first, 3.0, 10.0) == 5.0 + heartbeat.silence_s(3.0, 10.0)
    again = heartbeat.met(first, "a", 9.0, vouched=False)
    assert again == first
    assert heartbeat.met(first, "a", 9.0, vouched=True) == Incarnation("a", 5.0, vouched=True)
    assert heartbeat.grace_ends_s(Incarnation("a", 5.0, vouched=True), 3.0, 10.0) == 5.0
    assert heartbeat.met(first, "b", 9.0, vouched=False) == Incarnation("b", 9.0, vouched=False)
