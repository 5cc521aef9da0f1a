"""Rule 12 as tables: which condition a write carries, and what its failure means."""

from __future__ import annotations

import itertools

import pytest

from gateway.machines.condition import (
    NO_GUARD,
    Cause,
    Guard,
    Mismatch,
    Sent,
    bare,
    guard,
    judge_lost,
    judge_race_error,
    judge_refused,
    same_version,
    stands_above,
    witness_mark,
)
from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.mark import Era, Mark
from gateway.model.stamp import Stamp
from gateway.model.version import Absent, Look, NotLooked, Present

NOW = Present('"e1"')
STAR = Conditions(if_none_match=("*",))


def match(*tags: str) -> Conditions:
    """If-Match with these tags."""
    return Conditions(if_match=tags)


@pytest.mark.parametrize(
    "client,looked,expected",
    [
        # Nothing asked: the version that was looked at, and only that.
        (NO_CONDITIONS, NOW, Guard(if_match='"e1"')),
        (NO_CONDITIONS, Absent(), Guard(if_none_match=True)),
        (NO_CONDITIONS, NotLooked(), NO_GUARD),
        # If-Match: equal is one value, different is refused before anything is sent.
        (match('"e1"'), NOW, Guard(if_match='"e1"')),
        (match("e1"), NOW, Guard(if_match='"e1"')),
        (match("*"), NOW, Guard(if_match='"e1"')),
        (match('"e0"', '"e1"'), NOW, Guard(if_match='"e1"')),
        (match('"e0"'), NOW, Mismatch.DIFFERENT),
        (match('"e0", "e1"'), NOW, Mismatch.DIFFERENT),
        (match('W/"e1"'), NOW, Mismatch.DIFFERENT),
        (match('"e1"'), Absent(), Mismatch.ABSENT),
        (match("*"), Absent(), Mismatch.ABSENT),
        # If-None-Match: creating is guarded, and so is "anything but this version".
        (STAR, Absent(), Guard(if_none_match=True)),
        (STAR, NOW, Mismatch.EXISTS),
        (Conditions(if_none_match=('"e0"',)), NOW, Guard(if_match='"e1"')),
        (Conditions(if_none_match=('W/"e1"',)), NOW, Mismatch.EXISTS),
        (Conditions(('"e1"',), ("*",)), NOW, Mismatch.EXISTS),
        # Without a look the client's own is carried, when it is a single one.
        (match('"e1"'), NotLooked(), Guard(if_match='"e1"')),
        (STAR, NotLooked(), Guard(if_none_match=True)),
        (match('"e0"', '"e1"'), NotLooked(), Mismatch.UNSUPPORTED),
        (Conditions(('"e1"',), ("*",)), NotLooked(), Mismatch.UNSUPPORTED),
    ],
)
def test_combination(client: Conditions, looked: Look, expected: Guard | Mismatch) -> None:
    """The client's condition and the version looked at give one condition, or a refusal."""
    assert guard(client, looked) == expected


def test_never_a_version_that_was_not_looked_at() -> None:
    """Whatever a client asks, a write over a look carries a condition on exactly that version."""
    asked = [None, ("*",), ('"e1"',), ('"e0"',), ("e1", '"e0"'), ('W/"e1"',)]
    for wanted, unwanted in itertools.product(asked, asked):
        client = Conditions(wanted, unwanted)
        for looked in (NOW, Absent()):
            carried = guard(client, looked)
            if isinstance(carried, Guard):
                over = Guard(if_match='"e1"') if looked == NOW else Guard(if_none_match=True)
                assert carried == over


MARK = Mark(Era(2), 7)
STRANGER = Present('"e9"')


def by(token: int, write_id: str = "theirs", *, era: int = 2, etag: str = '"e9"') -> Present:
    """An object that a gateway wrote."""
    return Present(etag, Stamp(era, token, write_id))


def sent(looked: Look = NOW, client: Conditions = NO_CONDITIONS) -> Sent:
    """A write of token 7 in era 2, whose earlier attempt had the id `before`."""
    return Sent(MARK, ("ours", "before"), looked, client)


@pytest.mark.parametrize(
    "write,now,cause",
    [
        (sent(), by(7, "ours"), Cause.OWN),
        (sent(), by(7, "before"), Cause.OWN),
        (sent(client=match('"e1"')), by(7, "ours"), Cause.OWN),
        (sent(), by(8), Cause.FENCED),
        (sent(), by(1, era=3), Cause.FENCED),
        (sent(client=match('"e1"')), by(8), Cause.FENCED),
        (sent(), by(7), Cause.AGAIN),
        (sent(client=match('"e1"')), by(7), Cause.AGAIN),
        (sent(), NOW, Cause.AGAIN),
        (sent(Absent()), Absent(), Cause.AGAIN),
        (sent(), by(6), Cause.CHANGED),
        (sent(), by(9, era=1), Cause.CHANGED),
        (sent(), STRANGER, Cause.CHANGED),
        (sent(), Absent(), Cause.CHANGED),
        (sent(Absent()), STRANGER, Cause.CHANGED),
        (sent(client=match('"e1"')), STRANGER, Cause.CLIENT),
        (sent(client=match('"e1"')), by(6), Cause.CLIENT),
        (sent(client=match('"e1"')), Absent(), Cause.CLIENT),
        (sent(Absent(), STAR), STRANGER, Cause.CLIENT),
    ],
)
def test_refused(write: Sent, now: Look, cause: Cause) -> None:
    """After a failed condition the object tells: own, stale, our holder's, the client's, or not."""
    assert judge_refused(write, now) is cause


@pytest.mark.parametrize(
    "now,cause",
    [
        (by(7, "ours"), Cause.OWN),
        (by(7), Cause.UNCLEAR),
        (by(8), Cause.UNCLEAR),
        (STRANGER, Cause.UNCLEAR),
        (NOW, Cause.UNCLEAR),
        (Absent(), Cause.UNCLEAR),
    ],
)
def test_lost(now: Look, cause: Cause) -> None:
    """After a lost answer only the own write id proves anything: unknown is never guessed away."""
    assert judge_lost(sent(), now) is cause


@pytest.mark.parametrize(
    "now,cause",
    [
        (by(7, "ours"), Cause.OWN),
        (by(8), Cause.FENCED),
        (by(7), Cause.AGAIN),
        (STRANGER, Cause.CHANGED),
        (NOW, Cause.UNCLEAR),
    ],
)
def test_race_error(now: Look, cause: Cause) -> None:
    """The error for losers of a race is a refusal only where the object shows a winner."""
    assert judge_race_error(sent(), now) is cause


def test_marks_and_stamps() -> None:
    """A stamp is compared by era and then token; none is never above."""
    assert stands_above(Stamp(2, 8, "w"), MARK)
    assert stands_above(Stamp(3, 1, "w"), MARK)
    assert not stands_above(Stamp(2, 7, "w"), MARK)
    assert not stands_above(Stamp(1, 99, "w"), MARK)
    assert not stands_above(None, MARK)
    assert witness_mark(Stamp(2, 8, "w")) == Mark(Era(2), 8)


def test_tags() -> None:
    """Quotes do not make another version; weakness never makes the same one."""
    assert bare('"a"') == bare("a") == "a"
    assert bare('"') == '"'
    assert same_version("a", '"a"')
    assert not same_version('W/"a"', 'W/"a"')
