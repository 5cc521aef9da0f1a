"""What happens to a scope on one replica, and what the fence machine asks for in return."""

from __future__ import annotations

from typing import NamedTuple

from gateway.machines.fence_state import Why
from gateway.model.claim import ClaimAnswer, Generation, RegistrationId
from gateway.model.mark import Era, Mark
from gateway.model.token import Holder, Token


class Arrived(NamedTuple):
    """A mutation asks to be admitted. A `token` of None asks for the mark plus one (a seal).

    `max_jump` bounds by how much it may raise the mark.
    """

    ticket: int
    token: Token | None
    holder: Holder | None
    max_jump: int | None = None


class ClaimAnswered(NamedTuple):
    """The registry has answered an attempt."""

    registration: RegistrationId
    answer: ClaimAnswer


class ClaimFailed(NamedTuple):
    """The registry did not answer an attempt; it may have registered all the same."""

    registration: RegistrationId


class DrainSeen(NamedTuple):
    """The registry shows nothing below the attempt's mark."""

    registration: RegistrationId


class DrainTimedOut(NamedTuple):
    """The drain took too long. The raise stays."""

    registration: RegistrationId


class GateAsked(NamedTuple):
    """The bytes that make a write take effect are about to leave."""

    ticket: int


class Settled(NamedTuple):
    """The outcome is known, or nothing was sent."""

    ticket: int


class AnswerLost(NamedTuple):
    """The gate was passed and no answer came: the write may still take effect."""

    ticket: int


class UnknownExpired(NamedTuple):
    """The store's settle time has passed since the reset of the ticket's connection."""

    ticket: int


class Told(NamedTuple):
    """The inbox tells of a higher mark."""

    mark: Mark


class LapseCame(NamedTuple):
    """The membership could not be renewed before its deadline, or the registry ended it."""

    generation: Generation


class EvictionAsked(NamedTuple):
    """The cache wants to forget this scope."""


class Forgotten(NamedTuple):
    """The registry has removed these registrations, as an eviction had asked."""

    registrations: tuple[RegistrationId, ...]


Event = (
    Arrived
    | GateAsked
    | Settled
    | ClaimAnswered
    | ClaimFailed
    | DrainSeen
    | DrainTimedOut
    | AnswerLost
    | UnknownExpired
    | Told
    | LapseCame
    | EvictionAsked
    | Forgotten
)


class Admit(NamedTuple):
    """The ticket is open under this mark."""

    ticket: int
    mark: Mark


class Refuse(NamedTuple):
    """The ticket is gone; nothing of it was sent."""

    ticket: int
    why: Why
    mark: Mark


class Pass(NamedTuple):
    """The gate is open: send now."""

    ticket: int


class SendClaim(NamedTuple):
    """Send this claim to the registry, with the registrations that it gives up."""

    registration: RegistrationId
    era: Era
    token: Token | None
    holder: Holder | None
    max_jump: int | None = None
    gives_up: tuple[RegistrationId, ...] = ()


class AwaitDrain(NamedTuple):
    """Watch the registry until nothing below `mark` is registered, or time runs out.

    `seen`: the registry's answer has shown it already, and only the stores have to follow.
    """

    registration: RegistrationId
    mark: Mark
    seen: bool = False


class Yield(NamedTuple):
    """Remove this generation's registrations below `mark` from the registry."""

    generation: Generation
    mark: Mark


class Hasten(NamedTuple):
    """Reset the upstream exchange of this ticket if it has no answer within a second."""

    ticket: int


class Forget(NamedTuple):
    """Remove these registrations by their ids, then say `Forgotten`."""

    registrations: tuple[RegistrationId, ...]


class Rejoin(NamedTuple):
    """The registry has ended this replica's generation: lapse and join anew."""


Effect = Admit | Refuse | Pass | SendClaim | AwaitDrain | Yield | Hasten | Forget | Rejoin
Effects = tuple[Effect, ...]
