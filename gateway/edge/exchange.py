"""One request and its answer on a connection: the ASGI conversation (ASGI 3.0, "HTTP").

It differs from the server's own cycle where a gateway must be stricter: a complete answer leaves in
one write, an answer that overtakes its request's body closes the connection gently, HTTP/1.0 never
gets chunks, and a broken answer never ends cleanly.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable
from typing import Any, Final, Protocol

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from gateway.edge.asgi_types import App, Message, Scope
from gateway.edge.body import PROBLEM_KEY
from gateway.model.problem import Problem

_log: Final = logging.getLogger("fencegate.edge")
_BAD_FIELD: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_BODYLESS: Final = frozenset({204, 304})
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

Field = tuple[bytes, bytes]


class ClientGone(OSError):
    """The client closed the connection: nobody is there to be answered."""


class Connection(Protocol):
    """What an exchange needs of the connection that it runs on."""

    transport: asyncio.Transport
    flow: FlowControl

    def default_fields(self) -> list[Field]:
        """Fields of every answer (Date)."""
        ...

    def exchange_done(self, exchange: Exchange) -> None:
        """Go on to the next request, or close."""
        ...


class Exchange:
    """Receives one request's body and sends its answer."""

    __slots__ = (
        "_bodyless",
        "_connection",
        "_delivered",
        "_fault",
        "_head",
        "_left",
        "_pieces",
        "_waiter",
        "awaits_continue",
        "chunked",
        "complete",
        "disconnected",
        "ended",
        "keep_alive",
        "scope",
        "started",
        "unread",
    )

    def __init__(
        self, connection: Connection, scope: Scope, *, keep_alive: bool, awaits_continue: bool
    ) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        self.awaits_continue = awaits_continue
        self.ended = False
        self.unread = 0
        self.disconnected = False
        self.started = False
        self.complete = False
        self.chunked = False
        self._connection = connection
        self._pieces: list[bytes] = []
        self._delivered = False
        self._fault: Problem | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._head: bytes | None = None
        self._left: int | None = None
        self._bodyless = False

    # --- what the connection tells ------------------------------------------------------------
    def feed(self, piece: bytes) -> None:
        """Take a piece of the body; stop reading when nobody has asked for it for long."""
        if self.complete:
            return
        self._pieces.append(piece)
        self.unread += len(piece)
        if self.unread > HIGH_WATER_LIMIT:
            self._connection.flow.pause_reading()
        self._wake()

    def end(self) -> None:
        """The request's message is complete."""
        self.ended = True
        self._wake()

    def fail(self, problem: Problem) -> None:
        """The rest of the request's message is malformed; no more of it will come."""
        self._fault = problem
        self.keep_alive = False
        self._wake()

    def lose(self) -> None:
        """The connection is gone."""
        self.disconnected = True
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # --- the server interface -----------------------------------------------------------------
    async def run(self, app: App) -> None:
        """Let the app answer. What it leaves unanswered or half answered breaks the connection."""
        try:
            await app(self.scope, self.receive, self.send)
        except ClientGone:
            pass
        except Exception:
            _log.exception("the data plane failed while it answered a request")
        finally:
            if not self.complete and not self.disconnected:
                self._connection.transport.abort()

    async def receive(self) -> Message:
        """Give the next piece of the body, or `http.disconnect` when no more of it will come."""
        if self.awaits_continue:
            self.awaits_continue = False
            if not self._connection.transport.is_closing():
                self._connection.transport.write(_CONTINUE)
        while not (self._pieces or self._settled()):
            self._connection.flow.resume_reading()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._broken() or self._delivered or self.complete:
            return {"type": "http.disconnect", PROBLEM_KEY: self._fault}
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        self.unread = 0
        self._delivered = self.ended
        return {"type": "http.request", "body": body, "more_body": not self.ended}

    def _broken(self) -> bool:
        return not self.ended and (self.disconnected or self._fault is not None)

    def _settled(self) -> bool:
        """True when `receive` has something to tell although no piece is there."""
        if self.disconnected or self.complete or self._fault is not None:
            return True
        return self.ended and not self._delivered

    async def send(self, message: Message) -> None:
        """Send a part of the answer. Raises `ClientGone`; RuntimeError for what is not HTTP."""
        if self._connection.flow.write_paused and not self.disconnected:
            await self._connection.flow.drain()
        if self.disconnected:
            raise ClientGone("the client has closed the connection")
        if message["type"] == "http.response.start" and not self.started:
            self.started = True
            self._head = self._start(message["status"], message.get("headers", ()))
        elif message["type"] == "http.response.body" and self.started and not self.complete:
            self._write(message.get("body", b""), message.get("more_body", False))
        else:
            raise RuntimeError(f"{message['type']} is out of order")

    def _start(self, status: int, fields: Iterable[Field]) -> bytes:
        if not self.ended or self.awaits_continue:
            self.keep_alive = False  # the rest of the request would be read as the next one
        parts: list[bytes] = [STATUS_LINE[status]]
        for name, value in self._connection.default_fields():
            parts += (name, b": ", value, b"\r\n")
        for name, value in fields:
            if name == b"connection":
                self.keep_alive = self.keep_alive and b"close" not in value.lower()
                continue
            if name == b"content-length":
                self._left = int(value)
            if _BAD_FIELD.search(value) or _BAD_FIELD.search(name):
                raise RuntimeError(f"field {name!r} holds a byte that would split the answer")
            parts += (name, b": ", value, b"\r\n")
        self._bodyless = status in _BODYLESS or self.scope["method"] == "HEAD"
        if self._left is None and not self._bodyless:
            self.chunked = self.scope["http_version"] == "1.1"
            if self.chunked:
                parts.append(b"transfer-encoding: chunked\r\n")
            else:
                self.keep_alive = False  # the end of the connection is the end of the body
        parts.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        return b"".join(parts)

    def _write(self, body: bytes, more: bool) -> None:
        if self._bodyless:
            body = b""
        elif self.chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body = body if more else body + b"0\r\n\r\n"
        elif self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (self._left > 0 and not more):
                raise RuntimeError("the answer's body is not as long as its Content-Length")
        if self._head is not None:
            body = self._head + body
            self._head = None
        if body:
            self._connection.transport.write(body)
        if not more:
            self.complete = True
            self._wake()
            self._connection.exchange_done(self)


def plain_scope(**values: Any) -> Scope:
    """A scope with what every HTTP request has."""
    return {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, **values}
