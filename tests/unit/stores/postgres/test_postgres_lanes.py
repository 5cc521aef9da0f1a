"""Connections: bounded, fair, replaced when they die, and one step from the gate to the bytes."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from gateway.engine.bulkhead import LanesBusy
from gateway.model.problem import Code, Problem
from gateway.stores.postgres.failures import Unreachable
from gateway.stores.postgres.lanes import MAX_PREPARED, Lane, Lanes
from gateway.stores.postgres.sql import Sql, Statement

SHUT = Problem(Code.NOT_DRAINED, "shut")


class FakePrepared:
    """A prepared statement that answers its text, or fails once."""

    def __init__(self, connection: FakeConnection, text: str) -> None:
        self._connection = connection
        self._text = text

    async def fetch(self, *arguments: Any, timeout: float) -> list[dict[str, Any]]:
        self._connection.log.append(("fetch", self._text))
        if self._connection.failures:
            raise self._connection.failures.pop(0)
        return [{"text": self._text, "arguments": arguments}]


class FakeConnection:
    """A connection that logs what it was asked."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str]] = []
        self.failures: list[Exception] = []
        self.closed = False

    async def prepare(self, text: str, timeout: float) -> FakePrepared:
        self.log.append(("prepare", text))
        await asyncio.sleep(0)
        return FakePrepared(self, text)

    def is_closed(self) -> bool:
        return self.closed

    def terminate(self) -> None:
        self.closed = True

    async def close(self, timeout: float) -> None:
        self.closed = True


class Connector:
    """Opens fake connections, and remembers them."""

    def __init__(self) -> None:
        self.opened: list[FakeConnection] = []
        self.refuses = False

    async def __call__(self) -> FakeConnection:
        if self.refuses:
            raise Unreachable("no")
        self.opened.append(FakeConnection())
        return self.opened[-1]


def made(connect: Connector, size: int = 2, wait_s: float = 0.01) -> Lanes:
    """Lanes over fakes."""
    return Lanes(connect, size=size, wait_s=wait_s, purpose="tests")


ASK = Statement(Sql("ask"))


def test_gate_and_bytes_are_one_step() -> None:
    """Between the gate's answer and the driver's send nothing else can run: one coroutine step."""
    connection = FakeConnection()
    lane = Lane(connection)
    lane._prepared[ASK.text] = FakePrepared(connection, ASK.text)

    def gate() -> None:
        connection.log.append(("gate", ""))

    with pytest.raises(StopIteration):
        lane.run(ASK, deadline_s=1, gate=gate).send(None)
    assert connection.log == [("gate", ""), ("fetch", "ask")]
    assert lane.sent


async def test_the_gate_comes_after_everything_that_awaits() -> None:
    """Preparing takes a round trip, so it is done before the gate is asked."""
    connection = FakeConnection()

    def gate() -> None:
        connection.log.append(("gate", ""))

    await Lane(connection).run(ASK, deadline_s=1, gate=gate)
    assert [what for what, _ in connection.log] == ["prepare", "gate", "fetch"]


async def test_a_shut_gate_sends_nothing() -> None:
    """The gate's problem comes back, and the statement stays here."""
    connection = FakeConnection()
    lane = Lane(connection)
    assert await lane.run(ASK, deadline_s=1, gate=lambda: SHUT) is SHUT
    assert ("fetch", "ask") not in connection.log
    assert not lane.sent


async def test_statements_are_prepared_once_and_not_without_bound() -> None:
    """The one unused longest is dropped; using one keeps it."""
    connection = FakeConnection()
    lane = Lane(connection)
    for number in range(MAX_PREPARED):
        await lane.run(Statement(Sql(str(number))), deadline_s=1)
    for text in ("0", "new", "0", "1"):
        await lane.run(Statement(Sql(text)), deadline_s=1)
    prepared = [text for what, text in connection.log if what == "prepare"]
    assert prepared[MAX_PREPARED:] == ["new", "1"]


async def test_connections_are_bounded_and_reused() -> None:
    """No more than `size` at a time; the one given back last goes out first."""
    connect = Connector()
    lanes = made(connect)
    first, second = await lanes.acquire(), await lanes.acquire()
    with pytest.raises(LanesBusy, match=r"no connection for tests became free within 0\.01 s"):
        await lanes.acquire()
    lanes.release(first)
    lanes.release(second)
    assert await lanes.acquire() is second
    assert len(connect.opened) == 2


async def test_a_refused_connection_takes_no_place() -> None:
    """A database that is down leaves all places free for when it is up."""
    connect = Connector()
    lanes = made(connect, size=1)
    connect.refuses = True
    for _ in range(3):
        with pytest.raises(Unreachable):
            await lanes.acquire()
    connect.refuses = False
    assert (await lanes.acquire()).alive


async def test_a_cancelled_waiter_takes_no_place() -> None:
    """Giving up while waiting leaves the place to the next in line."""
    lanes = made(Connector(), size=1, wait_s=5)
    held = await lanes.acquire()
    waiter = asyncio.create_task(lanes.acquire())
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    lanes.release(held)
    assert (await lanes.acquire()) is held


async def test_dead_connections_are_replaced() -> None:
    """One that died in use or while idle is not given out again."""
    connect = Connector()
    lanes = made(connect)
    used, idle = await lanes.acquire(), await lanes.acquire()
    lanes.release(idle)
    used.break_off()
    lanes.release(used)
    connect.opened[1].closed = True
    assert (await lanes.acquire()).alive
    assert len(connect.opened) == 3


async def test_a_statement_goes_out_again_when_an_idle_connection_had_died() -> None:
    """Only then: on a new connection the failure is reported."""
    connect = Connector()
    lanes = made(connect)
    await lanes.run(ASK, deadline_s=1)
    connect.opened[0].failures.append(asyncpg.InterfaceError("closed"))
    assert (await lanes.run(ASK, deadline_s=1))[0]["text"] == "ask"
    assert len(connect.opened) == 2
    assert connect.opened[0].closed
    await lanes.aclose()
    fresh = made(connect)
    opening = asyncio.create_task(fresh.acquire())
    fresh.release(await opening)
    connect.opened[-1].failures += [asyncpg.InterfaceError("a")]
    assert await fresh.run(ASK, deadline_s=1)


async def test_a_failed_statement_is_prepared_anew_and_keeps_its_connection() -> None:
    """An error of the server ends the statement, not the session."""
    connect = Connector()
    lanes = made(connect)
    await lanes.run(ASK, deadline_s=1)
    error = asyncpg.PostgresError.new({"S": "ERROR", "V": "ERROR", "C": "22012", "M": "m"})
    connect.opened[0].failures.append(error)
    with pytest.raises(asyncpg.PostgresError):
        await lanes.run(ASK, deadline_s=1)
    await lanes.run(ASK, deadline_s=1)
    assert len(connect.opened) == 1
    assert [what for what, _ in connect.opened[0].log].count("prepare") == 2


async def test_closing_closes_what_is_idle_now_and_the_rest_when_given_back() -> None:
    """Nothing is left open behind a closed store."""
    connect = Connector()
    lanes = made(connect)
    used, idle = await lanes.acquire(), await lanes.acquire()
    lanes.release(idle)
    await lanes.aclose()
    assert [one.closed for one in connect.opened] == [False, True]
    lanes.release(used)
    assert all(one.closed for one in connect.opened)
