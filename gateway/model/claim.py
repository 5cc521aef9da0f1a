"""What replicas and the registry say to each other (protocol, rules 2, 4, 7 and 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NewType

from gateway.model.mark import Era, Mark, Scope
from gateway.model.token import Holder, Token

ReplicaId = NewType("ReplicaId", str)
"""The name of one gateway process."""

Generation = NewType("Generation", str)
"""A random id of one membership of a replica; never reused."""

RegistrationId = NewType("RegistrationId", str)
"""The id of one registration, so that a late removal cannot hit a newer one."""


class Registration(NamedTuple):
    """A replica's right to admit a token from its own memory until it yields."""

    id: RegistrationId
    replica: ReplicaId
    generation: Generation
    era: Era
    token: int


class Member(NamedTuple):
    """A replica's current membership; `beat` is a counter, compared for change only."""

    replica: ReplicaId
    generation: Generation
    beat: int


@dataclass(frozen=True, slots=True)
class Claim:
    """Asks to hold `token` on `scope`. A `token` of None asks for the mark's token plus one.

    `registration` is the id that the new registration shall have, chosen by the claimer so that
    a claim whose answer was lost can still be undone. With `max_jump`, a raise by more than that
    is refused and not learnt; the first mark of an era may be any number. `gives_up` are lower
    registrations of the claimer's generation on which no write stands: they go with the claim, if
    it holds.
    """

    scope: Scope
    era: Era
    token: Token | None
    holder: Holder | None
    replica: ReplicaId
    generation: Generation
    registration: RegistrationId
    max_jump: int | None = None
    gives_up: tuple[RegistrationId, ...] = ()


@dataclass(frozen=True, slots=True)
class Claimed:
    """The claim holds: the mark as it is now, and all registrations below it (own included).

    `raised_from` is the mark before, when this claim raised it.
    """

    mark: Mark
    lower: tuple[Registration, ...]
    raised_from: Mark | None = None


@dataclass(frozen=True, slots=True)
class ClaimStale:
    """The token is below the mark."""

    mark: Mark


@dataclass(frozen=True, slots=True)
class ClaimBurnt:
    """The token is in two hands: the mark is burnt, and both are refused until a higher token.

    `first` is True for the claim that found it out.
    """

    mark: Mark
    first: bool


@dataclass(frozen=True, slots=True)
class ClaimImplausible:
    """The token is above the mark by more than `max_jump`: nothing was learnt or registered."""

    mark: Mark


@dataclass(frozen=True, slots=True)
class EraDiffers:
    """The scope was reset: drop what is known of it and claim again in this era."""

    era: Era


@dataclass(frozen=True, slots=True)
class GenerationEnded:
    """The claimer's generation is unknown or was evicted: rejoin first."""


ClaimAnswer = Claimed | ClaimStale | ClaimBurnt | ClaimImplausible | EraDiffers | GenerationEnded


class Notice(NamedTuple):
    """An inbox message: the mark of this scope rose above a registration of yours.

    `number` rises within an inbox; it is what the reader acknowledges.
    """

    number: int
    scope: Scope
    mark: Mark


class Identity(NamedTuple):
    """The incarnation of a registry's engine (rule 9).

    `vouched`: a replica has counted its grace on this incarnation, or none is needed.
    """

    id: str
    vouched: bool


class ScopePage(NamedTuple):
    """Some scopes; `next` is the cursor of the following page, None behind the last."""

    rows: tuple[ScopeRow, ...]
    next: str | None


class ScopeRow(NamedTuple):
    """One scope as an operator sees it."""

    scope: Scope
    mark: Mark
    registrations: int
