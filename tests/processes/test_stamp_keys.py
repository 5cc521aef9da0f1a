"""Replicas over one bucket, each with its own directory, know all writes by one stamp key."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.services.canary import leaks
from tests.services.gateway_process import GatewayProcess
from tests.services.object_stores import ObjectStore
from tests.services.relay import Relay
from tests.services.server_process import wait_until
from tests.services.valkey import Valkey

Start = Callable[..., GatewayProcess]

POLICY = """
[server]
listen = "127.0.0.1:8080"
auth = "none"
[registry]
type = "redis"
url = "{registry}"
[limits]
member_ttl_ms = 900
registry_timeout_ms = 400
lock_timeout_ms = 1_000
drain_timeout_ms = 1_500
[stores.lake]
type = "s3"
listen = "127.0.0.1:9000"
endpoint = "http://127.0.0.1:{port}"
access_key_id = "{key}"
secret_access_key = "{secret}"
stamp_key = "${{STAMP_KEY}}"
probe_bucket = "{bucket}"
settle_ms = 300
"""
ONE, OTHER = "a-stamp-key-for-all-replicas", "another-stamp-key-for-one"


@pytest.fixture
def relay(ministack: ObjectStore) -> Iterator[Relay]:
    made = Relay(urlsplit(ministack.endpoint).port or 80)
    yield made
    made.close()


@pytest.fixture
def document(valkey: Valkey, relay: Relay, ministack: ObjectStore, ministack_bucket: str) -> str:
    return POLICY.format(
        registry=valkey.url,
        port=relay.port,
        key=ministack.access_key_id,
        secret=ministack.secret_access_key,
        bucket=ministack_bucket,
    )


class _Unready(GatewayProcess):
    """One whose start is over as soon as it answers at all."""

    def ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=2).status_code > 0
        except httpx.TransportError:
            return False


@pytest.fixture
def unready(tmp_path: Path) -> Iterator[Start]:
    """Starts a gateway that is not expected to become ready."""
    started: list[GatewayProcess] = []

    def start(document: str, env: dict[str, str]) -> GatewayProcess:
        directory = tmp_path / "unready"
        directory.mkdir()
        started.append(_Unready(document, directory, env=env))
        return started[-1].start()

    yield start
    for gateway in started:
        gateway.stop()
        assert not leaks(gateway.process.output(), gateway.secrets)


def put(
    at: GatewayProcess, bucket: str, name: str, key: str | None = None, content: bytes = b"x"
) -> httpx.Response:
    headers = {"X-Fence-Token": "1"} | ({} if key is None else {"amz-sdk-invocation-id": key})
    url = f"{at.store_url('lake')}/{bucket}/{name}"
    return httpx.put(url, headers=headers, content=content, timeout=10)


def write_and_lose(one: GatewayProcess, bucket: str, relay: Relay, store: ObjectStore) -> None:
    """The object is written, the answer is lost, and its replica is killed."""
    relay.lose_answers_from(b"lose-me")
    url = urlsplit(one.store_url("lake"))
    assert url.hostname is not None
    assert url.port is not None
    client = socket.create_connection((url.hostname, url.port), timeout=10)
    client.sendall(
        f"PUT /{bucket}/x HTTP/1.1\r\nHost: x\r\nX-Fence-Token: 1\r\nContent-Length: 7\r\n"
        "amz-sdk-invocation-id: job-7\r\n\r\nlose-me".encode()
    )
    direct = store.client()
    wait_until(
        lambda: bool(direct.list_objects_v2(Bucket=bucket, Prefix="x").get("Contents")),
        10,
        "the object",
    )
    one.kill()
    client.close()
    relay.heal()


def test_a_lost_write_of_one_replica_is_known_to_the_other(
    gateway_process: Start,
    document: str,
    relay: Relay,
    ministack: ObjectStore,
    ministack_bucket: str,
) -> None:
    """One stamp key in two data directories: the retry at the other replica finds the write."""
    one, two = (gateway_process(document, env={"STAMP_KEY": ONE}) for _ in range(2))
    for gateway in (one, two):
        wait_until(lambda at=gateway: put(at, ministack_bucket, "warm").is_success, 20, "grace")  # type: ignore[misc]
    write_and_lose(one, ministack_bucket, relay, ministack)
    found = put(two, ministack_bucket, "x", "job-7", b"lose-me")
    assert found.is_success, found.text
    assert found.headers["x-fence-replay"] == "1"


def test_another_stamp_key_does_not_join(
    gateway_process: Start,
    unready: Start,
    document: str,
    relay: Relay,
    ministack: ObjectStore,
    ministack_bucket: str,
) -> None:
    """It is told in readiness and log, and writes nothing while the others are there.

    The control: once it is alone and joins, it does not know the other's write.
    """
    one = gateway_process(document, env={"STAMP_KEY": ONE})
    wait_until(lambda: put(one, ministack_bucket, "warm").is_success, 20, "the grace is over")
    two = unready(document, {"STAMP_KEY": OTHER})
    differ = two.wait_for_log(lambda line: line["event"] == "rules_differ")
    assert "stamp_key" in differ["hint"]
    told = httpx.get(f"{two.url}/readyz", timeout=5)
    assert told.status_code == 503
    assert "stamp_key" in told.text
    assert put(two, ministack_bucket, "warm").status_code == 503

    write_and_lose(one, ministack_bucket, relay, ministack)
    wait_until(lambda: put(two, ministack_bucket, "warm").is_success, 20, "it is alone and joins")
    assert "x-fence-replay" not in put(two, ministack_bucket, "x", "job-7", b"lose-me").headers
