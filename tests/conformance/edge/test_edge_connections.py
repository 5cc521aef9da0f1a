"""Connections: pipelines, keep-alive, HTTP/1.0, HEAD, disconnects, a stop in good order."""

import asyncio
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from gateway.edge.limits import EdgeLimits
from tests.conformance.edge.must_reject import put
from tests.conformance.edge.raw_http import exchange
from tests.conformance.edge.recording_gateway import RecordingGateway, recording_gateway

THREE = b"Content-Length: 3\r\n"
GET = b"GET /k HTTP/1.1\r\nHost: h\r\n\r\n"


@pytest.fixture
async def gateway() -> AsyncIterator[RecordingGateway]:
    async with recording_gateway() as running:
        yield running


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


async def test_pipelined_requests_are_answered_in_order(gateway: RecordingGateway) -> None:
    """Requests sent at once are done one after another and answered in their order."""
    parts = [put(THREE, b"a%02d" % i, line=b"PUT /k%d HTTP/1.1\r\n" % i) for i in range(20)]
    connection = await gateway.connect()
    await connection.send(b"".join(parts))
    answers = [await connection.answer() for _ in parts]
    await connection.close()
    assert [a.status for a in answers] == [201] * 20
    assert [body for _, body in gateway.store.writes] == [b"a%02d" % i for i in range(20)]
    assert len({a.fields["x-request-id"] for a in answers}) == 20


async def test_pipelined_large_bodies_arrive_whole(gateway: RecordingGateway) -> None:
    """Reading pauses behind a queued request and goes on when its turn has come."""
    body = bytes(range(256)) * 2048
    fields = b"Content-Length: %d\r\n" % len(body)
    message = b"".join(put(fields, body, line=b"PUT /k%d HTTP/1.1\r\n" % i) for i in range(4))
    connection = await gateway.connect()
    sending = asyncio.create_task(connection.send(message))
    assert [(await connection.answer()).status for _ in range(4)] == [201] * 4
    await sending
    await connection.close()
    assert [data == body for _, data in gateway.store.writes] == [True] * 4


async def test_garbage_behind_a_request_ends_the_connection(gateway: RecordingGateway) -> None:
    """The valid request is answered and closes; the garbage gets no answer in front of it."""
    connection = await gateway.connect()
    await connection.send(put(THREE, b"abc") + b"GARBAGE\r\n\r\n")
    answer = await connection.answer()
    assert (answer.status, answer.fields["connection"]) == (201, "close")
    assert await connection.at_end()
    await connection.close()


async def test_garbage_after_an_answer_is_refused(gateway: RecordingGateway) -> None:
    """On an idle kept connection garbage gets 400 and the end."""
    connection = await gateway.connect()
    await connection.send(put(THREE, b"abc"))
    assert "connection" not in (await connection.answer()).fields
    await connection.send(b"GARBAGE\r\n\r\n")
    assert (await connection.answer()).status == 400
    assert await connection.at_end()
    await connection.close()


async def test_http_1_0_gets_a_length_and_the_end(gateway: RecordingGateway) -> None:
    """A 1.0 client never gets chunks, and its connection closes behind the answer."""
    gateway.store.objects["k"] = b"abc"
    answer = await exchange(gateway.address, b"GET /k HTTP/1.0\r\n\r\n")
    assert answer is not None
    assert (answer.status, answer.body, answer.closed) == (200, b"abc", True)
    assert "transfer-encoding" not in answer.fields


async def test_head_has_the_length_and_no_body(gateway: RecordingGateway) -> None:
    """HEAD answers with GET's fields; the next answer follows at once, also behind an error."""
    gateway.store.objects["k"] = b"abc"
    connection = await gateway.connect()
    await connection.send(
        GET.replace(b"GET", b"HEAD") + GET.replace(b"GET /k", b"HEAD /none") + GET
    )
    found, missing = await connection.answer(head=True), await connection.answer(head=True)
    assert (found.status, found.fields["content-length"]) == (200, "3")
    assert missing.status == 404
    assert int(missing.fields["content-length"]) > 0
    assert (await connection.answer()).body == b"abc"
    await connection.close()


