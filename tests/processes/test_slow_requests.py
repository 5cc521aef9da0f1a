"""The slow-request log of a real gateway: which request was slow, and where its time went."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from gateway.system_clock import SystemClock
from tests.services.gateway_process import GatewayProcess
from tests.services.server_process import wait_until

Start = Callable[..., GatewayProcess]

POLICY = """
[server]
listen = "127.0.0.1:8080"
auth = "none"
[registry]
type = "memory"
[telemetry]
slow_request_ms = {slow_request_ms}
[stores.files]
type = "files"
mount = "/files"
root = "files"
[[rules]]
store = "files"
match = "/files/{{name}}"
scope = "{{name}}"
"""
TOKEN = {"X-Fence-Token": "1"}


def request_line(gateway: GatewayProcess, path: str) -> dict[str, Any]:
    return gateway.wait_for_log(lambda line: line.get("path") == path)


def slow_body(address: str) -> Iterator[socket.socket]:
    """A PUT whose second byte is missing until the generator is asked again."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(
            b"PUT /files/slow HTTP/1.1\r\nHost: h\r\nX-Fence-Token: 1\r\nContent-Length: 2\r\n\r\na"
        )
        yield client
        client.sendall(b"b")
        assert client.recv(4096).startswith(b"HTTP/1.1 20")
        yield client


def test_a_slow_request_tells_where_its_time_went(gateway_process: Start) -> None:
    """A client that dawdles with its body: a warning, with the time in the stage `gate`."""
    gateway = gateway_process(POLICY.format(slow_request_ms=300))
    clock, upload = SystemClock(), slow_body(gateway.url)
    next(upload)
    began_s = clock.boottime_s()
    wait_until(lambda: clock.boottime_s() - began_s > 0.5, 10, "the time of a slow request")
    next(upload)
    line = request_line(gateway, "/files/slow")
    assert line["ms"] >= 300
    assert (line["level"], line["slow"]) == ("warning", True)
    stages_ms = line["stages_ms"]
    assert max(stages_ms, key=stages_ms.__getitem__) == "gate"
    assert {"parse", "admit", "claim", "gate", "upstream", "answer"} <= set(stages_ms)


def test_nothing_is_slow_where_nobody_asks(gateway_process: Start) -> None:
    """`slow_request_ms = 0`: no request is slow, and no line has stages."""
    gateway = gateway_process(POLICY.format(slow_request_ms=0))
    assert httpx.put(f"{gateway.url}/files/a", headers=TOKEN, content=b"x").is_success
    line = request_line(gateway, "/files/a")
    assert line["level"] == "info"
    assert not {"slow", "stages_ms"} & set(line)
