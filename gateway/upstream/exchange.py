"""One request and its answer over a pooled connection; for writes, with the gate in the middle.

Rule 5: everything but the last bytes is sent and acknowledged, then the gate is asked, then the
last bytes leave in one call, with no await in between. What fails before that was certainly not
applied; what fails after it is unknown here, and settled by whoever knows the write id.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from gateway.engine.holdback import HoldBack, Replayed
from gateway.model.problem import Problem
from gateway.ports.journey import outgoing_fields
from gateway.ports.store import WriteFence
from gateway.upstream.link import Link, LinkLost, LinkTimeout
from gateway.upstream.pool import Pool, PoolFull
from gateway.upstream.response import BadResponse, Head, ResponseReader

MAX_ANSWER_BYTES: Final = 8_388_608
_TRACE_FIELD: Final = re.compile(rb"\r\ntrace(?:parent|state):[^\r\n]*", re.IGNORECASE)
_EARLY_ANSWER_S: Final = 5.0
# Long enough for a server to have read what it was sent.
_HALF_READ_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Message:
    """A request, ready to be sent: the method, and the head with its blank line.

    `chunked`: the head announces a body of unknown length (RFC 9112, section 7.1).
    """

    method: str
    head: bytes = field(repr=False)
    chunked: bool = False

    def traced(self) -> bytes:
        """`head`, with the trace context of the request that it is sent for in place of another.

        The fields are added behind a signature: SigV4 covers only the fields that it names.
        """
        fields = outgoing_fields()
        if not fields:
            return self.head
        head, blank, content = self.head.partition(b"\r\n\r\n")
        lines = b"".join(b"\r\n" + name + b": " + value for name, value in fields)
        return _TRACE_FIELD.sub(b"", head) + lines + blank + content

    def frame(self, piece: bytes) -> bytes:
        """A piece of the body, as the head announced it."""
        if not self.chunked or not piece:
            return piece
        return b"%x\r\n%b\r\n" % (len(piece), piece)

    def end(self, tail: bytes) -> bytes:
        """The last bytes of the body, with what ends it."""
        return self.frame(tail) + b"0\r\n\r\n" if self.chunked else tail


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer. `early`: it came before the request had been sent to its end.

    `cut`: the same behind the gate, where it may tell of an effect all the same.
    """

    head: Head
    body: bytes
    early: bool = False
    cut: bool = False

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.head.status


@dataclass(frozen=True, slots=True)
class Shut:
    """The gate did not let the last bytes pass; the connection was reset."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class NotSent:
    """It failed before the last bytes were sent. `busy`: another try may well succeed."""

    why: str
    busy: bool = False


@dataclass(frozen=True, slots=True)
class AnswerLost:
    """The last bytes were sent and no usable answer came; the connection was reset."""

    why: str


GatedResult = Answer | Shut | NotSent | AnswerLost


class UpstreamFailed(Exception):
    """A read could not be carried out. The text says how it failed."""


class StreamBroken(ConnectionError):
    """The store's answer stopped before its end; what was passed on is not the whole object."""


class Incoming:
    """An answer whose body is still arriving; exhaust it or `aclose()` it.

    Iterating raises `StreamBroken` when the body does not arrive whole.
    """

    __slots__ = ("_link", "_pool", "_reader", "head")

    def __init__(self, head: Head, link: Link, reader: ResponseReader, pool: Pool) -> None:
        self.head = head
        self._link: Link | None = link
        self._reader = reader
        self._pool = pool
        self._release_when_done()

    def __aiter__(self) -> Incoming:
        """Iterate over the body's pieces."""
        return self

    async def __anext__(self) -> bytes:
        """The next piece. Raises `StreamBroken`."""
        while not (piece := self._reader.take()):
            if self._reader.done:
                raise StopAsyncIteration
            if self._link is None:
                raise StreamBroken("the answer was closed before it was read to its end")
            try:
                await _receive(self._link, self._reader, self._pool.timeouts.idle_s)
            except (LinkLost, BadResponse) as error:
                await self.aclose()
                raise StreamBroken(str(error)) from error
            self._release_when_done()
        return piece

    def _release_when_done(self) -> None:
        if self._reader.done and self._link is not None:
            link, self._link = self._link, None
            _release(self._pool, link, self._reader)

    async def read(self, limit_bytes: int = MAX_ANSWER_BYTES) -> bytes:
        """The whole body. Raises `StreamBroken`, also when it is larger than the limit."""
        pieces = []
        size = 0
        async for piece in self:
            pieces.append(piece)
            size += len(piece)
            if size > limit_bytes:
                await self.aclose()
                raise StreamBroken(f"the answer is larger than {limit_bytes} bytes")
        return b"".join(pieces)

    async def aclose(self) -> None:
        """Give the rest up: the connection is reset unless the body was complete."""
        if self._link is not None:
            self._pool.drop(self._link)
            self._link = None


