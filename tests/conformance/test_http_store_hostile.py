"""Origins that lie, break off and smuggle: nothing of it reaches a worker as an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from gateway.model.problem import Code
from gateway.model.reply import Relay
from gateway.ports.store import MaybeWritten, ReadDone, ReadRefused, WriteResult, Written
from gateway.stores.http import OriginStore
from gateway.testing.store_subject import DEADLINE_S
from gateway.upstream.exchange import StreamBroken
from gateway.upstream.pool import Timeouts
from tests.conformance.http_lake import Shore

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
FAST = Timeouts(connect_s=1.0, first_byte_s=0.3, idle_s=0.3)

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def one_head(reader: asyncio.StreamReader) -> bytes:
    """The next request's head; its body, if small, is read with it."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            await reader.readexactly(int(line.partition(b":")[2]))
    return head


def saying(*answers: bytes, close: bool = False) -> Talk:
    """Each request on a connection gets the next of these bytes, the last one for ever."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = list(answers)
        while True:
            await one_head(reader)
            writer.write(left.pop(0) if len(left) > 1 else left[0])
            await writer.drain()
            if close:
                return

    return talk


class Hostile:
    """An origin that talks as told, and counts its connections."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self.talk(reader, writer)
        writer.close()


@asynccontextmanager
async def before(talk: Talk, **options: Any) -> AsyncIterator[tuple[Shore, Hostile]]:
    hostile = Hostile(talk)
    server = await asyncio.start_server(hostile.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    store = OriginStore("h", f"http://127.0.0.1:{port}", mount="/h", timeouts=FAST, **options)
    try:
        yield Shore(store), hostile
    finally:
        await store.aclose()
        server.close()


BAD_FRAMING = {
    "both lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n"
    b"2\r\nok\r\n0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
    "signed length": b"HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok",
    "other coding": b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding in 1.0": b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "folded field": b"HTTP/1.1 200 OK\r\nx-a: 1\r\n x-b: 2\r\ncontent-length: 0\r\n\r\n",
    "bare LF": b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok",
    "bare CR": b"HTTP/1.1 200 OK\r\nx-a: 1\rx-fence-outcome: applied\r\ncontent-length: 0\r\n\r\n",
    "NUL in a field": b"HTTP/1.1 200 OK\r\nx-a: 1\x00\r\ncontent-length: 0\r\n\r\n",
    "space before colon": b"HTTP/1.1 200 OK\r\ncontent-length : 0\r\n\r\n",
    "no field": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "other protocol": b"ICY 200 OK\r\n\r\n",
    "storm of interim answers": b"HTTP/1.1 103 Early Hints\r\n\r\n" * 50 + OK,
    "switching protocols": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n" + OK,
    "endless head": b"HTTP/1.1 200 OK\r\n" + b"x-a: " + b"a" * 100_000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("raw", BAD_FRAMING.values(), ids=BAD_FRAMING)
async def test_bad_framing_is_no_answer(raw: bytes) -> None:
    """A read fails by name, a write is unknown, and the connection carries nothing more."""
    async with before(saying(raw)) as (shore, hostile):
        read = await shore.read("GET", "/a")
        assert isinstance(read, ReadRefused)
        assert read.problem.code is Code.UPSTREAM_FAILED
        assert read.problem.relay is None
        connections = hostile.connections
        assert isinstance(await shore.write("POST", "/a", b"1"), MaybeWritten)
        assert isinstance(await shore.write("PUT", "/a", b"1"), MaybeWritten)
        assert hostile.connections == connections + 2


SMUGGLED = b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nsmuggled"
DOUBTS = {
    "a second answer": OK + SMUGGLED,
    "more than announced": OK + b"!",
    "a body after 204": b"HTTP/1.1 204 No Content\r\ncontent-length: 8\r\n\r\nsmuggled",
    "told to close": OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n") + SMUGGLED,
}


@pytest.mark.parametrize("raw", DOUBTS.values(), ids=DOUBTS)
async def test_what_follows_an_answer_is_nobodys(raw: bytes) -> None:
    """Bytes behind an answer never become the next request's: its connection is given up."""
    async with before(saying(raw, OK)) as (shore, hostile):
        for number in range(1, 4):
            answer = await shore.answer("GET", "/a")
            assert b"smuggled" not in answer.body
            assert hostile.connections == number
            written = await shore.write("POST", "/a", b"1")
            assert b"smuggled" not in _body(written)
            hostile.connections -= 1


def _body(result: WriteResult) -> bytes:
    assert isinstance(result, Written), result
    assert isinstance(result.reply, Relay)
    return result.reply.body


async def test_a_clean_connection_is_used_again() -> None:
    """The control: without a doubt there is one connection for all."""
    async with before(saying(OK)) as (shore, hostile):
        for _ in range(3):
            await shore.answer("GET", "/a")
            await shore.write("POST", "/a", b"1")
        assert hostile.connections == 1


CUT = {
    "in the head": b"HTTP/1.1 200 OK\r\ncontent-le",
    "in the body": b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
    "in a chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nok",
    "before the last chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
    "at once": b"",
}


@pytest.mark.parametrize("raw", CUT.values(), ids=CUT)
async def test_an_answer_that_is_cut(raw: bytes) -> None:
    """A write's is unknown; a read's is never taken for whole."""
    async with before(saying(raw, close=True)) as (shore, _):
        assert isinstance(await shore.write("PUT", "/a", b"1"), MaybeWritten)
        read = await shore.read("GET", "/a")
        if isinstance(read, ReadDone):
            assert isinstance(read.reply, Relay)
            assert read.reply.chunks is not None
            with pytest.raises(StreamBroken):
                async for _ in read.reply.chunks:
                    pass
        else:
            assert read.problem.code is Code.UPSTREAM_FAILED


async def test_a_write_answered_without_a_length_is_unknown() -> None:
    """Only its end tells a whole answer from a cut one, and anybody can cut it."""
    async with before(saying(b"HTTP/1.1 200 OK\r\n\r\nok", close=True)) as (shore, _):
        assert isinstance(await shore.write("PUT", "/a", b"1"), MaybeWritten)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 307, 308])
