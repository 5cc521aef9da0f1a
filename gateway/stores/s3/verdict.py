"""From a store's refusal and a second look to the result of the write (protocol, rule 12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, assert_never

from gateway.machines.condition import Cause, Guard, stands_above, witness_mark
from gateway.model.mark import Mark
from gateway.model.reply import ObjectPut
from gateway.model.version import Absent, Look, Present
from gateway.ports.store import FencedByStore, MaybeWritten, NotWritten, WriteResult, Written
from gateway.stores.s3 import answers

MAX_ATTEMPTS: Final = 4


@dataclass(frozen=True, slots=True)
class Again:
    """Our own holder changed the object, or nothing changed: try over this version."""

    now: Look


def conclude(cause: Cause, now: Look, *, store: str, why: str = "") -> WriteResult | Again:
    """The result that a cause stands for; `why` is told when the outcome stays unknown."""
    match cause:
        case Cause.OWN:
            assert isinstance(now, Present)
            return Written(ObjectPut(now.etag))
        case Cause.FENCED:
            assert isinstance(now, Present)
            assert now.stamp is not None
            return FencedByStore(witness_mark(now.stamp))
        case Cause.AGAIN:
            return Again(now)
        case Cause.CLIENT:
            gone = isinstance(now, Absent)
            return NotWritten(answers.NO_SUCH_KEY if gone else answers.CLIENT_FAILED)
        case Cause.CHANGED:
            return NotWritten(answers.CHANGED)
        case Cause.UNCLEAR:
            return MaybeWritten(answers.unknown(store, why))
        case _:
            assert_never(cause)


def fenced_at_look(looked: Look, mark: Mark) -> FencedByStore | None:
    """Stale already by what was seen before admission."""
    if isinstance(looked, Present) and looked.stamp and stands_above(looked.stamp, mark):
        return FencedByStore(witness_mark(looked.stamp))
    return None


def condition_failed(status: int, code: str, guard: Guard) -> bool:
    """Our condition did not hold, or the store could not decide a race: nothing landed."""
    if status == 412:
        return True
    if status == 404:
        return guard.if_match is not None and code in {"", "NoSuchKey"}
    # Some stores answer 409 to the loser of If-None-Match: *, under codes of their own.
    return status == 409 and (guard.if_none_match or code in answers.CONFLICTS)


def is_unclear(status: int, code: str) -> bool:
    """An error that does not tell whether the request had its effect."""
    return status >= 500 and status != 501 and not answers.sheds_load(status, code)
