"""The heartbeat: how long a replica may rely on its membership, and when another has lost its own.

Theory of operation (protocol, rules 7 to 9). A replica renews its membership with beats. Its
deadline counts from *before* a beat was sent, and an answer that comes after the deadline renews
nothing: so it knows that it has lapsed before anybody may end it. Every replica watches the beat
counters of the others on its own boottime clock; a counter that has stood still for the time to
live, the settle time and a margin for clocks of different speed belongs to a generation that may
be ended. A registry that a replica meets for the first time, and that nobody vouches for, may have
forgotten registrations: in a grace from that first sight nothing counts as drained.

Nothing here awaits or reads a clock, and no time of one machine is compared with another's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from gateway.model.claim import Generation, Member

BEATS_PER_TTL: Final = 3
_RATE: Final = 1.01  # quartz differs by far less than 1 %
_MARGIN_S: Final = 0.05  # what a timer may fire late


class Membership(NamedTuple):
    """A replica's own membership. `deadline_s` is on its boottime clock."""

    generation: Generation
    deadline_s: float


def joined(generation: Generation, sent_s: float, ttl_s: float) -> Membership:
    """A new membership, counted from before the join was sent (rule 5)."""
    return Membership(generation, sent_s + ttl_s)


def renewed(own: Membership, sent_s: float, answered_s: float, ttl_s: float) -> Membership:
    """The membership after a beat was answered; unchanged when the answer was late (rule 7)."""
    if answered_s >= own.deadline_s:
        return own
    return own._replace(deadline_s=max(own.deadline_s, sent_s + ttl_s))


def has_lapsed(own: Membership, now_s: float) -> bool:
    """True from the deadline on."""
    return now_s >= own.deadline_s


class Pulse(NamedTuple):
    """A beat counter, and since when it has been seen at this value."""

    member: Member
    since_s: float


Pulses = Mapping[Generation, Pulse]


def watched(pulses: Pulses, members: Iterable[Member], seen_s: float) -> dict[Generation, Pulse]:
    """What is known after a look at all members; a counter that moved starts anew."""
    after = {}
    for member in members:
        before = pulses.get(member.generation)
        still = before is not None and before.member == member
        after[member.generation] = before if before and still else Pulse(member, seen_s)
    return after


def silence_s(ttl_s: float, settle_s: float) -> float:
    """How long a counter must stand still before its generation may be ended (rule 8)."""
    return (ttl_s + settle_s) * _RATE + _MARGIN_S


def silent(
    pulses: Pulses, own: Generation | None, now_s: float, silence: float
) -> tuple[Member, ...]:
    """The members that may be ended now; never oneself."""
    return tuple(
        pulse.member
        for generation, pulse in pulses.items()
        if generation != own and now_s - pulse.since_s >= silence
    )


class Incarnation(NamedTuple):
    """A life of the registry's engine, and when this replica met it (rule 9)."""

    id: str
    met_s: float
    vouched: bool


def met(before: Incarnation | None, identity: str, now_s: float, *, vouched: bool) -> Incarnation:
    """What is known of the registry's incarnation after a look at it."""
    if before is not None and before.id == identity:
        return before._replace(vouched=before.vouched or vouched)
    return Incarnation(identity, now_s, vouched)


def grace_ends_s(incarnation: Incarnation, ttl_s: float, settle_s: float) -> float:
    """Until when nothing counts as drained. At once when somebody vouches for the registry."""
    if incarnation.vouched:
        return incarnation.met_s
    return incarnation.met_s + silence_s(ttl_s, settle_s)
