"""Scopes as an operator handles them: the command, resets, lost counters, tokens in two hands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.processes.test_two_replicas import POLICY as REPLICA
from tests.services.gateway_process import ADMIN_KEY, GatewayProcess
from tests.services.registries import SharedRegistry
from tests.services.server_process import wait_until

CHECKOUT = Path(__file__).parents[2]
QUICKSTART = (CHECKOUT / "policies" / "quickstart.toml").read_text()
Start = Callable[..., GatewayProcess]
Pair = tuple[GatewayProcess, GatewayProcess]


@pytest.fixture
def gateway(gateway_process: Start) -> GatewayProcess:
    return gateway_process(QUICKSTART)


@pytest.fixture
def pair(shared_registry: SharedRegistry, tmp_path: Path, gateway_process: Start) -> Pair:
    """Two replicas over one directory; both have counted the grace of the new registry."""
    text = REPLICA.format(registry=shared_registry.settings, root=tmp_path / "files")
    one, two = gateway_process(text), gateway_process(text)
    for replica in (one, two):
        wait_until(lambda g=replica: put(g, "warm", 1).is_success, 20, "the grace is over")  # type: ignore[misc]
    return one, two


def put(
    gateway: GatewayProcess, team: str, token: int, holder: str | None = None
) -> httpx.Response:
    headers = {"X-Fence-Token": str(token)}
    if holder is not None:
        headers["X-Fence-Holder"] = holder
    url = f"{gateway.store_url('files')}/reports/{team}/x"
    return httpx.put(url, headers=headers, content=f"{token}", timeout=10)


def lake(gateway: GatewayProcess, token: int):
    made = boto3.client(
        "s3",
        endpoint_url=gateway.store_url("objects"),
        region_name="us-east-1",
        aws_access_key_id="demo",
        aws_secret_access_key="demo-secret",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}),
    )
    made.meta.events.register(
        "before-sign.s3",
        lambda request, **_: request.headers.add_header("X-Fence-Token", str(token)),
    )
    return made


def code(answer: httpx.Response) -> str:
    return str(answer.json()["code"])


def run(
    gateway: GatewayProcess, *arguments: str, key: str | None = ADMIN_KEY
) -> subprocess.CompletedProcess[str]:
    """`fencegate scopes …` against this gateway."""
    env = {n: v for n, v in os.environ.items() if not n.startswith("FENCEGATE_")}
    env |= {"PYTHONPATH": str(CHECKOUT), "FENCEGATE_URL": gateway.url}
    if key is not None:
        env["FENCEGATE_ADMIN_KEY"] = key
    return subprocess.run(
        [sys.executable, "-m", "gateway", "scopes", *arguments],
        cwd=gateway.directory,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def mark(gateway: GatewayProcess, scope: str) -> tuple[int, int]:
    """Era and token, as the control API tells them."""
    answer = httpx.get(
        f"{gateway.url}/v1/scopes", params={"name": scope}, headers=gateway.admin_headers
    )
    return answer.json()["era"], answer.json()["token"]


def test_the_command_lists_shows_seals_and_resets(gateway: GatewayProcess) -> None:
    """An operator needs no curl: every step says what it did, and JSON where it is asked for."""
    for team in ("eu", "us"):
        assert put(gateway, team, 4).is_success
    listed = run(gateway, "ls", "reports/", "--json")
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    assert [(r["scope"], r["token"]) for r in rows] == [("reports/eu", 4), ("reports/us", 4)]
    assert run(gateway, "ls", "--limit", "1").stdout.count("\n") == 1
    shown = run(gateway, "show", "reports/eu")
    assert "mark      4" in shown.stdout
    assert "next      5 or above" in shown.stdout
    assert run(gateway, "seal", "reports/eu", "--token", "9").returncode == 0
    assert code(put(gateway, "eu", 8)) == "fence_token_stale"
    done = run(gateway, "reset", "reports/eu", "--reason", "drill", "--json")
    assert json.loads(done.stdout)["era"] == 2, done.stderr
    assert put(gateway, "eu", 1).is_success


def test_more_scopes_than_a_page_are_all_listed(gateway: GatewayProcess) -> None:
    """The command follows the pages to their end, and tells no scope twice."""
    teams = [f"t{n:04}" for n in range(620)]
    with httpx.Client(headers=gateway.admin_headers, timeout=30) as client:
        for team in teams:
            body = {"scope": f"reports/{team}", "token": 1}
            client.post(f"{gateway.url}/v1/seal", json=body).raise_for_status()
    listed = run(gateway, "ls", "reports/t", "--json").stdout.splitlines()
    assert [json.loads(line)["scope"] for line in listed] == [f"reports/{t}" for t in teams]


def test_the_commands_errors_say_what_to_change(gateway: GatewayProcess) -> None:
    """Wrong key, no key, wrong address, misspelt scope, no reason: one line each, no traceback."""
    put(gateway, "eu", 4)
    cases = (
        (run(gateway, "show", "reports/eu", key="wrong-key"), "FENCEGATE_ADMIN_KEY"),
        (
            run(
                gateway,
                "show",
                "reports/eu",
                key=None,
            ),
            "--admin-key-file",
        ),
        (run(gateway, "show", "reports/eu", "--url", "http://127.0.0.1:9"), "--url"),
        (run(gateway, "show", "reports/eu", "--url", "ftp://x"), "--url"),
        (run(gateway, "show", "reports/ue"), "reports/ue"),
        (run(gateway, "reset", "nobody", "--reason", "drill"), "check the spelling"),
        (run(gateway, "seal", "reports/eu", "--token", "3"), "go on from 5"),
    )
    for done, told in cases:
        assert done.returncode == 1, done
        assert told in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert ADMIN_KEY not in done.stderr
    assert run(gateway, "reset", "reports/eu").returncode == 2


def test_a_reset_reaches_every_store_of_the_quick_start(gateway: GatewayProcess) -> None:
    """Witnesses of the older era (lock files, fence rows, stamps) do not hold the new one up."""
    rows = f"{gateway.url}/db/jobs"
    headers = {"X-Fence-Token": "50"}
    assert put(gateway, "eu", 50).is_success
    assert httpx.post(rows, headers=headers, json={"id": 1, "name": "a"}).status_code == 201
    lake(gateway, 50).put_object(Bucket="demo", Key="eu/x", Body=b"50")
    listed = run(gateway, "ls", "--json").stdout.splitlines()
    scopes = [json.loads(line)["scope"] for line in listed]
    assert scopes
    for scope in scopes:
        done = run(gateway, "reset", scope, "--reason", "the issuer lost its counter", "--json")
        assert json.loads(done.stdout) | {"scope": ""} == {
            "scope": "",
            "era": 2,
            "token": 0,
            "burnt": False,
            "holder": None,
            "registrations": None,
        }
    assert put(gateway, "eu", 2).is_success
    low = {"X-Fence-Token": "2"}
    assert httpx.patch(f"{rows}?id=eq.1", headers=low, json={"name": "b"}).is_success
    lake(gateway, 2).put_object(Bucket="demo", Key="eu/x", Body=b"2")
    with pytest.raises(ClientError) as stale:
        lake(gateway, 1).put_object(Bucket="demo", Key="eu/x", Body=b"1")
    assert stale.value.response["Error"]["Code"] == "fence_token_stale"
    assert code(put(gateway, "eu", 1)) == "fence_token_stale"
    line = gateway.wait_for_log(lambda r: r["event"] == "scope_reset")
    assert (line["level"], line["reason"]) == ("warning", "the issuer lost its counter")
    metrics = gateway.metrics()
    assert metrics["fencegate_resets_total"] == len(scopes)
    assert metrics["fencegate_registry_regressed_total"] == 0


def test_a_reset_is_told_to_the_other_replica(pair: Pair) -> None:
    """Rule 15 over two replicas: neither refuses the new era's low token, or admits an old one."""
    one, two = pair
    assert put(one, "eu", 50).is_success
    assert put(two, "eu", 50).is_success
    done = run(one, "reset", "reports/eu", "--reason", "drill")
    assert done.returncode == 0, done.stderr
    assert put(two, "eu", 3).is_success
    assert put(one, "eu", 3).is_success
    assert code(put(two, "eu", 2)) == "fence_token_stale"
    assert mark(two, "reports/eu") == (2, 3)
    assert put(one, "eu", 50).is_success, "the promise does not span a reset"


