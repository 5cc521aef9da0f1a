"""The connection of our own: what it knows about unsent bytes, and how it ends."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import uvloop

from gateway.upstream.link import Link, LinkLost, LinkTimeout, connect
from tests.services.tls_identity import client_context, server_context


@dataclass(slots=True)
class Peer:
    """The other end, on a plain socket that reads only when told."""

    sock: socket.socket
    got: bytearray = field(default_factory=bytearray)

    async def read(self, count: int) -> None:
        """Read until so many bytes have come."""
        loop = asyncio.get_running_loop()
        while len(self.got) < count:
            data = await loop.sock_recv(self.sock, 1 << 20)
            assert data, "the link closed"
            self.got += data

    async def end(self) -> str:
        """How the link ended: "closed" or "reset"."""
        loop = asyncio.get_running_loop()
        try:
            while await loop.sock_recv(self.sock, 1 << 20):
                pass
        except ConnectionResetError:
            return "reset"
        return "closed"


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[Link, Peer]]:
    """A link and its peer; the peer's kernel takes little before it is read."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    listener.setblocking(False)
    link = await connect("127.0.0.1", listener.getsockname()[1], None, 5)
    accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
    try:
        yield link, Peer(accepted)
    finally:
        link.abort()
        accepted.close()
        listener.close()


async def test_send_and_receive() -> None:
    """Bytes arrive as they are in both directions, and the end is told as such."""
    async with asyncio.timeout(10), pair() as (link, peer):
        assert await link.send(b"ping", 5)
        await peer.read(4)
        assert bytes(peer.got) == b"ping"
        peer.sock.send(b"pong")
        assert await link.receive(5) == b"pong"
        assert link.quiet()
        peer.sock.close()
        assert await link.receive(5) == b""
        assert not link.quiet()


async def test_send_queue_must_be_empty() -> None:
    """Bytes that the peer's kernel has not taken are counted, and waited for."""
    async with asyncio.timeout(10), pair() as (link, peer):
        link.make_room(300_000)
        rest = link.send_at_once(b"x" * 200_000)
        assert not rest
        assert link.unsent_bytes() > 0
        waiting = asyncio.ensure_future(link.settle_sent(5))
        done, _ = await asyncio.wait({waiting}, timeout=0.1)
        assert not done
        await peer.read(200_000)
        assert await waiting
        assert link.unsent_bytes() == 0


async def test_store_that_takes_nothing_times_out() -> None:
    """Neither sending nor waiting for the queue goes on for ever."""
    async with asyncio.timeout(10), pair() as (link, _):
        with pytest.raises(LinkTimeout):
            await link.send(b"x" * 32_000_000, 0.05)
        with pytest.raises(LinkTimeout):
            await link.settle_sent(0.05)
        with pytest.raises(LinkTimeout):
            await link.receive(0.05)


async def test_back_pressure() -> None:
    """Sending waits for the reader; nothing piles up in this process."""
    async with asyncio.timeout(10), pair() as (link, peer):
        sending = asyncio.ensure_future(link.send(b"x" * 8_000_000, 5))
        done, _ = await asyncio.wait({sending}, timeout=0.1)
        assert not done
        await peer.read(8_000_000)
        assert await sending


async def test_inbound_is_bounded() -> None:
    """A store that talks faster than it is listened to is stopped by its own send buffer."""
    async with asyncio.timeout(10), pair() as (link, peer):
        size = 16_000_000
        loop = asyncio.get_running_loop()
        talking = loop.create_task(loop.sock_sendall(peer.sock, b"y" * size))
        done, _ = await asyncio.wait({talking}, timeout=0.2)
        assert not done
        heard = 0
        while heard < size:
            heard += len(await link.receive(5))
        await talking
        assert heard == size


