"""The ledger: what a registry does to one scope's mark and registrations (protocol, rules 2-8, 15).

Every registry engine carries these rules out as one atomic step: `memory` and `sqlite` run them as
they stand here, the others translate them and are held to them by the contract kit. A record is a
plain value, so the explorer can copy and compare it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.model.claim import (
    Claim,
    ClaimAnswer,
    ClaimBurnt,
    Claimed,
    ClaimImplausible,
    ClaimStale,
    EraDiffers,
    Generation,
    GenerationEnded,
    Registration,
    RegistrationId,
    ReplicaId,
)
from gateway.model.mark import NO_MARK, Era, Mark
from gateway.model.token import MAX_TOKEN


class Record(NamedTuple):
    """What the registry holds for one scope."""

    mark: Mark = NO_MARK
    registrations: tuple[Registration, ...] = ()


EMPTY: Final = Record()


class Ruling(NamedTuple):
    """The record after a step, the answer, and who must be told of the mark."""

    record: Record
    answer: ClaimAnswer
    told: tuple[tuple[ReplicaId, Generation], ...] = ()


def below(record: Record, mark: Mark) -> tuple[Registration, ...]:
    """The registrations that are lower than `mark`; none left means drained (rule 3)."""
    rank = mark.rank
    return tuple(r for r in record.registrations if (r.era, r.token, False) < rank)


def registered(record: Record, registration: Registration) -> tuple[Registration, ...]:
    """Add a registration; never overwrite, a lower one may still be draining (rule 2).

    A claim that is repeated with the same id is the same registration.
    """
    if any(r.id == registration.id for r in record.registrations):
        return record.registrations
    return (*record.registrations, registration)


def _owners(registrations: tuple[Registration, ...]) -> tuple[tuple[ReplicaId, Generation], ...]:
    return tuple(dict.fromkeys((r.replica, r.generation) for r in registrations))


def claim(record: Record, claim: Claim, *, member: bool) -> Ruling:
    """Rule on a claim (rule 2). `member` tells whether the claimer's generation is current."""
    mark = record.mark
    if not member:
        return Ruling(record, GenerationEnded())
    if claim.era != mark.era:
        return Ruling(record, EraDiffers(mark.era))
    token = mark.token + 1 if claim.token is None else claim.token
    if token < mark.token or token > MAX_TOKEN:
        return Ruling(record, ClaimStale(mark))
    if token == mark.token and mark.burnt:
        return Ruling(record, ClaimBurnt(mark, first=False))
    if token == mark.token and _two_hands(mark, claim):
        return _burn(record)
    if _is_implausible(mark, claim):
        return Ruling(record, ClaimImplausible(mark))
    return _hold(record, claim, token)


def _two_hands(mark: Mark, claim: Claim) -> bool:
    return mark.holder is not None and claim.holder is not None and mark.holder != claim.holder


def _is_implausible(mark: Mark, claim: Claim) -> bool:
    """A raise above what the rule allows (wire contract, "Compare rule"); an era's first is exempt.

    Judged here and not at the replica: its cached mark may lie far below the registry's, and what
    was once learnt could not be unlearnt.
    """
    if claim.max_jump is None or claim.token is None or mark.token == 0:
        return False
    return claim.token - mark.token > claim.max_jump


def _burn(record: Record) -> Ruling:
    mark = record.mark._replace(burnt=True, holder=None)
    after = record._replace(mark=mark)
    return Ruling(after, ClaimBurnt(mark, first=True), _owners(below(after, mark)))


def _hold(record: Record, claim: Claim, token: int) -> Ruling:
    before = record.mark
    if token > before.token:
        mark = Mark(before.era, token, burnt=False, holder=claim.holder)
    else:
        mark = before._replace(holder=before.holder or claim.holder)
    entry = Registration(claim.registration, claim.replica, claim.generation, mark.era, mark.token)
    after = _given_up(Record(mark, registered(record, entry)), claim)
    lower = below(after, mark)
    raised = before if mark.rank > before.rank else None
    return Ruling(after, Claimed(mark, lower, raised), _owners(lower))


def _given_up(record: Record, claim: Claim) -> Record:
    """Remove what the claimer yields with its claim (rule 4): its own, by id, and only if lower."""
    gone = {
        r
        for r in below(record, record.mark)
        if r.id in claim.gives_up and r.generation == claim.generation
    }
    if not gone:
        return record
    return record._replace(registrations=tuple(r for r in record.registrations if r not in gone))


def yielded(record: Record, generation: Generation, mark: Mark) -> Record:
    """Remove all registrations of a generation that are lower than `mark` (rule 4)."""
    gone = {r.id for r in below(record, mark) if r.generation == generation}
    if not gone:
        return record
    return record._replace(registrations=tuple(r for r in record.registrations if r.id not in gone))


def ended(record: Record, generation: Generation) -> Record:
    """Remove all registrations of a generation that was evicted or left (rules 7 and 8)."""
    kept = tuple(r for r in record.registrations if r.generation != generation)
    return record._replace(registrations=kept)


def forgotten(record: Record, registration: RegistrationId) -> Record:
    """Remove one registration, by its id alone: a late removal hits no later claim (rule 14)."""
    kept = tuple(r for r in record.registrations if r.id != registration)
    return record._replace(registrations=kept)


def recalled(record: Record, witness: Mark) -> Record:
    """Raise the mark to what a witness proves the registry has forgotten (rule 9)."""
    if witness.rank <= record.mark.rank:
        return record
    return record._replace(mark=witness)


class Reset(NamedTuple):
    """A step of a reset: the record after it, the new mark once it is done, and who is told."""

    record: Record
    done: Mark | None
    told: tuple[tuple[ReplicaId, Generation], ...] = ()


def reset(record: Record, era: Era) -> Reset:
    """Start the next era, once every registration is gone; close the old one until then (rule 15).

    A closed era stands at the highest mark there is, burnt: whatever is registered is lower and
    drains, and no claim can be answered in between. A reset that is broken off leaves the scope
    closed; it is called again.
    """
    if record.mark.era != era:
        return Reset(record, None)
    if record.registrations:
        closed = record._replace(mark=Mark(era, MAX_TOKEN, burnt=True))
        told = () if closed == record else _owners(record.registrations)  # told once
        return Reset(closed, None, told)
    mark = Mark(Era(era + 1), 0)
    return Reset(Record(mark), mark)
