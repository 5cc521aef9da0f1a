"""The messages that peers read differently, sent as raw bytes to the built server."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import uvicorn

from gateway.edge.asgi_types import Message, Receive, Scope, Send
from tests.conformance.edge.must_reject import MUST_REJECT, REFUSED_AS_WELL, put
from tests.conformance.edge.raw_http import exchange
from tests.conformance.edge.recording_gateway import RecordingGateway, recording_gateway

ALL = MUST_REJECT | REFUSED_AS_WELL


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one_gateway() -> AsyncIterator[RecordingGateway]:
    async with recording_gateway() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(one_gateway: RecordingGateway) -> RecordingGateway:
    one_gateway.forget()
    return one_gateway


async def test_the_list_is_complete() -> None:
    """38 messages are in the first list, numbered without a gap."""
    assert [int(name[1:3]) for name in MUST_REJECT] == list(range(1, 39))


@pytest.mark.parametrize("name", ALL)
async def test_refused_closed_and_seen_by_nobody(gateway: RecordingGateway, name: str) -> None:
    """4xx or 5xx as a problem, outcome refused, connection closed; nothing reached the store."""
    answer = await exchange(gateway.address, ALL[name])
    assert answer is not None, "no answer"
    assert 400 <= answer.status < 600
    assert answer.closed
    assert answer.fields["content-type"] == "application/problem+json"
    assert answer.problem["status"] == answer.status
    assert answer.fields["x-request-id"] == answer.problem["request_id"]
    if not ALL[name].startswith((b"GET ", b"OPTIONS /")):
        assert answer.fields["x-fence-outcome"] == "refused"
    assert gateway.store.reached == []
    assert [event.status for event in gateway.events.finished] == [answer.status]
    assert gateway.events.rejected == [answer.problem["code"].removeprefix("fence_token_")]


@pytest.mark.parametrize("name", ALL)
async def test_byte_by_byte_they_write_nothing_either(gateway: RecordingGateway, name: str) -> None:
    """However the message is cut into segments, it is never written and the connection ends."""
    message = ALL[name]
    size = 1 if len(message) < 2000 else 1000
    pieces = [message[i : i + size] for i in range(0, len(message), size)]
    connection = await gateway.connect()
    try:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            for piece in pieces:
                await connection.send(piece)
                await asyncio.sleep(0)
            answer = await connection.answer()
            assert 400 <= answer.status < 600
        assert await connection.at_end()
    finally:
        await connection.close()
    assert gateway.store.writes == []


@pytest.mark.parametrize(
    "name", ["E20 chunk lines end in LF", "E21 no CRLF behind chunk", "trailer token"]
)
async def test_a_body_that_breaks_late_is_refused_by_the_request_itself(
    gateway: RecordingGateway, name: str
) -> None:
    """The head came alone and its request runs: it gets 400, writes nothing, and closes."""
    head, body = ALL[name].split(b"\r\n\r\n", 1)
    connection = await gateway.connect()
    try:
        await connection.send(head + b"\r\n\r\n")
        async with asyncio.timeout(5):
            while not gateway.store.reached:  # noqa: ASYNC110 - the store has no event
                await asyncio.sleep(0)
        await connection.send(body)
        answer = await connection.answer()
        assert answer.status == 400
        assert answer.fields["x-fence-outcome"] == "refused"
        assert await connection.at_end()
    finally:
        await connection.close()
    assert gateway.store.writes == []


async def test_a_field_without_end_is_cut_off(gateway: RecordingGateway) -> None:
    """Bytes are counted where they are received: one endless field gets 431 early."""
    connection = await gateway.connect()
    sent = 0
    try:
        await connection.send(b"PUT /k HTTP/1.1\r\nHost: h\r\nX-A: ")
        with contextlib.suppress(ConnectionError):
            while sent < 25_000_000:
                await connection.send(b"a" * 16_384)
                sent += 16_384
        assert sent < 25_000_000
    finally:
        await connection.close()
    assert [event.status for event in gateway.events.finished] == [431]


async def test_a_head_just_below_the_limit_is_served(gateway: RecordingGateway) -> None:
    """The limit is 32 KiB of head, however it is cut; a large body behind it does not count."""
    message = put(b"X-A: " + b"a" * 32_000 + b"\r\nContent-Length: 100000\r\n", b"b" * 100_000)
    for cut in (len(message), 7_000, 1_000):
        pieces = [message[i : i + cut] for i in range(0, len(message), cut)]
        answer = await exchange(gateway.address, *pieces)
        assert answer is not None
        assert answer.status in (201, 204)


# --- negative control ----------------------------------------------------------------------------
class _StockApp:
    """An app without a guard on the stock protocol."""

    def __init__(self) -> None:
        self.reached = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.reached += 1
        message: Message = {"type": "", "more_body": True}
        while message.get("more_body"):
            message = await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def test_the_probe_can_fail() -> None:
    """The stock server with the same parser lets at least 9 of the 38 through to its app."""
    app = _StockApp()
    taken = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http="httptools", ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server._serve([taken]))
    address = taken.getsockname()[:2]
    passed = []
    try:
        for name, message in MUST_REJECT.items():
            before = app.reached
            answer = await exchange(address, message)
            if answer is not None and answer.status < 400 and app.reached > before:
                passed.append(name)
    finally:
        server.should_exit = server.force_exit = True
        await asyncio.wait_for(running, 10)
    assert len(passed) >= 9, passed