async def test_continue_is_sent_when_the_body_is_wanted(gateway: RecordingGateway) -> None:
    """100 comes only with the first read of the body: a refusal comes instead of it."""
    expecting = put(b"Content-Length: 3\r\nExpect: 100-continue\r\n")
    connection = await gateway.connect()
    await connection.send(expecting)
    assert await connection.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await connection.send(b"abc")
    assert (await connection.answer()).status == 201
    gateway.store.mark = 8
    await connection.send(expecting)
    line = await connection.reader.readline()
    assert line.startswith(b"HTTP/1.1 412 ")
    await connection.close()


async def test_an_empty_body_with_an_expectation_keeps_the_connection(
    gateway: RecordingGateway,
) -> None:
    """boto3 sends Expect for 0 bytes too: it gets 100, and the connection stays usable."""
    message = put(b"Content-Length: 0\r\nExpect: 100-continue\r\n")
    connection = await gateway.connect()
    for _ in range(2):
        await connection.send(message)
        assert await connection.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        answer = await connection.answer()
        assert answer.status in (201, 204)
        assert "connection" not in answer.fields
    await connection.close()


@pytest.mark.parametrize("abrupt", [False, True])
@pytest.mark.parametrize(
    "fields, sent", [(b"Content-Length: 10\r\n", b"abc"), (b"", b"3\r\nabc\r\n")]
)
async def test_a_disconnect_is_never_an_end(
    gateway: RecordingGateway, abrupt: bool, fields: bytes, sent: bytes
) -> None:
    """A client that closes in mid-body, with FIN or RST, leaves the old object as it was."""
    gateway.store.objects["k"] = b"old"
    connection = await gateway.connect()
    await connection.send(put(fields or b"Transfer-Encoding: chunked\r\n", sent))
    await until(lambda: gateway.store.reached)
    if abrupt:
        raw = connection.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await connection.close()
    await until(lambda: gateway.events.finished)
    assert gateway.store.objects == {"k": b"old"}
    assert gateway.store.writes == []
    event = gateway.events.finished[0]
    assert (event.outcome, event.code, event.bytes_in) == ("refused", "request_malformed", 3)


async def test_a_half_closed_client_gets_its_answer(gateway: RecordingGateway) -> None:
    """A client that shuts its sending side behind a complete request is answered."""
    connection = await gateway.connect()
    await connection.send(put(THREE, b"abc"))
    connection.writer.write_eof()
    assert (await connection.answer()).status == 201
    assert await connection.at_end()
    await connection.close()


@pytest.mark.parametrize(
    "fields, sent", [(b"Content-Length: 10\r\n", b"abc"), (b"", b"3\r\nabc\r\n")]
)
@pytest.mark.parametrize("before", [0, 2])
async def test_a_half_closed_short_body_is_answered(
    gateway: RecordingGateway, fields: bytes, sent: bytes, before: int
) -> None:
    """A client that ends its side within a body reads a 400; the old object stays as it was."""
    gateway.store.objects["k"] = b"old"
    connection = await gateway.connect()
    await connection.send(GET * before + put(fields or b"Transfer-Encoding: chunked\r\n", sent))
    connection.writer.write_eof()
    assert [(await connection.answer()).status for _ in range(before)] == [200] * before
    answer = await connection.answer()
    assert (answer.status, answer.problem["code"]) == (400, "request_malformed")
    assert "before it was complete" in answer.problem["detail"]
    assert answer.fields["x-fence-outcome"] == "refused"
    assert await connection.at_end()
    assert gateway.store.objects == {"k": b"old"}
    assert gateway.store.writes == []


