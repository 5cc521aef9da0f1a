"""Time limits of the edge: heads, bodies and idle connections (decisions, "Defaults")."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from gateway.edge.limits import EdgeLimits
from gateway.policy.limits import Limits
from tests.conformance.edge.must_reject import put
from tests.conformance.edge.recording_gateway import RecordingGateway, recording_gateway

SHORT = EdgeLimits(head_timeout_s=0.2, body_idle_timeout_s=0.2, keep_alive_timeout_s=0.3)


@pytest.fixture
async def gateway() -> AsyncIterator[RecordingGateway]:
    async with recording_gateway(limits=SHORT) as running:
        yield running


def test_the_defaults_are_the_documented_ones() -> None:
    """Head 10 s, body idle 30 s, keep-alive 75 s, 32 KiB, 100 fields; settings reach the edge."""
    assert EdgeLimits.of(Limits()) == EdgeLimits()
    default = EdgeLimits()
    assert (default.head_timeout_s, default.body_idle_timeout_s) == (10, 30)
    assert (default.keep_alive_timeout_s, default.max_fields) == (75, 100)
    assert default.max_head_bytes == 32_768


@pytest.mark.parametrize("start", [b"P", b"\r\n", b"PUT /k HTTP/1.1\r\nHost: h\r\nX-A: b"])
async def test_a_slow_head_gets_408(gateway: RecordingGateway, start: bytes) -> None:
    """The time runs from the first byte, and further bytes do not renew it."""
    connection = await gateway.connect()
    await connection.send(start)

    async def drip() -> None:
        while start != b"P":
            await asyncio.sleep(0.05)
            await connection.send(b"\r\n" if start == b"\r\n" else b"U")

    dripping = asyncio.create_task(drip())
    answer = await connection.answer()
    dripping.cancel()
    assert (answer.status, answer.problem["code"]) == (408, "request_timeout")
    assert answer.fields["connection"] == "close"
    await connection.close()
    assert gateway.store.reached == []


async def test_an_idle_body_gets_408(gateway: RecordingGateway) -> None:
    """A body that stalls is refused, writes nothing, and its connection ends."""
    connection = await gateway.connect()
    await connection.send(put(b"Content-Length: 10\r\n", b"abc"))
    answer = await connection.answer()
    assert (answer.status, answer.fields["x-fence-outcome"]) == (408, "refused")
    assert await connection.at_end()
    await connection.close()
    assert gateway.store.writes == []


async def test_endless_chunk_extensions_are_idle(gateway: RecordingGateway) -> None:
    """Bytes that are not of the body do not keep it alive."""
    connection = await gateway.connect()
    await connection.send(put(b"Transfer-Encoding: chunked\r\n", b"3;"))

    async def drip() -> None:
        while True:
            await asyncio.sleep(0.05)
            await connection.send(b"a")

    dripping = asyncio.create_task(drip())
    assert (await connection.answer()).status == 408
    dripping.cancel()
    await connection.close()


async def test_a_slow_but_steady_body_is_served(gateway: RecordingGateway) -> None:
    """The limit is on the pause, not on the whole."""
    connection = await gateway.connect()
    await connection.send(put(b"Content-Length: 10\r\n"))
    for _ in range(10):
        with contextlib.suppress(TimeoutError):  # a client that takes its time
            await asyncio.wait_for(asyncio.Event().wait(), 0.04)
        await connection.send(b"a")
    assert (await connection.answer()).status == 201
    await connection.close()


@pytest.mark.parametrize("used", [False, True])
async def test_an_idle_connection_is_closed(gateway: RecordingGateway, used: bool) -> None:
    """Before the first request as behind the last one, without an answer."""
    connection = await gateway.connect()
    if used:
        await connection.send(put(b"Content-Length: 3\r\n", b"abc"))
        await connection.answer()
    assert await connection.at_end()
    await connection.close()
    assert gateway.events.rejected == []
