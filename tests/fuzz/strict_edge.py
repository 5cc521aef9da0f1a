"""The strict edge without a network: bytes in, and the requests that it would let through.

It runs the served code, `StrictProtocol` and the guard, over a transport and a loop that do
nothing, so that a head takes microseconds instead of a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from gateway.edge.exchange import Exchange
from gateway.edge.guard import GuardRules, guard
from gateway.edge.limits import EdgeLimits
from gateway.edge.strict import StrictProtocol, strict_protocol
from gateway.model.problem import Problem
from gateway.ports.dialect import RawRequest

LIMITS = EdgeLimits()
_RULES = GuardRules(LIMITS.max_head_bytes, LIMITS.max_fields)


def drive(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run what never waits for anything."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise AssertionError("it waits for something that is not there")


@dataclass(frozen=True)
class Message:
    """A request that was let through. `complete` is False when its body did not arrive whole."""

    method: bytes
    target: bytes
    version: bytes
    fields: tuple[tuple[bytes, bytes], ...]
    body: bytes
    complete: bool
    request: RawRequest


class _Handle:
    def cancel(self) -> None:
        pass


class _Loop:
    """A loop in which no time passes."""

    def call_later(self, *_: object) -> _Handle:
        return _Handle()


class _Wire:
    """A transport that takes everything."""

    def __init__(self) -> None:
        self.closing = False
        self.written = bytearray()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 80) if name in ("sockname", "peername") else default

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def _never(scope: object, receive: object, send: object) -> None:
    raise AssertionError("the test answers by itself")


_CONFIG = uvicorn.Config(
    _never, http="httptools", ws="none", lifespan="off", log_config=None, interface="asgi3"
)
_CONFIG.load()
_PROTOCOL = strict_protocol(LIMITS, lambda problem, client: "r")


class _Protocol(_PROTOCOL):  # type: ignore[misc,valid-type]
    def _run(self, exchange: Exchange) -> None:
        """No task: the connection below answers."""


class EdgeConnection:
    """One connection. `messages` are the requests that were let through, in order."""

    def __init__(self) -> None:
        self.wire = _Wire()
        self.messages: list[Message] = []
        self.problems: list[Problem] = []
        self._protocol: StrictProtocol = _Protocol(_CONFIG, ServerState(), {}, _Loop())
        self._protocol.connection_made(self.wire)  # type: ignore[arg-type]
        self._pending: tuple[Exchange, RawRequest, bytearray] | None = None

    def feed(self, data: bytes) -> None:
        """Take a segment, and answer what can be answered."""
        if not self.wire.closing:
            self._protocol.data_received(data)
            self._answer()

    def end(self) -> list[Message]:
        """No more will come: what is not complete is told as such."""
        if self._pending is not None:
            self._tell(complete=False)
        return self.messages

    def _answer(self) -> None:
        while True:
            exchange = self._protocol.exchange
            if exchange is None or exchange.complete:
                return
            if self._pending is None:
                checked = guard(exchange.scope, _RULES, _no_body, request_id="r", arrived_s=0.0)
                if isinstance(checked, Problem):
                    self.problems.append(checked)
                    exchange.keep_alive = False
                    self._finish(exchange)
                    return
                self._pending = (exchange, checked, bytearray())
            if not self._take_body(exchange, self._pending[2]):
                return

    def _take_body(self, exchange: Exchange, body: bytearray) -> bool:
        """Read what is there; True when that was the request's end."""
        while exchange._pieces or exchange.ended or exchange._fault is not None:
            message = drive(exchange.receive())
            if message["type"] == "http.disconnect":
                self._pending = None
            else:
                body += message["body"]
                if message["more_body"]:
                    continue
                self._tell(complete=True)
            self._finish(exchange)
            return True
        return False

    def _tell(self, *, complete: bool) -> None:
        assert self._pending is not None
        exchange, request, body = self._pending
        self._pending = None
        target = request.path + (b"?" + request.query if request.query else b"")
        self.messages.append(
            Message(
                request.method.encode(),
                target,
                exchange.scope["http_version"].encode(),
                tuple(exchange.scope["headers"]),
                bytes(body),
                complete,
                request,
            )
        )

    def _finish(self, exchange: Exchange) -> None:
        if not exchange.ended or exchange.awaits_continue:
            exchange.keep_alive = False
        exchange.complete = True
        self._protocol.exchange_done(exchange)


def _no_body(framing: object) -> Any:
    return framing


def read(pieces: Iterable[bytes], connection: Callable[[], EdgeConnection] = EdgeConnection) -> Any:
    """Send the pieces over a new connection; returns it, ended."""
    used = connection()
    for piece in pieces:
        used.feed(piece)
    used.end()
    return used


def cut(data: bytes, size: int) -> list[bytes]:
    """Cut into segments of a size."""
    return [data[at : at + size] for at in range(0, len(data), size)]
