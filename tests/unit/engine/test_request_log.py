"""What became of a request: found by its id or the client's key, bounded, and corrected later."""

from __future__ import annotations

import asyncio

import pytest

from gateway.engine.request_log import RequestLog, State
from gateway.model.mark import Scope
from gateway.model.object_action import DeleteObject
from gateway.model.operation import Kind, Operation
from gateway.model.outcome import Applied, Outcome, Refused, Unknown
from gateway.model.problem import Code, Problem
from gateway.model.reply import ObjectDeleted
from gateway.model.resource import Resource
from gateway.model.token import Token
from gateway.ports.body import BodyError

SCOPE = Scope("jobs")
APPLIED = Applied(ObjectDeleted())
REFUSED = Refused(Problem(Code.TOKEN_STALE, "stale", mark=2))
UNKNOWN = Unknown(Problem(Code.OUTCOME_UNKNOWN, "lost"))


class Hours:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def boottime_s(self) -> float:
        return self.now_s

    async def sleep_s(self, seconds: float) -> None:
        raise AssertionError("nothing here sleeps")


def request(request_id: str, key: str | None = None, token: int = 1) -> Operation:
    return Operation(
        Resource("files", "k"),
        "/files/k",
        Kind.DELETE,
        "DELETE",
        DeleteObject("", "k"),
        Token(token),
        retry_key=key,
        request_id=request_id,
    )


async def ended(
    log: RequestLog, request_id: str, outcome: Outcome, key: str | None = None, scope: Scope = SCOPE
) -> None:
    async def work() -> Outcome:
        return outcome

    assert await log.track(request(request_id, key), scope, work()) is outcome


def states(log: RequestLog, name: str) -> list[State]:
    return [entry.state for entry in log.find(name)]


async def test_each_outcome_is_found_by_id() -> None:
    """Applied, refused with its code, unknown; nothing of a request that never was."""
    log = RequestLog(Hours())
    for request_id, outcome, state, code in (
        ("r1", APPLIED, State.APPLIED, None),
        ("r2", REFUSED, State.REFUSED, "fence_token_stale"),
        ("r3", UNKNOWN, State.UNKNOWN, "outcome_unknown"),
    ):
        await ended(log, request_id, outcome)
        (entry,) = log.find(request_id)
        assert (entry.state, entry.code, entry.settled) == (state, code, False)
    assert log.find("r4") == ()


async def test_a_request_under_way_is_in_flight() -> None:
    """By its id and by its key, until it ends."""
    log = RequestLog(Hours())
    release = asyncio.Event()

    async def work() -> Outcome:
        await release.wait()
        return APPLIED

    task = asyncio.create_task(log.track(request("r1", "k1"), SCOPE, work()))
    await asyncio.sleep(0)
    assert states(log, "r1") == states(log, "k1") == [State.IN_FLIGHT]
    release.set()
    await task
    assert states(log, "r1") == states(log, "k1") == [State.APPLIED]


async def test_a_broken_body_is_refused_and_anything_else_unknown() -> None:
    """Nothing was sent of a body that broke; of an error nobody foresaw nobody can say that."""
    log = RequestLog(Hours())

    async def broken() -> Outcome:
        raise BodyError(Problem(Code.REQUEST_TIMEOUT, "slow"))

    async def bug() -> Outcome:
        raise ZeroDivisionError

    with pytest.raises(BodyError):
        await log.track(request("r1"), SCOPE, broken())
    with pytest.raises(ZeroDivisionError):
        await log.track(request("r2"), SCOPE, bug())
    assert states(log, "r1") == [State.REFUSED]
    assert states(log, "r2") == [State.UNKNOWN]


async def test_what_is_settled_is_corrected_once() -> None:
    """Unknown becomes what it was, and says that it was found out; what is known stays."""
    log = RequestLog(Hours())
    await ended(log, "r1", UNKNOWN)
    await ended(log, "r2", APPLIED)
    for request_id in ("r1", "r2", "never"):
        log.settled(request_id, REFUSED)
    (first,), (second,) = log.find("r1"), log.find("r2")
    assert (first.state, first.settled, first.code) == (State.REFUSED, True, "fence_token_stale")
    assert (second.state, second.settled) == (State.APPLIED, False)


async def test_a_key_tells_the_strongest_of_its_attempts() -> None:
    """Applied once is applied, whatever later attempts were told; one entry for each lease."""
    log = RequestLog(Hours())
    await ended(log, "r1", UNKNOWN, "k")
    await ended(log, "r2", REFUSED, "k")
    assert states(log, "k") == [State.UNKNOWN]
    await ended(log, "r3", APPLIED, "k")
    await ended(log, "r4", REFUSED, "k")
    assert states(log, "k") == [State.APPLIED]
    await ended(log, "r5", REFUSED, "k", Scope("other"))
    assert states(log, "k") == [State.APPLIED, State.REFUSED]


async def test_number_and_time_are_bounded() -> None:
    """The oldest go first, with their keys; unknown ones do not make room for others."""
    clock = Hours()
    log = RequestLog(clock, keep_s=10, most=5)
    await ended(log, "u1", UNKNOWN, "ku")
    for number in range(8):
        await ended(log, f"r{number}", APPLIED, f"k{number}")
    assert log.find("r2") == log.find("k2") == ()
    assert states(log, "k3") == [State.APPLIED]
    assert states(log, "u1") == [State.UNKNOWN]
    clock.now_s = 11
    assert log.find("r7") == log.find("ku") == ()