async def test_a_half_close_behind_a_refusal_keeps_the_refusal(gateway: RecordingGateway) -> None:
    """What was wrong first is what is answered, although the end of the input follows at once."""
    connection = await gateway.connect()
    await connection.send(put(b"Transfer-Encoding: chunked\r\n", b"3\r\nabc\r\nzz\r\n"))
    connection.writer.write_eof()
    answer = await connection.answer()
    assert answer.status == 400
    assert "before it was complete" not in answer.problem["detail"]
    assert await connection.at_end()
    assert gateway.store.writes == []


@pytest.mark.parametrize("pieces", [1, 2, 1000])
@pytest.mark.parametrize(
    "message, method, path",
    [
        (b"PUT /a%20b?sig=s3cret HTTP/1.1\r\nHost: h\r\nX Y: 1\r\n\r\n", "PUT", "/a%20b"),
        (b"GET /a?sig=s3cret HTTP/1.1\r\nHost : h\r\n\r\n", "GET", "/a"),
        (b"DELETE /a#s3cret HTTP/1.1\r\nHost: h\r\n\r\n", "DELETE", "/a"),
        (b"PUT /k HTTP/1.1\r\nHost: h\r\nA: " + b"s3cret" * 9000, "PUT", "/k"),
        (b"PUT http://u:s3cret@h/k HTTP/1.1\r\nHost: h\r\n\r\n", "", ""),
        (b"s3cret /k HTTP/1.1\r\nHost: h\r\n\r\n", "", ""),
    ],
)
async def test_a_refusal_by_the_parser_tells_what_is_known(
    gateway: RecordingGateway, message: bytes, method: str, path: str, pieces: int
) -> None:
    """Its event names method and path as far as they had come, also behind another request.

    Neither the query nor the user of an absolute target is told: they may be secrets.
    """
    connection = await gateway.connect()
    await connection.send(GET)
    assert (await connection.answer()).status == 404
    size = -(-len(message) // pieces)
    for start in range(0, len(message), size):
        connection.writer.write(message[start : start + size])
        await asyncio.sleep(0)
    assert (await connection.answer()).status in {400, 431}
    event = gateway.events.finished[-1]
    assert (event.method, event.path) == (method, path)
    assert "s3cret" not in repr(gateway.events.all)


async def test_a_client_that_leaves_in_mid_answer_frees_the_object(
    gateway: RecordingGateway,
) -> None:
    """The answer's iterator is closed and the request ends with one event."""
    gateway.store.objects["k"] = b"x" * 20_000_000
    connection = await gateway.connect()
    await connection.send(GET)
    await connection.reader.readuntil(b"\r\n\r\n")
    connection.writer.transport.abort()
    assert gateway.store.readers == 1
    await until(lambda: gateway.events.finished)
    assert gateway.store.readers == 0
    assert gateway.events.finished[0].outcome == "read_ok"


async def test_a_client_that_does_not_read_is_cut_off() -> None:
    """An answer that nobody takes ends after the idle time, with one event."""
    limits = EdgeLimits(body_idle_timeout_s=0.2)
    async with recording_gateway(limits=limits) as gateway:
        gateway.store.objects["k"] = b"x" * 40_000_000
        raw = socket.create_connection(gateway.address)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.sendall(GET)
        await until(lambda: gateway.events.finished)
        assert gateway.store.readers == 0
        raw.close()


async def test_a_stop_finishes_what_is_under_way(gateway: RecordingGateway) -> None:
    """On stop the write in progress is answered, idle connections end, new ones are refused."""
    go_on = threading.Event()
    gateway.store.before_write = go_on.wait
    idle = await gateway.connect()
    await idle.send(GET)
    await idle.answer()
    busy = await gateway.connect()
    await busy.send(put(THREE, b"abc"))
    await until(lambda: "PUT k" in gateway.store.reached)
    gateway.server.stop()
    assert await idle.at_end()
    await until(lambda: not _connects(gateway.address))
    go_on.set()
    answer = await busy.answer()
    assert (answer.status, answer.fields["connection"]) == (201, "close")
    assert await busy.at_end()
    await idle.close()
    await busy.close()


def _connects(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, 1).close()
    except OSError:
        return False
    return True
