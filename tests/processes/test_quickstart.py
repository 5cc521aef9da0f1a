"""The quick start as a newcomer meets it: a real process, real clients, real pauses and kills."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.services.gateway_process import GatewayProcess

QUICKSTART = (Path(__file__).parents[2] / "policies" / "quickstart.toml").read_text()
REPORT = "/files/reports/eu/july.txt"
Start = Callable[..., GatewayProcess]


@pytest.fixture
def gateway(gateway_process: Start) -> GatewayProcess:
    return gateway_process(QUICKSTART)


def put(gateway: GatewayProcess, path: str, token: int | None, text: str = "x") -> httpx.Response:
    headers = {} if token is None else {"X-Fence-Token": str(token)}
    return httpx.put(gateway.url + path, content=text, headers=headers, timeout=10)


def s3(gateway: GatewayProcess, token: int) -> object:
    client = boto3.client(
        "s3",
        endpoint_url=gateway.store_url("objects"),
        region_name="us-east-1",
        aws_access_key_id="demo",
        aws_secret_access_key="demo-secret",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}),
    )
    client.meta.events.register(
        "before-sign.s3",
        lambda request, **_: request.headers.add_header("X-Fence-Token", str(token)),
    )
    return client


def test_the_three_curl_lines(gateway: GatewayProcess) -> None:
    """Token 2 writes, token 1 is stale and learns the mark, no token is asked for one."""
    url = gateway.url + REPORT
    lines = (
        ["-H", "X-Fence-Token: 2", "-d", "new"],
        ["-H", "X-Fence-Token: 1", "-d", "old"],
        ["-d", "none"],
    )
    got = [
        subprocess.run(
            ["curl", "-s", "-i", "-X", "PUT", *line, url],
            capture_output=True,
            check=True,
            timeout=20,
        ).stdout.decode()
        for line in lines
    ]
    assert got[0].startswith("HTTP/1.1 201")
    assert "x-fence-outcome: applied" in got[0].lower()
    assert got[1].startswith("HTTP/1.1 412")
    assert "x-fence-mark: 2" in got[1].lower()
    assert "fence_token_stale" in got[1]
    assert got[2].startswith("HTTP/1.1 428")
    assert httpx.get(url).text == "new"
    assert gateway.metrics()['fencegate_rejections_total{reason="stale",store="files"}'] == 1


def test_one_scope_over_many_files(gateway: GatewayProcess) -> None:
    """A newer token on one report fences the older on all reports of the team, and on no other."""
    assert put(gateway, "/files/reports/eu/a.txt", 5).status_code == 201
    assert put(gateway, "/files/reports/eu/b.txt", 4).status_code == 412
    assert put(gateway, "/files/reports/us/b.txt", 4).status_code == 201
    assert httpx.get(gateway.url + "/files/reports/eu/b.txt").status_code == 404


def test_rows_fence_and_versions(gateway: GatewayProcess) -> None:
    """A row is written under the table's scope; stale and precondition failed are told apart."""
    jobs = gateway.store_url("db") + "/jobs"
    fence = {"X-Fence-Token": "2", "Prefer": "return=representation"}
    made = httpx.post(jobs, json={"id": 1, "name": "a"}, headers=fence)
    assert (made.status_code, made.headers["etag"]) == (201, '"1"')
    changed = httpx.patch(f"{jobs}?id=eq.1", json={"state": "run"}, headers=fence)
    assert changed.json()[0]["version"] == 2
    late = httpx.patch(f"{jobs}?id=eq.1", json={"state": "x"}, headers={"X-Fence-Token": "1"})
    assert (late.status_code, late.json()["code"]) == (412, "fence_token_stale")
    old = fence | {"If-Match": '"1"'}
    failed = httpx.patch(f"{jobs}?id=eq.1", json={"state": "x"}, headers=old)
    assert (failed.status_code, failed.json()["code"]) == (412, "precondition_failed")
    assert httpx.get(f"{jobs}?id=eq.1").json()[0]["state"] == "run"


def test_unmodified_boto3(gateway: GatewayProcess) -> None:
    """boto3 as it is: put, get, list, delete; a stale token is a 412 with the gateway's code."""
    new, old = s3(gateway, 2), s3(gateway, 1)
    new.put_object(Bucket="demo", Key="a b/ü+c", Body=b"hello")
    assert new.get_object(Bucket="demo", Key="a b/ü+c")["Body"].read() == b"hello"
    assert [o["Key"] for o in new.list_objects_v2(Bucket="demo")["Contents"]] == ["a b/ü+c"]
    with pytest.raises(ClientError) as stale:
        old.put_object(Bucket="demo", Key="a b/ü+c", Body=b"late")
    assert stale.value.response["Error"]["Code"] == "fence_token_stale"
    with pytest.raises(ClientError):
        old.delete_object(Bucket="demo", Key="a b/ü+c")
    new.delete_object(Bucket="demo", Key="a b/ü+c")
    with pytest.raises(ClientError) as absent:
        new.head_object(Bucket="demo", Key="a b/ü+c")
    assert absent.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_marks_outlive_a_kill(gateway: GatewayProcess) -> None:
    """After SIGKILL and a start, an older token is still refused, and a newer one is not stuck."""
    assert put(gateway, REPORT, 7, "seven").status_code == 201
    gateway.kill()
    gateway.start()
    assert put(gateway, REPORT, 6).status_code == 412
    assert put(gateway, REPORT, 8, "eight").status_code in {200, 204}
    assert httpx.get(gateway.url + REPORT).text == "eight"


