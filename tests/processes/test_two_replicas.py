"""Two gateway processes over one registry: real processes, killed, paused, restarted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.services.gateway_process import ADMIN_KEY, GatewayProcess
from tests.services.registries import SharedRegistry
from tests.services.server_process import wait_until

POLICY = """
[server]
listen = "127.0.0.1:8080"

[registry]
{registry}

[limits]
member_ttl_ms = 900
registry_timeout_ms = 400
lock_timeout_ms = 1_000
drain_timeout_ms = 1_500

[stores.files]
type = "files"
root = "{root}"

[[rules]]
match = "/files/reports/{{team}}/{{rest*}}"
scope = "reports/{{team}}"
"""
Pair = tuple[GatewayProcess, GatewayProcess]


@pytest.fixture
def pair(
    shared_registry: SharedRegistry, tmp_path: Path, gateway_process: Callable[..., GatewayProcess]
) -> Pair:
    """Two replicas over one directory; the first has counted the grace of the new registry."""
    text = POLICY.format(registry=shared_registry.settings, root=tmp_path / "files")
    one, two = gateway_process(text), gateway_process(text)
    wait_until(lambda: put(one, "warm", 1).is_success, 20, "the grace is over")
    wait_until(lambda: put(two, "warm", 1).is_success, 20, "the grace is over")
    return one, two


def put(gateway: GatewayProcess, name: str, token: int) -> httpx.Response:
    url = f"{gateway.store_url('files')}/reports/{name}/x"
    return httpx.put(url, headers={"X-Fence-Token": str(token)}, content=f"{token}", timeout=10)


def code(answer: httpx.Response) -> str:
    return str(answer.json()["code"])


def until_applied(gateway: GatewayProcess, name: str, token: int, deadline_s: float = 20) -> float:
    """Try until the write is applied; only refusals that fail closed may come before."""
    began = time.monotonic()

    def applied() -> bool:
        answer = put(gateway, name, token)
        if answer.is_success:
            return True
        assert code(answer) in {"not_drained", "registry_unavailable", "busy"}, answer.text
        return False

    wait_until(applied, deadline_s, "the write is applied")
    return time.monotonic() - began


def test_a_stale_holder_is_refused_whichever_replica_it_asks(pair: Pair) -> None:
    """The promise over two replicas: what one has admitted, the other refuses below."""
    one, two = pair
    for token in range(2, 12):
        newer, older = (one, two) if token % 2 else (two, one)
        assert put(newer, "eu", token).is_success
        answer = put(older, "eu", token - 1)
        assert (answer.status_code, code(answer)) == (412, "fence_token_stale")
        assert answer.headers["X-Fence-Mark"] == str(token)


def test_no_registry_trip_in_the_steady_state(pair: Pair) -> None:
    """One claim per token and replica: three hundred writes behind it ask the registry nothing."""
    one, _ = pair
    put(one, "eu", 2)
    before = one.metrics()
    url = f"{one.store_url('files')}/reports/eu/y"
    with httpx.Client() as client:
        for _ in range(300):
            client.put(url, headers={"X-Fence-Token": "2"}, content=b"x").raise_for_status()
    after = one.metrics()
    for op in ("claim", "pending", "yield"):
        name = f'fencegate_registry_ops_total{{op="{op}"}}'
        assert after.get(name, 0) == before.get(name, 0), op


def test_the_first_write_of_a_token_is_one_claim(pair: Pair) -> None:
    """Rule 2: where nobody else is registered, the claim carries the yield."""
    one, two = pair
    assert put(one, "eu", 2).is_success
    for token in range(3, 8):
        before = one.metrics()
        assert put(one, "eu", token).is_success
        after = one.metrics()
        names = {
            op: f'fencegate_registry_ops_total{{op="{op}"}}' for op in ("claim", "pending", "yield")
        }
        asked = {op: after.get(name, 0) - before.get(name, 0) for op, name in names.items()}
        assert asked == {"claim": 1, "pending": 0, "yield": 0}
    assert put(two, "eu", 8).is_success
    assert two.metrics()[names["pending"]] > 0, "with another one registered there is a drain"


def test_a_killed_replica_is_waited_out_and_ended(pair: Pair) -> None:
    """Rule 8: its registrations hold a raise back until it is certainly gone, and no longer."""
    one, two = pair
    assert put(one, "eu", 2).is_success
    one.kill()
    took_s = until_applied(two, "eu", 3)
    assert took_s > 0.5, "it was waited for"
    assert two.metrics()["fencegate_evictions_total"] == 1


def test_an_orderly_stop_costs_nobody_a_wait(pair: Pair) -> None:
    """Rule 8: SIGTERM leaves; the next raise is admitted at once."""
    one, two = pair
    assert put(one, "eu", 2).is_success
    assert one.stop() == 0
    assert put(two, "eu", 3).is_success
    assert two.metrics().get("fencegate_evictions_total", 0) == 0


def test_a_paused_replica_wakes_up_and_is_refused(pair: Pair) -> None:
    """SIGSTOP beyond its membership: the newer holder goes on, and the sleeper admits nothing."""
    one, two = pair
    assert put(one, "eu", 2).is_success
    one.pause()
    until_applied(two, "eu", 3)
    one.resume()
    answer = put(one, "eu", 2)
    assert answer.status_code in {412, 503}, answer.text
    wait_until(lambda: put(one, "eu", 2).status_code == 412, 10, "it has joined anew")


def test_a_paused_registry_fails_closed_and_comes_back(
    pair: Pair, shared_registry: SharedRegistry
) -> None:
    """Ready tokens go on until the membership deadline; all else is 503 soon; then it recovers."""
    one, _ = pair
    assert put(one, "eu", 2).is_success
    shared_registry.pause()
    assert put(one, "eu", 2).is_success, "registered: it needs no registry"
    began = time.monotonic()
    answer = put(one, "us", 2)
    assert (answer.status_code, code(answer)) == (503, "registry_unavailable")
    assert answer.headers["Retry-After"]
    assert time.monotonic() - began < 2
    wait_until(lambda: put(one, "eu", 2).status_code == 503, 5, "past the membership deadline")
    shared_registry.resume()
    until_applied(one, "eu", 2, 10)


def test_a_restarted_registry_is_met_with_a_grace(
    pair: Pair, shared_registry: SharedRegistry
) -> None:
    """Rule 9: another life of the server; the marks on disk hold, and writes flow again."""
    one, two = pair
    assert put(one, "eu", 5).is_success
    shared_registry.crash()
    until_applied(two, "eu", 5)
    answer = put(one, "eu", 4)
    assert answer.status_code in {412, 503}
    wait_until(lambda: put(one, "eu", 4).status_code == 412, 10, "stale again, not forgotten")


def test_an_emptied_registry_is_reminded(pair: Pair, shared_registry: SharedRegistry) -> None:
    """Rule 9: a registry that lost everything is raised again by a witness, and it is counted."""
    one, two = pair
    assert put(one, "eu", 5).is_success
    shared_registry.crash(empty=True)

    def stale() -> bool:
        answer = put(two, "eu", 4)
        assert not answer.is_success, "the mark was forgotten, the store's own was not"
        return answer.status_code == 412

    wait_until(stale, 20, "stale once the grace is over")
    counts = [g.metrics().get("fencegate_registry_regressed_total", 0) for g in (one, two)]
    assert sum(counts) >= 1
    until_applied(two, "eu", 6)


def test_a_weak_redis_is_named_at_the_start(
    valkey_url: str, tmp_path: Path, gateway_process: Callable[..., GatewayProcess]
) -> None:
    """An operator learns that raises may be lost, and the settings that prevent it."""
    gateway = gateway_process(
        POLICY.format(registry=f'type = "redis"\nurl = "{valkey_url}"', root=tmp_path / "files")
    )
    warning = next(line for line in gateway.lines() if line.startswith("warning: "))
    assert "appendfsync always" in warning


def test_the_replicas_can_be_listed(pair: Pair) -> None:
    """Both, through any of them; one that stops is gone from the list."""
    one, two = pair

    def listed() -> list[dict[str, Any]]:
        command = [sys.executable, "-m", "gateway", "replicas", "ls", "--json", "--url", one.url]
        done = subprocess.run(
            [*command, "--admin-key", ADMIN_KEY],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    assert sorted(row["answering"] for row in listed()) == [False, True]
    two.stop()
    assert [row["answering"] for row in listed()] == [True]
