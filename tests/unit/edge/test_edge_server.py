"""The server: addresses, several listeners, signals, an orderly end."""

import asyncio
import os
import signal
import socket
import time

import httpx
import pytest

from gateway.dialects.http import HttpDialect
from gateway.edge.asgi import DataPlane
from gateway.edge.fronts import Front, Listener
from gateway.edge.limits import EdgeLimits
from gateway.edge.request_ids import RequestIds
from gateway.edge.server import CannotListen, EdgeServer, bind, bound_address
from gateway.model.event import Event
from gateway.model.outcome import Outcome, ReadFailed
from gateway.model.problem import Code, Problem
from gateway.system_clock import SystemClock
from tests.conformance.edge.recording_gateway import own_scope


class Silent:
    def emit(self, event: Event) -> None:
        del event


def serve(names: list[str]) -> EdgeServer:
    """One store per listener; each answers with its own name."""

    def front(name: str) -> Front:
        async def handle(*_: object) -> Outcome:
            return ReadFailed(Problem(Code.NOT_FOUND, name))

        return Front(name, HttpDialect(name, "", None), b"", own_scope, handle)

    sockets = [bind("127.0.0.1", 0) for _ in names]
    listeners = tuple(
        Listener(bound_address(taken), (front(name),))
        for taken, name in zip(sockets, names, strict=True)
    )
    limits, ids = EdgeLimits(), RequestIds()
    plane = DataPlane(
        listeners,
        clock=SystemClock(),
        wall_s=time.time,
        observer=Silent(),
        ids=ids,
        limits=limits,
    )
    return EdgeServer(plane, sockets, limits=limits, ids=ids, observer=Silent())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_two_listeners_one_server_and_a_signal(number: signal.Signals) -> None:
    """Each listener serves its own store; a signal ends in order: stopping, closed, stopped."""
    server = serve(["one", "two"])
    order: list[str] = []
    started = asyncio.Event()

    async def on_stopping() -> None:
        order.append("stopping")
        socket.create_connection(server.addresses[0], 1).close()  # still accepts

    async def on_stopped() -> None:
        order.append("stopped")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(server.addresses[0], 1)

    running = asyncio.create_task(
        server.run(on_started=started.set, on_stopping=on_stopping, on_stopped=on_stopped)
    )
    await asyncio.wait_for(started.wait(), 5)
    async with httpx.AsyncClient() as client:
        for (host, port), name in zip(server.addresses, ["one", "two"], strict=True):
            answer = await client.get(f"http://{host}:{port}/k")
            assert answer.json()["detail"] == name
            assert "server" not in answer.headers
            assert "date" in answer.headers
    os.kill(os.getpid(), number)
    await asyncio.wait_for(running, 5)
    assert order == ["stopping", "stopped"]


def test_a_taken_address_is_told() -> None:
    """The error names the address and the setting."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CannotListen, match=rf"127\.0\.0\.1:{port}.*`listen`"):
            bind("127.0.0.1", port)


def test_an_unknown_host_is_told() -> None:
    """So is a name that does not resolve."""
    with pytest.raises(CannotListen, match="no-such-host"):
        bind("no-such-host.invalid", 0)