def test_a_reset_waits_for_a_killed_replica(pair: Pair) -> None:
    """Rules 8 and 15: what a dead process had sent is waited out before the era ends."""
    one, two = pair
    assert put(one, "eu", 5).is_success
    one.kill()
    first = run(two, "reset", "reports/eu", "--reason", "drill")
    if first.returncode:
        assert "not_drained" in first.stderr
        wait_until(
            lambda: run(two, "reset", "reports/eu", "--reason", "drill").returncode == 0,
            30,
            "the reset is done",
        )
    assert two.metrics()["fencegate_evictions_total"] == 1
    assert put(two, "eu", 1).is_success


def test_a_registry_put_back_is_raised_again_and_told(gateway: GatewayProcess) -> None:
    """Restored from a backup: the store's witness raises it; the stale holder stays out; an error.

    And it is told apart from a stale holder, and from an issuer that has lost its counter.
    """
    registry, backup = gateway.data_dir / "registry.sqlite", gateway.directory / "backup"
    assert put(gateway, "eu", 2).is_success
    gateway.stop()
    shutil.copytree(gateway.data_dir, backup)
    gateway.start()
    assert put(gateway, "eu", 9).is_success
    assert code(put(gateway, "eu", 3)) == "fence_token_stale"
    assert gateway.metrics()["fencegate_registry_regressed_total"] == 0, "stale is nothing else"
    gateway.stop()
    for name in gateway.data_dir.glob("registry.sqlite*"):
        name.unlink()
    for name in backup.glob("registry.sqlite*"):
        shutil.copy(name, registry.with_name(name.name))
    gateway.start()
    assert mark(gateway, "reports/eu") == (1, 2)
    assert code(put(gateway, "eu", 5)) == "fence_token_stale"
    assert mark(gateway, "reports/eu") == (1, 9)
    line = gateway.wait_for_log(lambda r: r["event"] == "registry_regressed")
    assert (line["level"], line["witness"]["token"]) == ("error", 9)
    metrics = gateway.metrics()
    assert metrics["fencegate_registry_regressed_total"] == 1
    assert metrics["fencegate_token_regressed_total"] == 0
    assert put(gateway, "eu", 9).is_success


