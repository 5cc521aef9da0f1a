"""The gateway as the tests start it: a real process, found by its policy document alone."""

import signal
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.services.gateway_process import GatewayProcess, with_free_ports
from tests.services.server_process import accepts_connections

POLICY = """
[server]
listen = "127.0.0.1:8080"

[registry]
type = "sqlite"

[stores.files]
type = "files"
mount = "/files"
root = "files"

[[rules]]
match = "/files/reports/{team}/{rest*}"
scope = "reports/{team}"
"""

StartGateway = Callable[..., GatewayProcess]


def put(gateway: GatewayProcess, path: str, token: int | None) -> httpx.Response:
    headers = {} if token is None else {"X-Fence-Token": str(token)}
    return httpx.put(gateway.store_url("files") + path, content=b"x", headers=headers, timeout=10)


def test_a_document_listens_on_free_ports() -> None:
    """Each listen value gets a port of its own; nothing else of the document changes."""
    document = (
        'listen = "127.0.0.1:8080"\n[stores.o]\n  listen = "127.0.0.1:9000" # s3\nx = ":9000"\n'
    )
    changed = with_free_ports(document)
    assert changed.count("127.0.0.1:") == 2
    assert "8080" not in changed
    assert changed.splitlines()[2].endswith('" # s3')
    assert changed.splitlines()[3] == 'x = ":9000"'
    ports = {line.split(":")[1].split('"')[0] for line in changed.splitlines() if "listen" in line}
    assert len(ports) == 2


def test_a_gateway_is_ready_when_started_and_gone_when_stopped(
    gateway_process: StartGateway,
) -> None:
    """The first request works at once; SIGTERM ends the process and frees its port."""
    gateway = gateway_process(POLICY)
    assert put(gateway, "/reports/a/1", 2).is_success
    assert gateway.stop() in (0, -signal.SIGTERM)
    assert not accepts_connections(httpx.URL(gateway.url).port or 0)


def test_three_answers_on_the_wire(gateway_process: StartGateway) -> None:
    """Current token: written. Lower token on another object of the scope: 412. No token: 428."""
    gateway = gateway_process(POLICY)
    assert put(gateway, "/reports/a/1", 2).is_success
    stale, missing = put(gateway, "/reports/a/2", 1), put(gateway, "/reports/a/1", None)
    assert (stale.status_code, stale.json()["code"]) == (412, "fence_token_stale")
    assert (missing.status_code, missing.json()["code"]) == (428, "fence_token_required")
    rejections = [name for name in gateway.metrics() if name.startswith("fencegate_rejections")]
    assert rejections


@pytest.mark.parametrize("end", [GatewayProcess.stop, GatewayProcess.kill])
def test_a_mark_outlives_its_process(
    gateway_process: StartGateway, end: Callable[[GatewayProcess], object]
) -> None:
    """After a stop as after a kill the same data refuses the same stale token."""
    gateway = gateway_process(POLICY)
    assert put(gateway, "/reports/a/1", 2).is_success
    end(gateway)
    gateway.start()
    assert put(gateway, "/reports/a/1", 1).status_code == 412


def test_a_paused_gateway_answers_when_it_runs_again(gateway_process: StartGateway) -> None:
    """Paused, it does not answer; resumed, it does."""
    gateway = gateway_process(POLICY)
    gateway.pause()
    with pytest.raises(httpx.TimeoutException):
        httpx.get(f"{gateway.url}/healthz", timeout=0.5)
    gateway.resume()
    assert httpx.get(f"{gateway.url}/healthz", timeout=10).is_success


def test_a_document_that_is_wrong_ends_the_start_with_its_error(tmp_path: Path) -> None:
    """A start that fails shows what the gateway said, and names the setting."""
    gateway = GatewayProcess(POLICY.replace("[registry]", "[regystry]"), tmp_path)
    with pytest.raises(RuntimeError, match="regystry"):
        gateway.start()
