"""A POST to an HTTP origin whose answer is lost: nobody can tell, so nobody sends it twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from tests.services.gateway_process import GatewayProcess
from tests.services.relay import Relay

POLICY = """
[server]
listen = "127.0.0.1:8080"
[registry]
type = "memory"
[limits]
upstream_connect_timeout_ms = 500
upstream_first_byte_timeout_ms = 700
[stores.api]
type = "http"
endpoint = "http://127.0.0.1:{port}"
"""


class CountingOrigin(ThreadingHTTPServer):
    """Takes orders; each POST is one more."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Order)
        self.orders: list[bytes] = []


class _Order(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CountingOrigin

    def do_POST(self) -> None:
        self.server.orders.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(201)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("content-length", "0")
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815 - the name that the server looks for

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def origin() -> Iterator[CountingOrigin]:
    server = CountingOrigin()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_an_unknown_post_is_not_repeated(
    gateway_process: Callable[..., GatewayProcess], origin: CountingOrigin
) -> None:
    """The retry is 504 again and the origin sees one order; what was answered is replayed."""
    relay = Relay(origin.server_port)
    gateway = gateway_process(POLICY.format(port=relay.port))
    url = gateway.store_url("api") + "/orders"

    def post(content: bytes, key: str, query: str = "") -> httpx.Response:
        fields = {"X-Fence-Token": "1", "Idempotency-Key": key}
        return httpx.post(url + query, content=content, headers=fields, timeout=20)

    relay.lose_answers_from(b"lose-me")
    lost = post(b"lose-me", "order-1")
    assert (lost.status_code, lost.headers["x-fence-outcome"]) == (504, "unknown")
    relay.heal()
    again = post(b"lose-me", "order-1")
    assert (again.status_code, again.headers["x-fence-outcome"]) == (504, "unknown")
    assert "not sent again" in again.text
    assert origin.orders == [b"lose-me"]

    first, second = post(b"fine", "order-2"), post(b"fine", "order-2")
    assert (first.status_code, first.text) == (second.status_code, second.text) == (201, "ok")
    assert second.headers["x-fence-replay"] == "1"
    assert post(b"longer", "order-2").status_code == 422
    assert post(b"fine", "order-2", "?express=1").status_code == 422
    assert origin.orders == [b"lose-me", b"fine"]
    relay.close()