def test_seal_shuts_out_before_a_write(gateway: GatewayProcess) -> None:
    """A seal issues the next token and fences the old holder; it needs the admin key."""
    assert put(gateway, REPORT, 3).status_code == 201
    seal = {"scope": "reports/eu"}
    assert httpx.post(gateway.url + "/v1/seal", json=seal).status_code == 401
    sealed = httpx.post(gateway.url + "/v1/seal", json=seal, headers=gateway.admin_headers)
    assert (sealed.status_code, sealed.json()["token"]) == (200, 4)
    assert put(gateway, REPORT, 3).status_code == 412
    assert put(gateway, REPORT, 4).status_code in {200, 204}
    seen = httpx.get(
        gateway.url + "/v1/scopes", params={"name": "reports/eu"}, headers=gateway.admin_headers
    )
    assert seen.json()["token"] == 4
    page = httpx.get(gateway.url + "/v1/scopes", headers=gateway.admin_headers).json()
    assert [row["scope"] for row in page["scopes"]] == ["reports/eu"]


def test_two_holders_of_one_token(gateway: GatewayProcess) -> None:
    """A token in two hands is burnt: both are refused until a higher one arrives."""

    def by(holder: str, token: int) -> int:
        headers = {"X-Fence-Token": str(token), "X-Fence-Holder": holder}
        return httpx.put(gateway.url + REPORT, content="x", headers=headers).status_code

    assert by("a", 5) == 201
    assert by("b", 5) == 409
    assert by("a", 5) == 409
    assert by("a", 6) in {200, 204}
    assert gateway.wait_for_log(lambda line: "duplicate" in str(line.get("event")))


def test_second_process_on_one_registry(gateway: GatewayProcess) -> None:
    """A second gateway on the same data is refused with who holds the lock, and nothing is lost."""
    assert put(gateway, REPORT, 1).status_code == 201
    again = subprocess.run(
        [sys.executable, "-m", "gateway", "serve", str(gateway.policy_path)],
        cwd=gateway.directory,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert again.returncode == 1
    assert b"another gateway process" in again.stderr
    assert b"Traceback" not in again.stderr
    assert put(gateway, REPORT, 1).status_code in {200, 204}


def test_a_client_that_sends_too_little(gateway: GatewayProcess) -> None:
    """A body that ends early leaves the old file as it was."""
    import socket

    assert put(gateway, REPORT, 1, "whole").status_code == 201
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as client:
        head = f"PUT {REPORT} HTTP/1.1\r\nHost: {host}\r\nX-Fence-Token: 1\r\nContent-Length: 9\r\n"
        client.sendall(head.encode() + b"\r\nhal")
    assert httpx.get(gateway.url + REPORT).text == "whole"
    assert put(gateway, REPORT, 1, "again").status_code in {200, 204}


def test_a_body_that_does_not_match_its_digest(gateway: GatewayProcess) -> None:
    """Content-MD5 of other bytes: 400, and the old file stays; the right one is written."""
    digest = base64.b64encode(hashlib.md5(b"right", usedforsecurity=False).digest()).decode()
    headers = {"X-Fence-Token": "1", "Content-MD5": digest}
    assert put(gateway, REPORT, 1, "whole").status_code == 201
    refused = httpx.put(gateway.url + REPORT, content="wrong", headers=headers)
    assert (refused.status_code, refused.headers["X-Fence-Outcome"]) == (400, "refused")
    assert httpx.get(gateway.url + REPORT).text == "whole"
    assert httpx.put(gateway.url + REPORT, content="right", headers=headers).is_success
    assert httpx.get(gateway.url + REPORT).text == "right"


def test_demo_refuses_every_late_write(tmp_path: Path) -> None:
    """`fencegate demo` plays the story with real processes and ends with 0."""
    played = subprocess.run(
        [sys.executable, "-m", "gateway", "demo"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        timeout=55,
        check=False,
    )
    assert played.returncode == 0, played.stdout.decode() + played.stderr.decode()
    assert played.stdout.count(b"fence_token_stale") >= 3
