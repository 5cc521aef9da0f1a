"""Laws of shadow mode over the wire: everything passes, and what would not is counted and told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.services.gateway_process import GatewayProcess

SHADOW = (Path(__file__).parents[2] / "policies" / "shadow.toml").read_text()
REPORT = "/files/reports/eu/july.txt"
Start = Callable[..., GatewayProcess]
STALE = 'fencegate_shadow_rejections_total{reason="stale",store="files"}'
MISSING = 'fencegate_shadow_rejections_total{reason="required",store="files"}'


@pytest.fixture
def gateway(gateway_process: Start) -> GatewayProcess:
    return gateway_process(SHADOW, env={"FENCEGATE_WORKER_SECRET": "long-enough"})


def put(gateway: GatewayProcess, token: int | None, text: str) -> httpx.Response:
    headers = {} if token is None else {"X-Fence-Token": str(token)}
    return httpx.put(gateway.url + REPORT, content=text, headers=headers, timeout=10)


def test_a_stale_write_passes_and_is_counted_and_told(gateway: GatewayProcess) -> None:
    """The write goes through; header, metric and log line say what would have been refused."""
    assert "x-fence-shadow" not in put(gateway, 5, "five").headers
    stale = put(gateway, 4, "four")
    missing = put(gateway, None, "none")
    assert [stale.status_code, missing.status_code] == [204, 204]
    assert stale.headers["x-fence-outcome"] == "applied"
    assert stale.headers["x-fence-shadow"] == "stale"
    assert missing.headers["x-fence-shadow"] == "required"
    read = httpx.get(gateway.url + REPORT, headers={"X-Fence-Token": "4"})
    assert (read.text, read.headers["x-fence-shadow"]) == ("none", "stale")
    metrics = gateway.metrics()
    assert (metrics[STALE], metrics[MISSING]) == (2, 1)
    line = gateway.wait_for_log(lambda r: r.get("shadow") == "stale")
    assert (line["outcome"], line["token"], line["scope"]) == ("applied", 4, "reports/eu")


def test_no_mark_is_raised(gateway: GatewayProcess) -> None:
    """The registry stays empty: what was watched cannot refuse anybody later."""
    put(gateway, 5, "five")
    answer = httpx.get(f"{gateway.url}/v1/scopes", headers=gateway.admin_headers)
    assert answer.json()["scopes"] == []


def test_the_same_rule_enforced_refuses_what_was_told(gateway_process: Start) -> None:
    """The counts are no fiction: with enforce in place of shadow the same requests are refused."""
    enforced = SHADOW.replace('mode = "shadow"', 'mode = "enforce"')
    gateway = gateway_process(enforced, env={"FENCEGATE_WORKER_SECRET": "long-enough"})
    got = [put(gateway, token, "x").status_code for token in (5, 4, None)]
    assert got == [201, 412, 428]


def test_no_resource_shares_the_scope_of_unfenced_writes(gateway: GatewayProcess) -> None:
    """A file whose name looks like it is a scope of its own: its mark shuts nobody else out."""
    for name in ("~off", "%25off"):
        url = f"{gateway.store_url('files')}/{name}"
        assert httpx.put(url, headers={"X-Fence-Token": "9"}, content=b"x").is_success
    assert put(gateway, 1, "one").is_success
    assert put(gateway, None, "none").is_success
