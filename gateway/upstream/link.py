"""One connection to the store on a socket of our own, with no buffer that we do not see (rule 5).

Before the last bytes of a write may leave, everything sent before them must have arrived, and they
must go out in one system call. Transports of asyncio and uvloop hide both, so the socket is read
and written here. Inbound bytes are always watched: a store may answer before it has the body.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import ssl
import struct
import termios
from collections import deque
from typing import Final

_READ_BYTES: Final = 262_144
_INBOX_BYTES: Final = 524_288
_RESET: Final = struct.pack("ii", 1, 0)
# The peer's kernel acknowledges within a round trip, at worst 40 ms later (delayed ACK).
_FIRST_POLL_S: Final = 0.000_2
_LONGEST_POLL_S: Final = 0.005


class LinkLost(Exception):
    """The connection failed. The text says how."""


class LinkTimeout(LinkLost):
    """Nothing moved within the time allowed."""


class _Tls:
    """TLS over memory buffers, so that the ciphertext passes through our hands."""

    __slots__ = ("_incoming", "object", "outgoing")

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.object = context.wrap_bio(self._incoming, self.outgoing, server_hostname=host)

    def feed(self, data: bytes) -> None:
        self._incoming.write(data)

    def decrypt(self) -> tuple[bytes, bool]:
        """The clear bytes at hand, and whether the peer has said that no more will come."""
        pieces = []
        try:
            while piece := self.object.read(_READ_BYTES):
                pieces.append(piece)
        except ssl.SSLWantReadError:
            return b"".join(pieces), False
        except ssl.SSLZeroReturnError:
            pass
        return b"".join(pieces), True

    def encrypt(self, data: bytes) -> bytes:
        self.object.write(data)
        return self.outgoing.read()


class Link:
    """A connected socket. One task uses it at a time.

    `arrived` is true once the peer has sent anything that was not received yet, has closed, or
    the connection has failed. Times are in seconds.
    """

    __slots__ = (
        "_closed",
        "_eof",
        "_error",
        "_inbox",
        "_inbox_bytes",
        "_loop",
        "_reading",
        "_sock",
        "_tls",
        "_waiter",
        "_writing",
        "used",
    )

    def __init__(
        self, sock: socket.socket, loop: asyncio.AbstractEventLoop, tls: _Tls | None
    ) -> None:
        self._sock = sock
        self._loop = loop
        self._tls = tls
        self._inbox: deque[bytes] = deque()
        self._inbox_bytes = 0
        self._eof = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._reading = False
        self._writing = False
        self._closed = False
        self.used = 0
        self._resume()

    # --- receiving ----------------------------------------------------------------------------

    @property
    def arrived(self) -> bool:
        """The peer has spoken, closed or failed, and it was not received yet."""
        return bool(self._inbox) or self._eof or self._error is not None

    def quiet(self) -> bool:
        """Look at the socket now: True when the peer has neither spoken nor closed."""
        if not self._closed and not self.arrived:
            self._on_readable()
        return not self._closed and not self.arrived

    async def receive(self, within_s: float) -> bytes:
        """The next bytes; b"" when the peer has closed. Raises `LinkLost`, `LinkTimeout`."""
        while not self._inbox:
            if self._error is not None:
                raise LinkLost(f"the connection failed: {self._error}") from self._error
            if self._eof:
                return b""
            await self._wait(within_s)
        data = self._inbox.popleft()
        self._inbox_bytes -= len(data)
        if not self._reading and self._inbox_bytes < _INBOX_BYTES:
            self._resume()
        return data

    def _resume(self) -> None:
        if not (self._reading or self._closed or self._eof or self._error):
            self._loop.add_reader(self._sock, self._on_readable)
            self._reading = True

    def _pause(self) -> None:
        if self._reading:
            self._loop.remove_reader(self._sock)
            self._reading = False

    def _on_readable(self) -> None:
        try:
            data = self._sock.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail(error)
            return
        if self._tls is None:
            self._take(data, ended=not data)
        else:
            self._take_tls(self._tls, data)

    def _take_tls(self, tls: _Tls, data: bytes) -> None:
        if not data:
            # TLS says itself when it ends; a bare end of the stream may be somebody else's cut.
            self._fail(ConnectionResetError("closed without the end of TLS"))
            return
        tls.feed(data)
        try:
            clear, ended = tls.decrypt()
        except ssl.SSLError as error:
            self._fail(error)
            return
        if (reply := tls.outgoing.read()) and self._send_now(memoryview(reply)) != len(reply):
            self._fail(ConnectionResetError("no room for a TLS answer"))
            return
        if clear or ended:
            self._take(clear, ended=ended)

    def _take(self, data: bytes, *, ended: bool) -> None:
        if data:
            self._inbox.append(data)
            self._inbox_bytes += len(data)
            if self._inbox_bytes >= _INBOX_BYTES:
                self._pause()
        if ended:
            self._eof = True
            self._pause()
        self._wake()

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._pause()
        self._wake()

    # --- sending ------------------------------------------------------------------------------

    async def send(self, data: bytes, within_s: float) -> bool:
        """Send bytes that may still be taken back by a reset; waits while the peer is slow.

        False: the peer spoke or closed first, or does not take more; not all of it was sent.
        Raises `LinkTimeout` when nothing moves for `within_s`.
        """
        view = memoryview(data if self._tls is None else self._tls.encrypt(data))
        return await self.send_rest(view, within_s)

    async def send_rest(self, view: memoryview, within_s: float) -> bool:
        """Send what is encrypted already, as `send` does."""
        while not self.arrived:
            sent = self._send_now(view)
            if sent == len(view):
                return True
            view = view[sent:]
            if self._error is None:
                await self._wait_writable(within_s)
        return False

    async def settle_sent(self, within_s: float) -> bool:
        """Wait until the peer's kernel has everything that was sent (TIOCOUTQ is 0).

        False: the peer spoke or closed first. Raises `LinkTimeout`.
        """
        pause = _FIRST_POLL_S
        deadline = self._loop.time() + within_s
        while self.quiet():
            if self.unsent_bytes() == 0:
                return True
            if self._loop.time() > deadline:
                raise LinkTimeout("the store did not take the bytes sent to it")
            # There is no event for an empty send queue; it is short to wait for.
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_POLL_S)
        return False

    def unsent_bytes(self) -> int:
        """Bytes in the kernel's send queue that the peer has not acknowledged."""
        answer = fcntl.ioctl(self._sock, termios.TIOCOUTQ, b"\0\0\0\0")
        return int(struct.unpack("i", answer)[0])

    def make_room(self, count: int) -> None:
        """Make the send buffer large enough that `count` bytes leave in one call."""
        size = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        # The kernel counts its own bookkeeping in, and doubles what it is asked for.
        if size < 2 * count:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * count)

    def send_at_once(self, data: bytes) -> memoryview:
        """Send with one system call, without waiting; gives back what did not fit, encrypted."""
        view = memoryview(data if self._tls is None else self._tls.encrypt(data))
        return view[self._send_now(view) :]

    def _send_now(self, view: memoryview) -> int:
        try:
            return self._sock.send(view)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            # What the peer said before it went away may still be readable.
            self._on_readable()
            if not self.arrived:
                self._fail(ConnectionResetError("the store closed the connection"))
            return 0

    async def _wait_writable(self, within_s: float) -> None:
        self._loop.add_writer(self._sock, self._wake)
        self._writing = True
        try:
            await self._wait(within_s)
        finally:
            self._stop_writing()

    def _stop_writing(self) -> None:
        if self._writing:
            self._loop.remove_writer(self._sock)
            self._writing = False

    # --- waiting and ending -------------------------------------------------------------------

    async def _wait(self, within_s: float) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        timer = self._loop.call_later(within_s, _expire, waiter, within_s)
        self._waiter = waiter
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Close in good order. Idempotent."""
        if not self._closed:
            self._pause()
            self._stop_writing()
            self._closed = True
            self._sock.close()

    def abort(self) -> None:
        """Reset the connection: bytes that have not arrived never will (SO_LINGER 0)."""
        if not self._closed:
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.close()

    def break_off(self) -> None:
        """Reset the connection from outside of the task that uses it, which then sees it fail."""
        self.abort()
        self._fail(ConnectionResetError("reset, because a newer token waits for this write"))


def _expire(waiter: asyncio.Future[None], within_s: float) -> None:
    if not waiter.done():
        waiter.set_exception(LinkTimeout(f"nothing came from the store for {within_s:g} s"))


async def connect(host: str, port: int, context: ssl.SSLContext | None, within_s: float) -> Link:
    """Connect, and shake hands where there is a TLS context. Raises `LinkLost`, `LinkTimeout`."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(within_s):
            sock = await _connect_any(loop, host, port)
            tls = None if context is None else await _shake_hands(loop, sock, context, host)
    except TimeoutError as error:
        raise LinkTimeout(f"no connection to {host}:{port} within {within_s:g} s") from error
    except OSError as error:
        raise LinkLost(f"no connection to {host}:{port}: {error}") from error
    return Link(sock, loop, tls)


async def _connect_any(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    failure: OSError = ConnectionError("the name has no address")
    for family, kind, proto, _, address in await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, proto)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


async def _shake_hands(
    loop: asyncio.AbstractEventLoop, sock: socket.socket, context: ssl.SSLContext, host: str
) -> _Tls:
    tls = _Tls(context, host)
    try:
        while True:
            try:
                tls.object.do_handshake()
                break
            except ssl.SSLWantReadError:
                await loop.sock_sendall(sock, tls.outgoing.read())
                data = await loop.sock_recv(sock, _READ_BYTES)
                if not data:
                    raise ConnectionResetError("closed during the TLS handshake") from None
                tls.feed(data)
        await loop.sock_sendall(sock, tls.outgoing.read())
    except BaseException:
        sock.close()
        raise
    return tls
