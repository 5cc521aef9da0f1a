"""A write that ended as unknown is found out later, and whoever asks is told: real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.services.gateway_process import GatewayProcess
from tests.services.object_stores import ObjectStore
from tests.services.relay import Relay
from tests.services.server_process import wait_until

Start = Callable[..., GatewayProcess]

POLICY = """
[server]
listen = "127.0.0.1:8080"
[registry]
type = "sqlite"
[limits]
upstream_connect_timeout_ms = 500
upstream_first_byte_timeout_ms = 700
[[auth.keys]]
id = "worker"
secret = "worker-secret"
[[auth.keys]]
id = "another"
secret = "another-secret"
[stores.lake]
type = "s3"
listen = "127.0.0.1:9000"
endpoint = "http://127.0.0.1:{port}"
region = "us-east-1"
access_key_id = "{key}"
secret_access_key = "{secret}"
probe_bucket = "{bucket}"
settle_ms = 2_000
"""


@pytest.fixture
def relay(ministack: ObjectStore) -> Iterator[Relay]:
    made = Relay(urlsplit(ministack.endpoint).port or 80)
    yield made
    made.close()


@pytest.fixture
def gateway(
    gateway_process: Start, ministack: ObjectStore, ministack_bucket: str, relay: Relay
) -> GatewayProcess:
    return gateway_process(
        POLICY.format(
            port=relay.port,
            key=ministack.access_key_id,
            secret=ministack.secret_access_key,
            bucket=ministack_bucket,
        )
    )


@dataclass(frozen=True)
class Worker:
    """Signs as an SDK does, and says itself which request is a retry of which."""

    gateway: GatewayProcess
    bucket: str

    def put(self, key: str, body: bytes, invocation: str) -> dict[str, str]:
        """The fields of the answer, and its status."""
        url = f"{self.gateway.store_url('lake')}/{self.bucket}/{key}"
        fields = {"X-Fence-Token": "1", "amz-sdk-invocation-id": invocation}
        request = AWSRequest("PUT", url, data=body, headers=fields)
        S3SigV4Auth(Credentials("worker", "worker-secret"), "s3", "us-east-1").add_auth(request)
        answer = httpx.put(url, content=body, headers=dict(request.headers), timeout=30)
        return {**answer.headers, "status": str(answer.status_code)}


def asked(gateway: GatewayProcess, name: str, secret: str = "worker-secret") -> httpx.Response:
    headers = {"Authorization": f"Bearer {secret}"}
    return httpx.get(f"{gateway.url}/v1/requests/{name}", headers=headers, timeout=5)


def test_an_unknown_write_that_landed_is_settled_as_applied(
    gateway: GatewayProcess, relay: Relay, ministack_bucket: str
) -> None:
    """504 first, because nobody could tell; then the gateway finds out, and tells who may know."""
    worker = Worker(gateway, ministack_bucket)
    relay.lose_answers_from(b"lose-me", and_go_down=True)
    lost = worker.put("k", b"lose-me", "job-7")
    assert (lost["status"], lost["x-fence-outcome"]) == ("504", "unknown")
    name = lost["x-request-id"]
    assert asked(gateway, name).json()["outcome"] == "unknown"
    relay.heal()
    wait_until(lambda: asked(gateway, name).json()["outcome"] == "applied", 20, "the end is known")
    told = asked(gateway, name).json()
    assert (told["settled"], told["code"], told["key"]) == (True, None, "job-7")
    assert asked(gateway, "job-7").json() == told
    assert asked(gateway, name, "another-secret").status_code == 404
    assert asked(gateway, name, "wrong").status_code == 401

    metrics = gateway.metrics()
    assert metrics['fencegate_outcome_settled_total{outcome="applied",store="lake"}'] == 1
    assert metrics['fencegate_tickets_open{store="lake"}'] == 0
    line = gateway.wait_for_log(lambda record: record["event"] == "outcome_settled")
    assert (line["request_id"], line["outcome"]) == (name, "applied")

    again = worker.put("k", b"lose-me", "job-7")
    assert (again["status"], again["x-fence-replay"]) == ("200", "1")


def test_an_unknown_write_that_never_landed_is_settled_as_refused(
    gateway: GatewayProcess, relay: Relay, ministack: ObjectStore, ministack_bucket: str
) -> None:
    """Not before `settle_ms`: until then it could still have landed. Then a retry is a new one."""
    worker = Worker(gateway, ministack_bucket)
    assert worker.put("k", b"first", "job-1")["status"] == "200"
    relay.swallow_requests_from(b"second", and_go_down=True)
    lost = worker.put("k", b"second", "job-2")
    assert (lost["status"], lost["x-fence-outcome"]) == ("504", "unknown")
    relay.heal()
    name = lost["x-request-id"]
    wait_until(lambda: asked(gateway, name).json()["outcome"] == "refused", 20, "the end is known")
    line = gateway.wait_for_log(lambda record: record["event"] == "outcome_settled")
    assert line["seconds"] >= 2
    again = worker.put("k", b"second", "job-2")
    assert again["status"] == "200"
    assert "x-fence-replay" not in again


def test_a_swallowed_answer_is_found_out_before_the_client_is_answered(
    gateway: GatewayProcess, relay: Relay, ministack_bucket: str
) -> None:
    """The store can be asked at once: no unknown is told where one look tells the truth."""
    worker = Worker(gateway, ministack_bucket)
    relay.lose_answers_from(b"lose-me")
    found = worker.put("k", b"lose-me", "job-9")
    assert (found["status"], found["x-fence-outcome"]) == ("200", "applied")
    assert "x-fence-replay" not in found
    assert gateway.metrics()['fencegate_outcome_unknown_total{store="lake"}'] == 0