class Client:
    """Carries messages to one store."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._times = pool.timeouts

    async def open(self, message: Message) -> Incoming:
        """Send a request without a body, and answer once the head is here.

        A kept connection that turns out to be closed is replaced once: reads have no effect.
        Raises `UpstreamFailed`.
        """
        for again in (True, False):
            try:
                link = await self._pool.take()
            except (LinkLost, PoolFull) as error:
                raise UpstreamFailed(str(error)) from error
            kept = link.used > 0
            try:
                return await self._open_on(link, message)
            except (LinkLost, BadResponse) as error:
                self._pool.drop(link)
                if not (again and kept):
                    raise UpstreamFailed(str(error)) from error
            except BaseException:
                self._pool.drop(link)
                raise
        raise AssertionError("unreachable")

    async def _open_on(self, link: Link, message: Message) -> Incoming:
        await link.send(message.traced(), self._times.idle_s)
        reader = ResponseReader(message.method)
        await _receive_head(link, reader, self._times.first_byte_s)
        assert reader.head is not None
        return Incoming(reader.head, link, reader, self._pool)

    async def ask(self, message: Message) -> Answer:
        """Send a request without a body and read its whole answer. Raises `UpstreamFailed`."""
        incoming = await self.open(message)
        try:
            body = await incoming.read()
        except StreamBroken as error:
            raise UpstreamFailed(str(error)) from error
        finally:
            await incoming.aclose()
        return Answer(incoming.head, body)

    async def send_half(
        self,
        message: Message,
        part: bytes,
        *,
        reset: bool,
        meanwhile: Callable[[], Awaitable[None]],
    ) -> None:
        """Send the beginning of a body and break off: what the probe asks of a store.

        `meanwhile` is awaited once the store has had the time to read it. Raises `UpstreamFailed`.
        """
        try:
            link = await self._pool.take()
            try:
                await link.send(message.traced() + part, self._times.idle_s)
                await link.settle_sent(self._times.idle_s)
                await asyncio.sleep(_HALF_READ_S)
                await meanwhile()
                if not reset:
                    link.close()
            finally:
                self._pool.drop(link)
        except (LinkLost, PoolFull) as error:
            raise UpstreamFailed(str(error)) from error

    async def send_gated(
        self,
        message: Message,
        body: HoldBack | None,
        fence: WriteFence,
        *,
        long_end: bool = False,
        rest: AsyncIterable[bytes] | None = None,
    ) -> GatedResult:
        """Send a mutation: all but its end, then the gate, then its end.

        Without a body the whole request waits for the gate, for its effect may start with the
        head. A higher mark that waits too long for the answer resets the connection (rule 4).
        `long_end`: the store acts on parts, so all of the body waits for the gate, and its end may
        take more than one call. `rest` is then what follows behind `body`, already at hand.
        Raises `BodyError`, after having reset the connection.
        """
        upload = _Upload(self._pool, message, body or HoldBack(Replayed(b"")), long_end, rest)
        fence.on_haste(upload.reset)
        try:
            return await upload.run(fence.gate)
        except (LinkLost, PoolFull) as error:
            return NotSent(str(error), busy=isinstance(error, PoolFull))
        finally:
            # Whatever has not been given back by now was cut short: nothing more may arrive.
            upload.drop()


class _Upload:
    """One gated request: takes a connection only once there is something to send."""

    __slots__ = ("_body", "_link", "_long_end", "_message", "_pool", "_rest", "_times")

    def __init__(
        self,
        pool: Pool,
        message: Message,
        body: HoldBack,
        long_end: bool,
        rest: AsyncIterable[bytes] | None,
    ) -> None:
        self._pool = pool
        self._times = pool.timeouts
        self._message = message
        self._body = body
        self._long_end = long_end
        self._rest = rest
        self._link: Link | None = None

    async def run(self, gate: Callable[[], Problem | None]) -> GatedResult:
        """Carry it out. Raises `LinkLost` or `PoolFull` before the gate, `BodyError`."""
        unsent = self._message.traced()
        async for piece in self._body:
            link = self._link or await self._take()
            sending = unsent + self._message.frame(piece)
            if not await link.send(sending, self._times.idle_s):
                return await self._early_answer(link)
            unsent = b""
        last = unsent + self._message.end(self._body.tail)
        link = self._link or await self._take()
        if not self._long_end:
            link.make_room(len(last))
        if not await link.settle_sent(self._times.idle_s):
            return await self._early_answer(link)
        problem = gate()
        if problem is not None:
            return Shut(problem)
        rest = link.send_at_once(last)
        if rest and not self._long_end:
            # A part of the end is no whole body: the store cannot have committed it.
            return NotSent("the end of the body did not fit into the send buffer", busy=True)
        return await self._answer(link, rest)

    async def _take(self) -> Link:
        self._link = await self._pool.take()
        return self._link

    async def _early_answer(self, link: Link) -> GatedResult:
        reader = ResponseReader(self._message.method)
        try:
            body = await self._read(link, reader, _EARLY_ANSWER_S)
        except (LinkLost, BadResponse) as error:
            return NotSent(f"the store broke off the upload: {error}")
        assert reader.head is not None
        return Answer(reader.head, body, early=True)

    async def _answer(self, link: Link, unsent: memoryview) -> GatedResult:
        reader = ResponseReader(self._message.method)
        try:
            whole = await self._send_on(link, unsent)
            body = await self._read(link, reader, self._times.first_byte_s)
            if reader.until_close:
                # Nothing but its length tells a whole answer from a cut one (RFC 9112, 6.3).
                raise BadResponse("it answered a write without saying where its answer ends")
        except (LinkLost, BadResponse) as error:
            self.drop()
            return AnswerLost(str(error))
        if whole:
            self._link = None
            _release(self._pool, link, reader)
        assert reader.head is not None
        return Answer(reader.head, body, cut=not whole)

    async def _send_on(self, link: Link, unsent: memoryview) -> bool:
        """Send what is left behind the gate. False: the store spoke before it had all of it."""
        if unsent and not await link.send_rest(unsent, self._times.idle_s):
            return False
        if self._rest is not None:
            async for piece in self._rest:
                if not await link.send(piece, self._times.idle_s):
                    return False
        return True

    async def _read(self, link: Link, reader: ResponseReader, first_byte_s: float) -> bytes:
        await _receive_head(link, reader, first_byte_s)
        pieces = [reader.take()]
        size = len(pieces[0])
        while not reader.done:
            await _receive(link, reader, self._times.idle_s)
            piece = reader.take()
            size += len(piece)
            if size > MAX_ANSWER_BYTES:
                raise BadResponse("the answer to a write is too large")
            pieces.append(piece)
        return b"".join(pieces)

    def reset(self) -> None:
        """Break the exchange off; whoever waits for its answer learns that it is lost."""
        if self._link is not None:
            self._link.break_off()

    def drop(self) -> None:
        """Reset the connection, if one was taken and not given back."""
        if self._link is not None:
            self._pool.drop(self._link)
            self._link = None


async def _receive_head(link: Link, reader: ResponseReader, within_s: float) -> None:
    """Receive until the head is complete: all of it has the time, however it drips."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while reader.head is None:
        left_s = deadline - loop.time()
        if left_s <= 0:
            raise LinkTimeout(f"the head of the answer was not complete within {within_s:g} s")
        await _receive(link, reader, left_s)


async def _receive(link: Link, reader: ResponseReader, within_s: float) -> None:
    data = await link.receive(within_s)
    if data:
        reader.feed(data)
    else:
        reader.feed_eof()


def _release(pool: Pool, link: Link, reader: ResponseReader) -> None:
    if reader.reusable and not link.arrived:
        pool.give_back(link)
    else:
        pool.drop(link)
