"""What a strict edge must still accept, on the built server over raw sockets."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.conformance.edge.must_reject import ABC, put
from tests.conformance.edge.raw_http import exchange
from tests.conformance.edge.recording_gateway import RecordingGateway, recording_gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one_gateway() -> AsyncIterator[RecordingGateway]:
    async with recording_gateway() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(one_gateway: RecordingGateway) -> RecordingGateway:
    one_gateway.forget()
    return one_gateway


THREE = b"Content-Length: 3\r\n"

ACCEPTED: dict[str, tuple[bytes, str]] = {
    "plain body": (put(THREE, b"abc"), "k"),
    "chunked body": (put(b"Transfer-Encoding: chunked\r\n", ABC), "k"),
    "chunked in capitals": (put(b"Transfer-Encoding: Chunked\r\n", ABC), "k"),
    "chunk extension": (
        put(b"Transfer-Encoding: chunked\r\n", b'3;a="b"\r\nabc\r\n0\r\n\r\n'),
        "k",
    ),
    "escaped slash": (put(THREE, b"abc", line=b"PUT /a%2fb%2Fc HTTP/1.1\r\n"), "a%2fb%2Fc"),
    "path parameter": (put(THREE, b"abc", line=b"PUT /a;x=1 HTTP/1.1\r\n"), "a;x=1"),
    "a query": (put(THREE, b"abc", line=b"PUT /k?a=1&b=%20 HTTP/1.1\r\n"), "k"),
    "blanks around a token": (put(THREE, b"abc", token=b"X-Fence-Token:  7 \t\r\n"), "k"),
    "largest token": (put(THREE, b"abc", token=b"X-Fence-Token: 9223372036854775807\r\n"), "k"),
    "HTTP/1.0": (put(THREE, b"abc", line=b"PUT /k HTTP/1.0\r\n"), "k"),
    "HTTP/1.0 without Host": (put(THREE, b"abc", line=b"PUT /k HTTP/1.0\r\n", host=b""), "k"),
    "keep-alive and TE options": (
        put(THREE + b"Connection: keep-alive, TE\r\nTE: trailers\r\n", b"abc"),
        "k",
    ),
    "unknown option": (put(THREE + b"Connection: X-Own\r\nX-Own: 1\r\n", b"abc"), "k"),
    "upgrade with a body": (
        put(
            THREE
            + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n",
            b"abc",
        ),
        "k",
    ),
    "upgrade with a chunked body": (
        put(
            b"Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n",
            ABC,
        ),
        "k",
    ),
    "underscored name": (put(THREE + b"My_Field: 1\r\nx-amz-meta-my_key: 1\r\n", b"abc"), "k"),
    "IPv6 host": (put(THREE, b"abc", host=b"Host: [::1]:8080\r\n"), "k"),
    "blank lines before the request": (b"\r\n\r\n" + put(THREE, b"abc"), "k"),
    "expectation": (put(THREE + b"Expect: 100-continue\r\n", b"abc"), "k"),
}


@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.parametrize("bytewise", [False, True])
async def test_accepted_and_kept_exact(
    gateway: RecordingGateway, name: str, bytewise: bool
) -> None:
    """The body arrives whole under the path as it was spelled, however it is cut."""
    message, key = ACCEPTED[name]
    pieces = [message[i : i + 1] for i in range(len(message))] if bytewise else [message]
    answer = await exchange(gateway.address, *pieces)
    assert answer is not None
    assert (answer.status, answer.fields["x-fence-outcome"]) == (201, "applied")
    assert gateway.store.writes == [(key, b"abc")]


@pytest.mark.parametrize("cut", range(1, 30))
async def test_a_split_target_is_one_target(gateway: RecordingGateway, cut: int) -> None:
    """Only the first piece of a target must start with a slash."""
    message = put(THREE, b"abc", line=b"PUT /a/b/c?x=/d HTTP/1.1\r\n")
    connection = await gateway.connect()
    await connection.send(message[:cut])
    await asyncio.sleep(0)
    await connection.send(message[cut:])
    assert (await connection.answer()).status == 201
    await connection.close()
    assert gateway.store.writes == [("a/b/c", b"abc")]


async def test_the_body_of_a_get_is_no_second_request(gateway: RecordingGateway) -> None:
    """A GET whose body looks like a request is one request; the next one is read behind it."""
    inner = put(THREE, b"abc")
    length = str(len(inner)).encode()
    get = b"GET /k HTTP/1.1\r\nHost: h\r\nContent-Length: " + length + b"\r\n\r\n"
    connection = await gateway.connect()
    await connection.send(get + inner + b"GET /second HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (await connection.answer()).status == 404
    assert (await connection.answer()).status == 404
    await connection.close()
    assert gateway.store.reached == ["GET k", "GET second"]


async def test_a_bodiless_upgrade_keeps_its_connection(gateway: RecordingGateway) -> None:
    """A GET that offers h2c is answered in HTTP/1.1, and so is the request behind it."""
    get = b"GET /k HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    connection = await gateway.connect()
    await connection.send(get + get)
    assert [(await connection.answer()).status for _ in range(2)] == [404, 404]
    await connection.send(get)
    assert (await connection.answer()).status == 404
    await connection.close()


@pytest.mark.parametrize(
    "tail", [b"0\r\nX-Fence-Token: 9\r\n\r\n", b"zz\r\n", b"0\r\ncontent-length: 3\r\n\r\n"]
)
async def test_the_body_behind_an_upgrade_is_checked_alike(
    gateway: RecordingGateway, tail: bytes
) -> None:
    """Trailers and bad chunks are refused in the body of a request that asks for an upgrade."""
    fields = b"Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n"
    answer = await exchange(gateway.address, put(fields, b"3\r\nabc\r\n" + tail))
    assert answer is not None
    assert answer.status == 400
    assert answer.closed
    assert gateway.store.writes == []


async def test_nothing_is_smuggled_behind_an_upgrade(gateway: RecordingGateway) -> None:
    """What follows the body of a request that asks for an upgrade is not read as a request."""
    fields = THREE + b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
    second = put(THREE, b"xyz", line=b"PUT /second HTTP/1.1\r\n")
    connection = await gateway.connect()
    await connection.send(put(fields, b"abc") + second)
    answer = await connection.answer()
    assert (answer.status, answer.fields["connection"]) == (201, "close")
    assert await connection.at_end()
    await connection.close()
    assert gateway.store.writes == [("k", b"abc")]


async def test_unknown_methods_are_not_fenced(gateway: RecordingGateway) -> None:
    """A method of HTTP's form that nobody knows is 501, one that is known elsewhere too."""
    for method in (b"FROB", b"PROPFIND"):
        answer = await exchange(gateway.address, method + b" /k HTTP/1.1\r\nHost: h\r\n\r\n")
        assert answer is not None
        assert (answer.status, answer.problem["code"]) == (501, "operation_not_fenced")
        assert answer.fields["x-fence-outcome"] == "refused"