def test_an_issuer_learns_its_floor_and_is_told_when_it_regressed(gateway: GatewayProcess) -> None:
    """The regress loop: seal below the mark is 412 `fence_token_regressed`; the floor mends it."""
    assert put(gateway, "eu", 7).is_success
    body = {"scope": "reports/eu", "token": 3}
    answer = httpx.post(f"{gateway.url}/v1/seal", json=body, headers=gateway.admin_headers)
    assert (answer.status_code, code(answer)) == (412, "fence_token_regressed")
    assert answer.headers["X-Fence-Mark"] == "7"
    line = gateway.wait_for_log(lambda r: r["event"] == "token_regressed")
    assert (line["level"], line["token"], line["mark"]) == ("error", 3, 7)
    assert gateway.metrics()["fencegate_token_regressed_total"] == 1
    _, floor = mark(gateway, "reports/eu")
    assert put(gateway, "eu", floor + 1).is_success


def test_a_scope_at_the_last_token_is_told_as_such(gateway: GatewayProcess) -> None:
    """Neither `show` nor `seal` speak of a next token; both name the way out, and it works."""
    shown = run(gateway, "seal", "reports/eu", "--token", str(2**63 - 1))
    assert "next      none" in shown.stdout
    sealed = run(gateway, "seal", "reports/eu")
    assert sealed.returncode != 0
    for output in (shown.stdout, sealed.stderr):
        assert "scopes reset" in output
        assert str(2**63) not in output
    assert run(gateway, "reset", "reports/eu", "--reason", "at the end").returncode == 0
    assert "next      2 or above" in run(gateway, "seal", "reports/eu").stdout


def test_a_token_in_two_hands_is_burnt_on_every_replica(pair: Pair) -> None:
    """Both holders are refused wherever they ask, until a higher token; counted once.

    The control: the same holder, and one that names none, are no second hand.
    """
    one, two = pair
    for gateway, holder in ((one, "a"), (two, "a"), (two, None), (one, "a")):
        assert put(gateway, "eu", 5, holder).is_success
    answer = put(two, "eu", 5, "b")
    assert (answer.status_code, code(answer)) == (409, "fence_token_duplicate")
    assert answer.headers["X-Fence-Outcome"] == "refused"
    assert "X-Fence-Mark" not in answer.headers
    wait_until(lambda: put(one, "eu", 5, "a").status_code == 409, 5, "the first hand is told")
    for gateway in pair:
        for holder in ("a", "b", None):
            assert code(put(gateway, "eu", 5, holder)) == "fence_token_duplicate"
    assert code(put(one, "eu", 4, "a")) == "fence_token_stale"
    line = two.wait_for_log(lambda r: r["event"] == "token_duplicate")
    assert line["level"] == "error"
    counts = [g.metrics()["fencegate_token_duplicates_total"] for g in pair]
    assert counts == [0, 1]
    refused = 'fencegate_rejections_total{reason="duplicate",store="files"}'
    assert all(g.metrics()[refused] > 1 for g in pair)
    assert "burnt" in run(one, "show", "reports/eu").stdout
    assert put(one, "eu", 6, "b").is_success, "a higher token ends it"
    assert put(two, "eu", 6, "b").is_success
    assert code(put(two, "eu", 5, "a")) == "fence_token_stale"


def test_a_burnt_mark_outlives_a_restart(gateway: GatewayProcess) -> None:
    """It is as durable as any mark: the second holder does not get in after a crash."""
    assert put(gateway, "eu", 5, "a").is_success
    assert put(gateway, "eu", 5, "b").status_code == 409
    gateway.kill()
    gateway.start()
    for holder in ("a", "b", None):
        assert code(put(gateway, "eu", 5, holder)) == "fence_token_duplicate"
