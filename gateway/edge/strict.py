"""The connection: uvicorn's httptools protocol, as strict as RFC 9112 and the gateway's own limits.

Theory. llhttp refuses most malformed framing by itself. What it lets through and ASGI cannot see is
refused here, while the bytes are parsed: a target that is not in origin form or carries `#`, a
trailer field, a head beyond its budget. A request starts only after the piece that completed its
head was parsed to its end without an error, so a message that is malformed within one segment
reaches nobody. Malformed bytes behind a request that is being answered are not answered at all:
that answer is the last one on its connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from gateway.dialects.problem_json import problem_reply
from gateway.edge.account import Unread
from gateway.edge.exchange import Exchange, Field, plain_scope
from gateway.edge.head_budget import HeadBudget
from gateway.edge.limits import EdgeLimits
from gateway.edge.refusals import (
    Refusal,
    cut_short,
    head_late,
    head_too_large,
    malformed,
    problem_of,
)
from gateway.edge.upgrade import body_parser
from gateway.model.problem import Problem

Report = Callable[[Problem, Unread], str]
"""Takes a refusal of the connection itself and what is known; returns the request id."""


_LAST_REQUEST_S: Final = 1.0


class StrictProtocol(HttpToolsProtocol):
    """One connection. `limits` and `report` are set by `strict_protocol`."""

    limits: ClassVar[EdgeLimits] = EdgeLimits()
    report: ClassVar[Report]
    stopping: ClassVar[bool] = False

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.url = b""
        self.exchange: Exchange | None = None
        self.waiting: list[Exchange] = []
        self._fresh: Exchange | None = None
        self._head = HeadBudget(self.limits, self.loop, self._head_late)
        self._upgrading = False
        self._deaf = False
        self._half_closed = False
        self._stopping = False
        self._lingering = False
        self._dropped = 0
        self._write_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None

    # --- the transport --------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for the first request."""
        super().connection_made(transport)
        self._wait_idle()
        if type(self).stopping:  # accepted in the moment of the stop
            self._await_last()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is being answered that nobody waits for it any more."""
        self.connections.discard(self)
        self._unset_keepalive_if_required()
        self._head.stop()
        for timer in (self._write_timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        if self.exchange is not None:
            self.exchange.lose()
        self.waiting.clear()
        self.flow.resume_writing()
        self.parser = None  # type: ignore[assignment]  # as the base class does: no more input

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep a half-closed connection open while a request on it is being answered.

        One whose body is cut short is told so: its client may still read.
        """
        self._half_closed = True
        last = self._last()
        if self._lingering or last is None or last.complete or self.scheme == "https":
            return False
        last.keep_alive = False
        if not last.ended and not self._deaf:
            last.fail(cut_short())
        return True

    def pause_writing(self) -> None:
        """Give a client that does not read its answer a limited time."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(
            self.limits.body_idle_timeout_s, self.transport.abort
        )

    def resume_writing(self) -> None:
        """The client has read on."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, then start the request whose head it completed."""
        self._unset_keepalive_if_required()
        if self._lingering or self._deaf:
            self._drop(len(data))
            return
        was_open = self._head.open
        try:
            self._parse(data)
        except httptools.HttpParserError as error:
            self._refuse(problem_of(error, data))
            return
        self._start_fresh()
        if not self._head.after_piece(len(data), was_open=was_open):
            self._refuse(self._too_large())

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade()
            rest = data[upgrade.args[0] :]
            if rest:
                self._parse(rest)

    def _ignore_upgrade(self) -> None:
        self._upgrading = False
        parser = body_parser(self.headers, self.on_body, self.on_message_complete)
        if parser is None:
            self.on_message_complete()
        else:
            self._current().keep_alive = False
            self.parser = parser
            self.url = b""  # the new parser knows another method

    # --- parser callbacks -----------------------------------------------------------------------
    def on_message_begin(self) -> None:
        """A request line begins."""
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._head.begin()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target: in origin form (RFC 9112, 3.2.1), without fragment.

        Only the first piece must start with a slash: a target arrives in as many as TCP segments.
        """
        if not self.url and not url.startswith(b"/"):
            raise Refusal(malformed('the request target must start with "/"'))
        target, fragment, _ = url.partition(b"#")
        self.url += target
        if fragment:
            raise Refusal(malformed('a request target has no fragment: escape "#" as %23'))
        if not self._head.spend(len(url)):
            raise Refusal(self._too_large())

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one field. Behind the head it is a trailer, and the parser does not tell them."""
        if not self._head.open:
            raise Refusal(malformed("trailer fields are not accepted: send them in the head"))
        if not self._head.spend_field(len(name) + len(value) + 4):
            raise Refusal(self._too_large())
        if value.endswith((b" ", b"\t")):
            value = value.rstrip(b" \t")
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Make an exchange of it, which starts once this piece is parsed to its end."""
        self._head.finish()
        self._upgrading = self.parser.should_upgrade()
        version = self.parser.get_http_version()
        path, _, query = self.url.partition(b"?")
        text = path.decode("latin-1")
        scope = plain_scope(
            http_version=version,
            method=self.parser.get_method().decode("ascii"),
            scheme=self.scheme,
            server=self.server,
            client=self.client,
            root_path="",
            path=unquote(text) if "%" in text else text,
            raw_path=path,
            query_string=query,
            headers=self.headers,
        )
        exchange = Exchange(
            self,
            scope,
            keep_alive=version == "1.1" and self.parser.should_keep_alive() and not self._stopping,
            awaits_continue=version == "1.1" and self.expect_100_continue,
        )
        if self._fresh is None and (self.exchange is None or self.exchange.complete):
            self._fresh = exchange
        else:
            self.flow.pause_reading()
            self.waiting.append(exchange)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._current().feed(body)

    def on_message_complete(self) -> None:
        """The message is complete; what follows is the next one's head."""
        if not self._upgrading:
            self._head.open = True
            self.url = b""
            self._current().end()

    # --- exchanges ------------------------------------------------------------------------------
    def _last(self) -> Exchange | None:
        return self.waiting[-1] if self.waiting else self._fresh or self.exchange

    def _current(self) -> Exchange:
        """The exchange whose message is being parsed."""
        last = self._last()
        assert last is not None
        return last

    def _start_fresh(self) -> None:
        if self._fresh is not None:
            self.exchange, self._fresh = self._fresh, None
            self._run(self.exchange)

    def _run(self, exchange: Exchange) -> None:
        task = self.loop.create_task(exchange.run(self.app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def default_fields(self) -> list[Field]:
        """Fields of every answer: the date, kept current by the server."""
        return self.server_state.default_headers

    def exchange_done(self, exchange: Exchange) -> None:
        """Close gently, start the next request, or wait for one."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if not exchange.keep_alive:
            self._linger()
        elif self.waiting:
            self.exchange = self.waiting.pop(0)
            self._run(self.exchange)
        else:
            self.flow.resume_reading()
            if not self._head.running:
                self._wait_idle()

    # --- refusals -------------------------------------------------------------------------------
    def _too_large(self) -> Problem:
        return head_too_large(self.limits.max_head_bytes, self.limits.max_fields)

    def _head_late(self) -> None:
        self._refuse(head_late(self.limits))

    def _refuse(self, problem: Problem) -> None:
        """Stop parsing. Answer only when no other answer is under way or due before it."""
        self._head.stop()
        self._deaf = True
        self._drop_unfinished(problem)
        self._start_fresh()
        last = self._last()
        if last is None or last.complete:
            self._answer(problem)
        else:
            last.keep_alive = False

    def _drop_unfinished(self, problem: Problem) -> None:
        """Take out the request that the malformed bytes belong to, or fail it if it runs."""
        if self._head.open:
            return
        if self.waiting:
            self.waiting.pop()
        elif self._fresh is not None:
            self._fresh = None
        elif self.exchange is not None and not self.exchange.ended:
            self.exchange.fail(problem)

    def _answer(self, problem: Problem) -> None:
        if self.transport.is_closing():
            return
        request_id = type(self).report(problem, self._unread())
        reply = problem_reply(problem, request_id)
        assert isinstance(reply.body, bytes)
        fields = [
            *self.server_state.default_headers,
            *reply.fields,
            (b"content-length", str(len(reply.body)).encode("ascii")),
            (b"x-request-id", request_id.encode("ascii")),
            (b"x-fence-outcome", b"refused"),
            (b"connection", b"close"),
        ]
        lines = b"".join(b"%b: %b\r\n" % field for field in fields)
        self.transport.write(STATUS_LINE[reply.status] + lines + b"\r\n" + reply.body)
        self._linger()

    def _unread(self) -> Unread:
        """What is known of the message that is being parsed. The method ends before the target."""
        if not self.url:
            return Unread(self.client)
        path = self.url.partition(b"?")[0]
        return Unread(self.client, self.parser.get_method().decode("ascii"), path)

    # --- the end --------------------------------------------------------------------------------
    def _wait_idle(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            self.limits.keep_alive_timeout_s, self.timeout_keep_alive_handler
        )

    def _linger(self) -> None:
        """Close gently: half-close, then read and drop for a while, so that the answer is found.

        An abrupt close with unread bytes would reset the connection and take the answer with it.
        """
        self._lingering = True
        self._dropped = 0
        self.waiting.clear()
        self._head.stop()
        self._unset_keepalive_if_required()
        if self._half_closed:
            self.transport.close()
            return
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self._linger_timer = self.loop.call_later(
            self.limits.linger_timeout_s, self.transport.close
        )

    def _drop(self, size: int) -> None:
        self._dropped += size
        if self._dropped <= self.limits.linger_max_bytes:
            return
        if self._lingering:
            self.transport.close()
        else:
            self.flow.pause_reading()

    def shutdown(self) -> None:
        """The server stops: finish what is being answered, close what is idle."""
        if self._lingering:
            return
        if self.exchange is None or (self.exchange.complete and self._head.running):
            self._await_last()
        elif self.exchange.complete:
            self.transport.close()
        else:
            self.exchange.keep_alive = False

    def _await_last(self) -> None:
        """Give a client that has just connected the time to be answered one request."""
        self._stopping = True
        self._linger_timer = self.loop.call_later(_LAST_REQUEST_S, self._close_idle)

    def _close_idle(self) -> None:
        if self.exchange is None or self.exchange.complete:
            self.transport.close()


def strict_protocol(limits: EdgeLimits, report: Report) -> type[StrictProtocol]:
    """Make the protocol class for `uvicorn.Config(http=…)` with these limits."""
    members = {"limits": limits, "report": staticmethod(report)}
    return type("ConfiguredStrictProtocol", (StrictProtocol,), members)