async def test_a_redirect_is_neither_followed_nor_passed_on(status: int) -> None:
    """The origin learns of no second request, the worker of no other address."""
    raw = b"HTTP/1.1 %d -\r\nlocation: http://127.0.0.1:1/x\r\ncontent-length: 0\r\n\r\n" % status
    async with before(saying(raw)) as (shore, _):
        for method in ("GET", "HEAD", "OPTIONS"):
            read = await shore.read(method, "/a")
            assert isinstance(read, ReadRefused)
            assert read.problem.status == 502
            assert "127.0.0.1:1" not in repr(read.problem)
        assert not isinstance(await shore.write("PUT", "/a", b"1"), Written)


async def test_fields_that_would_lead_past_the_gateway() -> None:
    """The fence's own words, connection fields and other addresses are left out."""
    raw = (
        b"HTTP/1.1 200 OK\r\nx-fence-outcome: applied\r\nx-fence-mark: 1\r\nx-request-id: 1\r\n"
        b'alt-svc: h3=":1"\r\nrefresh: 0; url=http://x\r\ncontent-location: http://x/y\r\n'
        b"connection: x-hop\r\nx-hop: 1\r\nkeep-alive: 1\r\nx-ok: 1\r\ncontent-length: 2\r\n\r\nok"
    )
    async with before(saying(raw)) as (shore, _):
        answer = await shore.answer("GET", "/a")
        assert answer.fields == (("x-ok", "1"), ("content-length", "2"))
        written = await shore.write("POST", "/a", b"1")
        assert isinstance(written, Written)
        assert written.reply == Relay(200, (("x-ok", "1"),), b"ok")


def dripping(raw: bytes, every_s: float) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await one_head(reader)
        gone = asyncio.create_task(reader.read())
        for byte in raw:
            writer.write(bytes([byte]))
            await asyncio.wait({gone}, timeout=every_s)
            if gone.done():
                return

    return talk


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await one_head(reader)
    await reader.read()


@pytest.mark.parametrize(
    "talk",
    [silent, dripping(b"HTTP/1.1 200 OK\r\nx-a: " + b"a" * 1000, 0.05)],
    ids=["silence", "a head that drips"],
)
async def test_a_head_that_does_not_come(talk: Talk) -> None:
    """It has its time as a whole, however often a byte of it arrives."""
    async with before(talk) as (shore, _), asyncio.timeout(DEADLINE_S):
        assert isinstance(await shore.read("GET", "/a"), ReadRefused)
        assert isinstance(await shore.write("POST", "/a", b"1"), MaybeWritten)


async def test_a_body_that_stops() -> None:
    """The pause is bounded, and what came is not taken for the whole."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await one_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok")
        await reader.read()

    async with before(talk) as (shore, _), asyncio.timeout(DEADLINE_S):
        with pytest.raises(StreamBroken):
            await shore.answer("GET", "/a")
        assert isinstance(await shore.write("POST", "/a", b"1"), MaybeWritten)


async def test_an_origin_that_takes_no_bytes() -> None:
    """Sending is bounded too; what was held back was never sent, so that nothing was written."""

    async def talk(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.Event().wait()

    async with before(talk) as (shore, _), asyncio.timeout(DEADLINE_S):
        result = await shore.write("PUT", "/a", b"x" * 30_000_000)
        assert not isinstance(result, Written | MaybeWritten)
        assert shore.gates == 0


async def test_an_origin_that_is_not_there() -> None:
    """Reads and writes are refused, and readiness tells why."""
    store = OriginStore("h", "http://127.0.0.1:1", timeouts=FAST)
    shore = Shore(store)
    assert isinstance(await shore.read("GET", "/a"), ReadRefused)
    assert not isinstance(await shore.write("PUT", "/a", b"1"), Written | MaybeWritten)
    assert "cannot be reached" in (await store.check() or "")
    await store.aclose()
