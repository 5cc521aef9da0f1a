"""The world that the explorer searches: a registry, replicas, messages under way, and a store.

Every part that decides is the shipped one: `machines.fence` on each replica, `machines.ledger` at
the registry. Time is not counted: what may happen later may happen now, so every delay, pause and
reordering is one of the interleavings. What a settle time buys is a fact here: a registration
expires, and an unknown ticket is given up, only when nothing of it is on its way any more.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from gateway.machines import ledger
from gateway.machines.fence_rules import RULES, Rules
from gateway.machines.fence_state import View
from gateway.machines.ledger import EMPTY, Record
from gateway.model.claim import (
    Claim,
    ClaimAnswer,
    Generation,
    RegistrationId,
    ReplicaId,
)
from gateway.model.mark import Mark
from gateway.model.token import Holder


class Write(NamedTuple):
    """One request of a scenario. A seal raises and drains, and writes nothing."""

    token: int
    replica: int
    holder: Holder | None = None
    target: str = "X"
    seal: bool = False


class Stage(StrEnum):
    """How far a request has come. `LATE` is past the gate with its answer given up."""

    IDLE = "idle"
    WAITING = "waiting"
    ADMITTED = "admitted"
    SENT = "sent"
    LATE = "late"
    ORPHAN = "orphan"
    LANDED = "landed"
    GONE = "gone"
    DONE = "done"
    FAILED = "failed"


ON_ITS_WAY: Final = frozenset({Stage.SENT, Stage.LATE, Stage.ORPHAN})


class Progress(NamedTuple):
    """Where a request stands; under which era and generation it was admitted; what it looked at."""

    stage: Stage = Stage.IDLE
    era: int = 0
    generation: str = ""
    version: int = -1


class Replica(NamedTuple):
    """One gateway process. `generation` None: its membership has lapsed."""

    generation: Generation | None
    views: tuple[View, ...]
    inbox: tuple[tuple[int, Mark], ...] = ()
    alive: bool = True
    in_grace: bool = False
    generations: int = 1


class ClaimSent(NamedTuple):
    """A claim on its way to the registry."""

    replica: int
    scope: int
    claim: Claim


class AnswerSent(NamedTuple):
    """The registry's answer on its way back."""

    replica: int
    scope: int
    registration: RegistrationId
    answer: ClaimAnswer


class Watch(NamedTuple):
    """A claimer that waits for the drain."""

    replica: int
    scope: int
    registration: RegistrationId
    mark: Mark


class YieldSent(NamedTuple):
    """A yield on its way to the registry."""

    scope: int
    generation: Generation
    mark: Mark


class ForgetSent(NamedTuple):
    """A deregistration on its way to the registry, and then its answer (`done`)."""

    replica: int
    scope: int
    registrations: tuple[RegistrationId, ...]
    done: bool = False


Message = ClaimSent | AnswerSent | Watch | YieldSent | ForgetSent


class Budget(NamedTuple):
    """How much may still go wrong on one path."""

    crashes: int = 1
    lapses: int = 1
    losses: int = 0
    evictions: int = 0
    resets: int = 0
    amnesias: int = 0


class World(NamedTuple):
    """One state of everything."""

    records: tuple[Record, ...]
    members: frozenset[Generation]
    replicas: tuple[Replica, ...]
    messages: frozenset[Message]
    progress: tuple[Progress, ...]
    budget: Budget
    admitted: tuple[int, int] = (0, 0)
    versions: tuple[tuple[str, int], ...] = (("X", 0), ("Y", 0))
    burnt: int = 0


class Laws:
    """What environment and ledger do; a shortcut replaces one of these or one of `Rules`."""

    rules: Rules = RULES
    slow_yields = False
    conditional = False
    looks_after_claim = False

    def scope_of(self, write: Write) -> int:
        """One scope for all targets: the mark is per scope, not per object."""
        del write
        return 0

    def claim(self, record: Record, claim: Claim, *, member: bool) -> ledger.Ruling:
        """Rule 2."""
        return ledger.claim(record, claim, member=member)

    def forget(self, record: Record, registration: RegistrationId) -> Record:
        """Rule 14: by the registration's id."""
        return ledger.forgotten(record, registration)

    def on_join(self, record: Record, old: Generation) -> Record:
        """Rule 7: a rejoin leaves the registrations of the old generation where they are."""
        del old
        return record

    def may_expire(self, world: World, writes: tuple[Write, ...], generation: Generation) -> bool:
        """Rule 8: a generation expires with its settle time, when nothing of it is on its way."""
        del writes
        return not any(p.generation == generation and p.stage in ON_ITS_WAY for p in world.progress)

    def next_generation(self, replica: int, count: int) -> Generation:
        """Rule 7: a rejoin gets a generation that was never used."""
        return Generation(f"{replica}.{count}")


def start(writes: tuple[Write, ...], laws: Laws, budget: Budget, replicas: int = 2) -> World:
    """The world before anything has happened."""
    scopes = 1 + max(laws.scope_of(w) for w in writes)
    fresh = tuple(Replica(laws.next_generation(r, 1), (View(),) * scopes) for r in range(replicas))
    members = frozenset(r.generation for r in fresh if r.generation is not None)
    progress = (Progress(),) * len(writes)
    return World((EMPTY,) * scopes, members, fresh, frozenset(), progress, budget)


def replica_id(replica: int) -> ReplicaId:
    """The name of a replica at the registry."""
    return ReplicaId(str(replica))
