"""The body of one request over ASGI `receive` (RFC 9112, sections 6 and 8).

It ends cleanly only when the whole message arrived: a client that disconnects, stalls or sends
other than it announced raises. The last bytes are held back until the message is known to be
complete, so that a broken end (a trailer, a bad chunk) still prevents the write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from gateway.edge.asgi_types import Message, Receive
from gateway.model.problem import Code, Problem
from gateway.ports.body import BodyError

PROBLEM_KEY: Final = "fencegate.problem"
"""Key of an `http.disconnect` message that carries what is wrong with the rest of the body."""

_GONE: Final = Problem(
    Code.REQUEST_MALFORMED,
    "the client closed the connection before its body was complete; nothing was written",
    close=True,
)


def body_too_large(max_bytes: int) -> Problem:
    """The refusal of a body above its limit."""
    text = f"the body is larger than the {max_bytes} bytes that are allowed here"
    return Problem(Code.BODY_TOO_LARGE, text, close=True)


class RequestBody:
    """Iterates over the pieces of one request's body, once.

    `length` is Content-Length, 0 without a body, None when chunked. `received` counts what has
    arrived. `announced` tells that the client waits for `100 Continue`, which the server sends
    when the body is first asked for.
    """

    __slots__ = ("_announced", "_idle_s", "_max", "_receive", "_used", "length", "received")

    def __init__(
        self,
        receive: Receive,
        length: int | None,
        *,
        announced: bool = False,
        max_bytes: int | None = None,
        idle_timeout_s: float = 30.0,
    ) -> None:
        self.length = length
        self.received = 0
        self._receive = receive
        self._announced = announced
        self._max = max_bytes
        self._idle_s = idle_timeout_s
        self._used = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces in order. Raises `BodyError`; RuntimeError when read a second time."""
        if self._used:
            raise RuntimeError("a request body can be read once")
        self._used = True
        return self._pieces()

    async def _pieces(self) -> AsyncIterator[bytes]:
        if self._max is not None and self.length is not None and self.length > self._max:
            raise BodyError(body_too_large(self._max))
        if self.length == 0 and not self._announced:
            return
        held = b""
        more = True
        while more:
            message = await self._next()
            piece: bytes = message.get("body", b"")
            more = message.get("more_body", False)
            if not piece:
                continue
            self._count(len(piece))
            if held:
                yield held
            # With a known length, only its last byte decides whether the message is complete.
            held = piece
            if more and self.length is not None and self.received < self.length:
                yield held
                held = b""
        if self.length is not None and self.received != self.length:
            raise BodyError(_GONE)
        if held:
            yield held

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout(self._idle_s):
                message = await self._receive()
        except TimeoutError:
            text = f"no byte of the body arrived for {self._idle_s:g} s; nothing was written"
            raise BodyError(Problem(Code.REQUEST_TIMEOUT, text, close=True)) from None
        if message["type"] == "http.request":
            return message
        problem = message.get(PROBLEM_KEY)
        raise BodyError(problem if isinstance(problem, Problem) else _GONE)

    def _count(self, size: int) -> None:
        self.received += size
        if self.length is not None and self.received > self.length:
            text = "the body is longer than its Content-Length"
            raise BodyError(Problem(Code.REQUEST_MALFORMED, text, close=True))
        if self._max is not None and self.received > self._max:
            raise BodyError(body_too_large(self._max))
