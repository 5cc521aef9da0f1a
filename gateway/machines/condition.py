"""The condition of a write to a conditional store, and what its failure means (protocol, rule 12).

A write carries one condition: that the object is still the version that was looked at before
admission. The client's own condition is compared with that same version and never sent beside it.
When the store refuses, or its answer is lost, the object is looked at again and judged here. Pure
functions over values: two looks in, a verdict out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

from gateway.model.conditions import Conditions
from gateway.model.mark import Era, Mark
from gateway.model.stamp import Stamp
from gateway.model.version import Absent, Look, NotLooked, Present


@dataclass(frozen=True, slots=True)
class Guard:
    """The one condition a write carries: If-Match with this tag, or If-None-Match: *, or none."""

    if_match: str | None = None
    if_none_match: bool = False


NO_GUARD = Guard()


class Mismatch(Enum):
    """Why the client's own condition refuses the write."""

    DIFFERENT = auto()  # If-Match names other versions, or a weak tag
    ABSENT = auto()  # If-Match, and there is no object
    EXISTS = auto()  # If-None-Match, and it is there
    UNSUPPORTED = auto()  # more than one condition, and no version to compare with


def bare(etag: str) -> str:
    """An entity tag without its quotes; a weak one is given back as it is."""
    return etag[1:-1] if len(etag) > 1 and etag[0] == etag[-1] == '"' else etag


def same_version(one: str, other: str) -> bool:
    """Strong comparison (RFC 9110 section 8.8.3.2); S3 clients may leave the quotes out."""
    return not one.startswith("W/") and bare(one) == bare(other)


def guard(client: Conditions, looked: Look) -> Guard | Mismatch:
    """Combine the client's condition with the version that was looked at (RFC 9110, 13.2.2).

    What holds for that version is carried as the one condition on it. Without a look the client's
    own condition is carried, where it is a single one.
    """
    match looked:
        case NotLooked():
            return _carried(client)
        case Absent():
            return Mismatch.ABSENT if client.if_match is not None else Guard(if_none_match=True)
        case Present(etag):
            return _of_present(client, etag)
        case _:
            assert_never(looked)


def _of_present(client: Conditions, etag: str) -> Guard | Mismatch:
    wanted, unwanted = client.if_match, client.if_none_match
    if wanted is not None and wanted != ("*",) and not any(same_version(t, etag) for t in wanted):
        return Mismatch.DIFFERENT
    if unwanted is not None and (
        unwanted == ("*",) or any(bare(t.removeprefix("W/")) == bare(etag) for t in unwanted)
    ):
        return Mismatch.EXISTS
    return Guard(if_match=etag)


def _carried(client: Conditions) -> Guard | Mismatch:
    match client:
        case Conditions(if_match=None, if_none_match=None):
            return NO_GUARD
        case Conditions(if_match=(tag,), if_none_match=None):
            return Guard(if_match=tag)
        case Conditions(if_match=None, if_none_match=("*",)):
            return Guard(if_none_match=True)
        case _:
            return Mismatch.UNSUPPORTED


class Cause(Enum):
    """What a second look says about a write that the store did not acknowledge."""

    OWN = auto()  # our write id is in the object: it was applied
    FENCED = auto()  # stamped above our mark: stale
    AGAIN = auto()  # our own holder wrote it, or nothing changed: a new attempt may pass
    CLIENT = auto()  # the client's own condition no longer holds
    CHANGED = auto()  # somebody else changed it since admission
    UNCLEAR = auto()  # the object cannot tell: the write may still take effect


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent: under which mark, over which version, on which condition of the client.

    `write_ids`: this write's, and that of an earlier attempt of the same request.
    """

    mark: Mark
    write_ids: tuple[str, ...]
    looked: Look
    client: Conditions


def stands_above(stamp: Stamp | None, mark: Mark) -> bool:
    """True when a witness shows a later token than the mark; older eras are lower."""
    return stamp is not None and (stamp.era, stamp.token) > (mark.era, mark.token)


def witness_mark(stamp: Stamp) -> Mark:
    """The mark that a stamp bears witness of."""
    return Mark(Era(stamp.era), stamp.token)


def judge_refused(sent: Sent, now: Look) -> Cause:
    """The store said that the condition failed, so this attempt certainly did not take effect.

    An earlier attempt of the same request may have (its answer was lost): then its write id is in
    the object.
    """
    stamp = now.stamp if isinstance(now, Present) else None
    if stamp is not None and stamp.write_id in sent.write_ids:
        return Cause.OWN
    if stands_above(stamp, sent.mark):
        return Cause.FENCED
    if _by_our_holder(stamp, sent.mark) or _unchanged(sent.looked, now):
        return Cause.AGAIN
    return Cause.CLIENT if sent.client else Cause.CHANGED


def judge_lost(sent: Sent, now: Look) -> Cause:
    """No usable answer came after the gate: only our own write id proves anything.

    An unchanged object may still be overwritten by our bytes; a changed one may have held them
    for a moment. Both stay unclear.
    """
    stamp = now.stamp if isinstance(now, Present) else None
    if stamp is not None and stamp.write_id in sent.write_ids:
        return Cause.OWN
    return Cause.UNCLEAR


def judge_race_error(sent: Sent, now: Look) -> Cause:
    """An error with which this store is known to tell the losers of a race (Ceph: 500).

    A changed object is then a lost race, hence a refusal. An unchanged one shows no winner, so
    that the error was another one.
    """
    if _unchanged(sent.looked, now):
        return Cause.UNCLEAR
    return judge_refused(sent, now)


def _by_our_holder(stamp: Stamp | None, mark: Mark) -> bool:
    return stamp is not None and (stamp.era, stamp.token) == (mark.era, mark.token)


def _unchanged(before: Look, now: Look) -> bool:
    match before, now:
        case Absent(), Absent():
            return True
        case Present(), Present():
            return before == now
        case _:
            return False
