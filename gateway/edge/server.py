"""The server: one uvicorn over all listening sockets, from start to an orderly end.

It stops in the order that loses nothing: readiness first, then no new connections, then the answers
that are under way, and only then is the engine told to leave.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

import uvicorn

from gateway.edge.account import Unread, refused_unread
from gateway.edge.asgi import DataPlane
from gateway.edge.limits import EdgeLimits
from gateway.edge.request_ids import RequestIds
from gateway.edge.strict import strict_protocol
from gateway.edge.tls import ServerTls
from gateway.model.problem import Problem
from gateway.ports.observer import Observer

_BACKLOG: Final = 2048
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class CannotListen(Exception):
    """An address cannot be listened on; the text says which, and what to change."""


def bind(host: str, port: int) -> socket.socket:
    """Take a listening address. Port 0 takes any free one. Raises `CannotListen`."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        taken = socket.socket(family, kind, proto)
    except OSError as error:
        raise CannotListen(f"cannot listen on {host}:{port}: {error}; change `listen`") from error
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        taken.listen(_BACKLOG)
    except OSError as error:
        taken.close()
        text = f"cannot listen on {host}:{port}: {error.strerror}"
        raise CannotListen(f"{text}; change `listen`, or stop what uses it") from error
    taken.setblocking(False)
    return taken


class Sockets:
    """Where listening sockets come from: a supervisor, in its order, or the system."""

    def __init__(self, inherited: Sequence[int] = ()) -> None:
        self._inherited = list(inherited)

    def take(self, host: str, port: int) -> socket.socket:
        """The next inherited socket, or one that is bound here. Raises `CannotListen`."""
        if not self._inherited:
            return bind(host, port)
        taken = socket.socket(fileno=self._inherited.pop(0))
        taken.set_inheritable(False)
        taken.setblocking(False)
        return taken


def bound_address(taken: socket.socket) -> tuple[str, int]:
    """The address a socket is bound to, as connections to it report it."""
    host, port = taken.getsockname()[:2]
    return str(host), int(port)


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handling, which raises the signal again at the end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.accepting.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _nothing() -> None:
    return


class EdgeServer:
    """Serves a data plane on sockets until it is stopped. One use only."""

    def __init__(
        self,
        plane: DataPlane,
        sockets: Sequence[socket.socket],
        *,
        limits: EdgeLimits,
        ids: RequestIds,
        observer: Observer,
        grace_s: int = 30,
        tls: ServerTls | None = None,
    ) -> None:
        def report(problem: Problem, message: Unread) -> str:
            request_id = ids()
            refused_unread(problem, request_id, message, observer)
            return request_id

        self._protocol = strict_protocol(limits, report)
        self._sockets = list(sockets)
        self.addresses = tuple(bound_address(taken) for taken in sockets)
        config = uvicorn.Config(
            plane,
            http=self._protocol,
            ws="none",
            interface="asgi3",
            lifespan="off",
            loop="none",
            root_path="",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_graceful_shutdown=grace_s,
            ssl_context_factory=None if tls is None else lambda *_: tls.context,
        )
        self._server = _Uvicorn(config)
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Begin to stop; a second call no longer waits for answers that are under way."""
        if self._stop.is_set():
            self._server.force_exit = True
        self._stop.set()

    async def run(
        self,
        *,
        on_started: Callable[[], None] = lambda: None,
        on_stopping: Callable[[], Awaitable[None]] = _nothing,
        on_stopped: Callable[[], Awaitable[None]] = _nothing,
        handle_signals: bool = True,
    ) -> None:
        """Serve until `stop` is called or SIGTERM or SIGINT arrives.

        `on_started` is called once connections are accepted, `on_stopping` while they still are
        (readiness), `on_stopped` behind the last answer.
        """
        with self._signals() if handle_signals else contextlib.nullcontext():
            serving = asyncio.create_task(self._server.serve(sockets=self._sockets))
            accepting = asyncio.create_task(self._server.accepting.wait())
            stopping = asyncio.create_task(self._stop.wait())
            try:
                await asyncio.wait({serving, accepting}, return_when=asyncio.FIRST_COMPLETED)
                if serving.done():
                    await serving  # raises what kept it from starting
                on_started()
                await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
                await on_stopping()
                self._protocol.stopping = True
                self._server.should_exit = True
                await serving
                await self._end_the_rest()
            finally:
                accepting.cancel()
                stopping.cancel()
                self._server.should_exit = self._server.force_exit = True
                await asyncio.wait({serving}, timeout=1.0)
            await on_stopped()

    async def _end_the_rest(self) -> None:
        """Wait for the requests that were cancelled at the end of the grace time."""
        state = self._server.server_state
        if state.tasks:
            await asyncio.wait(tuple(state.tasks), timeout=1.0)
        for connection in tuple(state.connections):
            connection.transport.abort()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in _STOP_SIGNALS:
                loop.remove_signal_handler(number)