async def test_peer_that_speaks_first_stops_the_sender() -> None:
    """An answer before the whole body ends the sending, and can be received."""
    async with asyncio.timeout(10), pair() as (link, peer):
        sending = asyncio.ensure_future(link.send(b"x" * 8_000_000, 5))
        peer.sock.send(b"no")
        assert not await sending
        assert await link.receive(5) == b"no"


async def test_abort_resets_and_close_does_not() -> None:
    """An abort reaches the peer as a reset, so that it cannot take half for whole."""
    async with asyncio.timeout(10), pair() as (link, peer):
        await link.send(b"half", 5)
        await peer.read(4)
        link.abort()
        link.abort()
        assert await peer.end() == "reset"
    async with asyncio.timeout(10), pair() as (link, peer):
        link.close()
        assert await peer.end() == "closed"


async def test_broken_off_from_outside() -> None:
    """Whoever waits for an answer learns at once that it will not come; the peer sees a reset."""
    async with asyncio.timeout(10), pair() as (link, peer):
        await link.send(b"all", 5)
        await peer.read(3)
        waiting = asyncio.ensure_future(link.receive(5))
        await asyncio.sleep(0)
        link.break_off()
        with pytest.raises(LinkLost, match="newer token"):
            await waiting
        assert await peer.end() == "reset"


async def test_reset_by_the_peer() -> None:
    """A reset is a failure, never an orderly end."""
    async with asyncio.timeout(10), pair() as (link, peer):
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.sock.close()
        with pytest.raises(LinkLost):
            await link.receive(5)
        assert not await link.send(b"x", 5)


async def test_nobody_listens() -> None:
    """A refused connection names the address."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(LinkLost, match=f"127.0.0.1:{port}"):
        await connect("127.0.0.1", port, None, 5)


@asynccontextmanager
async def tls_echo(*, orderly: bool) -> AsyncIterator[int]:
    """A TLS server that gives back what it gets, and ends with or without saying so."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if data == b"bye":
                break
            writer.write(data)
            await writer.drain()
        if orderly:
            writer.close()
        else:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_context())
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_tls() -> None:
    """Over TLS the same: bytes, an empty queue, one call for the end, an orderly end."""
    async with asyncio.timeout(10), tls_echo(orderly=True) as port:
        link = await connect("127.0.0.1", port, client_context(), 5)
        data = bytes(range(256)) * 1000
        assert await link.send(data, 5)
        heard = b""
        while len(heard) < len(data):
            heard += await link.receive(5)
        assert heard == data
        assert await link.settle_sent(5)
        assert not link.send_at_once(b"bye")
        assert await link.receive(5) == b""
        link.close()


async def test_tls_that_is_cut_is_a_failure() -> None:
    """A stream that ends without TLS's own end may have been cut by anybody."""
    async with asyncio.timeout(10), tls_echo(orderly=False) as port:
        link = await connect("127.0.0.1", port, client_context(), 5)
        assert not link.send_at_once(b"bye")
        with pytest.raises(LinkLost):
            await link.receive(5)
        link.close()


async def test_tls_is_verified() -> None:
    """A certificate that nobody vouches for is no connection."""
    async with asyncio.timeout(10), tls_echo(orderly=True) as port:
        with pytest.raises(LinkLost, match=r"(?i)certificate"):
            await connect("127.0.0.1", port, ssl.create_default_context(), 5)


@pytest.mark.parametrize(
    "law",
    [
        test_send_and_receive,
        test_send_queue_must_be_empty,
        test_back_pressure,
        test_inbound_is_bounded,
        test_peer_that_speaks_first_stops_the_sender,
        test_abort_resets_and_close_does_not,
        test_broken_off_from_outside,
        test_reset_by_the_peer,
        test_tls,
        test_tls_that_is_cut_is_a_failure,
    ],
    ids=lambda law: law.__name__.removeprefix("test_"),
)
def test_on_uvloop(law: Callable[[], Coroutine[None, None, None]]) -> None:
    """The same on the loop that the gateway runs on."""
    uvloop.run(law())
