"""What the scripts answer, as the port's values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.model.claim import (
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
from gateway.model.mark import Era, Mark
from gateway.model.token import Holder

Answer = Sequence[bytes]


def mark(fields: Answer) -> Mark:
    """A mark from era, token, burnt and holder."""
    era, token, burnt, holder = fields
    bound = Holder(holder.decode()) if holder else None
    return Mark(Era(int(era)), int(token), burnt == b"1", bound)


def registrations(fields: Answer) -> tuple[Registration, ...]:
    """Registrations from runs of id, replica, generation, era and token."""
    return tuple(
        Registration(
            RegistrationId(number.decode()),
            ReplicaId(replica.decode()),
            Generation(generation.decode()),
            Era(int(era)),
            int(token),
        )
        for number, replica, generation, era, token in runs(fields, 5)
    )


def runs(fields: Answer, length: int) -> Iterator[Answer]:
    """Split a flat answer into runs of equal length."""
    return (fields[start : start + length] for start in range(0, len(fields), length))


def claim_answer(fields: Answer) -> ClaimAnswer:
    """What became of a claim."""
    match fields[0]:
        case b"ended":
            return GenerationEnded()
        case b"era":
            return EraDiffers(Era(int(fields[1])))
        case b"stale":
            return ClaimStale(mark(fields[1:5]))
        case b"burnt":
            return ClaimBurnt(mark(fields[2:6]), first=fields[1] == b"1")
        case b"implausible":
            return ClaimImplausible(mark(fields[1:5]))
        case b"claimed":
            raised_from = mark(fields[2:6]) if fields[1] == b"1" else None
            return Claimed(mark(fields[6:10]), registrations(fields[10:]), raised_from)
        case other:
            raise ValueError(f"the ledger script answered {other!r}")


def notice(text: bytes) -> tuple[str, Mark]:
    """The scope and the mark of one entry of an inbox."""
    head, _, scope = text.partition(b"\n")
    era, token, burnt, holder = head.split(b" ", 3)
    return scope.decode(), mark((era, token, burnt, holder[1:]))
