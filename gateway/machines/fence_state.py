"""What a replica knows and does about one scope, as plain values (protocol, "State")."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from gateway.model.claim import Generation, RegistrationId
from gateway.model.mark import NO_MARK, Era, Mark
from gateway.model.token import Holder, Token


class Phase(StrEnum):
    """Where a ticket stands; a settled ticket is gone."""

    WAITING = "waiting"
    OPEN = "open"
    COMMITTING = "committing"
    UNKNOWN = "unknown"


class Ticket(NamedTuple):
    """One admitted (or waiting) mutation. `attempt` is the claim that it waits for."""

    id: int
    era: Era
    token: int
    holder: Holder | None
    generation: Generation
    phase: Phase
    attempt: RegistrationId | None = None


class Held(NamedTuple):
    """A registration of the current generation and era, as far as this replica knows."""

    id: RegistrationId
    token: int


class Attempt(NamedTuple):
    """A claim on its way, or (once `mark` is known) the drain behind it.

    `token` is None while the registry is asked to issue the next one. `gives_up` are lower
    registrations that the claim removes if it holds; nothing may be admitted under them any more.
    """

    registration: RegistrationId
    token: Token | None
    holder: Holder | None
    mark: Mark | None = None
    max_jump: int | None = None
    gives_up: tuple[Held, ...] = ()


class Ready(NamedTuple):
    """This token needs no registry any more, in the current generation."""

    token: int
    holder: Holder | None


class View(NamedTuple):
    """What a replica knows and does about one scope.

    `owed` is the mark below which this generation still has to yield, `old` are the generations
    from before a lapse whose registrations still stand for writes on their way.
    """

    mark: Mark = NO_MARK
    ready: Ready | None = None
    registrations: tuple[Held, ...] = ()
    tickets: tuple[Ticket, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    owed: Mark | None = None
    old: tuple[Generation, ...] = ()
    evicting: bool = False


class Here(NamedTuple):
    """The replica's membership at the moment of the event.

    `generation` is None after a lapse. `in_grace`: a new incarnation of the registry was met, and
    nothing may be answered as drained yet (rule 9). `expired`: the membership deadline has passed.
    `carries`: a store in the scope's reach keeps a fence of its own, so that a claim is answered
    as drained only after the mark was committed there (rule 11).
    """

    generation: Generation | None
    in_grace: bool = False
    expired: bool = False
    carries: bool = False


class Why(StrEnum):
    """Why a ticket was refused."""

    STALE = "stale"
    DUPLICATE = "duplicate"
    LAPSED = "lapsed"
    NOT_DRAINED = "not_drained"
    UNAVAILABLE = "unavailable"
    IMPLAUSIBLE = "implausible"
