"""A worker that never saw an answer asks again: the gateway is killed between effect and answer.

Real processes, killed with SIGKILL. All memory of the first attempt is gone; what the retry is told
comes from what the stores keep.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import boto3
import httpx
import pytest
from botocore.config import Config

from tests.services.gateway_process import GatewayProcess
from tests.services.object_stores import ObjectStore
from tests.services.relay import Relay
from tests.services.server_process import wait_until

Start = Callable[..., GatewayProcess]

LOCAL = """
[server]
listen = "127.0.0.1:8080"
auth = "none"
[registry]
type = "sqlite"
[stores.files]
type = "files"
root = "files"
[stores.objects]
type = "files"
dialect = "s3"
listen = "127.0.0.1:9000"
root = "objects"
buckets = ["shelf"]
[stores.db]
type = "sqlite"
path = "db.sqlite"
init = "CREATE TABLE IF NOT EXISTS events (note text)"
[stores.db.tables.events]
[[rules]]
store = "files"
match = "/files/{rest*}"
scope = "lease"
[[rules]]
store = "objects"
match = "/shelf/{rest*}"
scope = "lease"
[[rules]]
store = "db"
match = "/db/events"
scope = "lease"
"""

POSTGRES = """
[server]
listen = "127.0.0.1:8080"
[registry]
type = "sqlite"
[stores.db]
type = "postgres"
dsn = "{dsn}"
[stores.db.tables.events]
[[rules]]
store = "db"
match = "/db/events"
scope = "lease"
"""

LAKE = """
[server]
listen = "127.0.0.1:8080"
auth = "none"
[registry]
type = "sqlite"
[stores.lake]
type = "s3"
listen = "127.0.0.1:9000"
endpoint = "http://127.0.0.1:{port}"
region = "us-east-1"
access_key_id = "{key}"
secret_access_key = "{secret}"
probe_bucket = "{bucket}"
"""


@dataclass(frozen=True)
class Work:
    """One mutation of a store, and how to see its effect from outside. `other` raises the mark."""

    store: str
    method: str
    path: str
    other: str
    key_field: str
    content: bytes
    changed: bytes

    def headers(self, token: int, key: str | None) -> dict[str, str]:
        fields = {"X-Fence-Token": str(token), "Content-Type": "application/json"}
        return fields if key is None else fields | {self.key_field: key}

    def send(
        self, at: GatewayProcess, token: int, key: str | None, content: bytes | None = None
    ) -> httpx.Response:
        url = at.store_url(self.store) + self.path
        body = self.content if content is None else content
        return httpx.request(
            self.method, url, content=body, headers=self.headers(token, key), timeout=20
        )

    def raise_mark(self, at: GatewayProcess, token: int) -> None:
        url = at.store_url(self.store) + self.other
        headers = self.headers(token, None)
        answer = httpx.request(self.method, url, content=self.content, headers=headers, timeout=20)
        assert answer.is_success, answer.text

    def seen(self, at: GatewayProcess) -> Any:
        """What is there: the rows, or the version of the object; None for nothing."""
        answer = httpx.get(at.store_url(self.store) + self.path, timeout=10)
        if self.store == "db":
            return answer.json() or None
        return answer.headers["etag"] if answer.is_success else None


FILE = Work("files", "PUT", "/a/x", "/a/other", "Idempotency-Key", b"one", b"longer")
OBJECT = Work(
    "objects", "PUT", "/shelf/a/x", "/shelf/other", "amz-sdk-invocation-id", b"one", b"longer"
)
ROW = Work(
    "db", "POST", "/events", "/events", "Idempotency-Key", b'{"note":"one"}', b'{"note":"two"}'
)


def send_and_never_read(at: GatewayProcess, work: Work, token: int, key: str) -> socket.socket:
    """A request whose answer nobody will ever see."""
    url = urlsplit(at.store_url(work.store) + work.path)
    assert url.hostname is not None
    fields = work.headers(token, key) | {"Host": url.netloc, "Content-Length": len(work.content)}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    sock = socket.create_connection((url.hostname, url.port), timeout=10)
    sock.sendall(f"{work.method} {url.path} HTTP/1.1\r\n{head}\r\n".encode() + work.content)
    return sock


def assert_replayed(answer: httpx.Response) -> None:
    assert answer.is_success, answer.text
    assert answer.headers["x-fence-outcome"] == "applied"
    assert answer.headers["x-fence-replay"] == "1"


@pytest.mark.parametrize("work", [FILE, OBJECT, ROW], ids=lambda w: w.store)
def test_a_retry_after_a_kill_finds_the_first_attempt(gateway_process: Start, work: Work) -> None:
    """The effect is there, the answer is not: the retry gets it, also as a stale holder by then."""
    gateway = gateway_process(LOCAL)
    unread = send_and_never_read(gateway, work, 1, "job-7")
    wait_until(lambda: work.seen(gateway) is not None, 10, "the effect")
    gateway.kill()
    unread.close()
    gateway.start()

    before = work.seen(gateway)
    assert_replayed(work.send(gateway, 1, "job-7"))
    assert work.seen(gateway) == before, "the retry has written again"

    gateway.kill()
    gateway.start()
    work.raise_mark(gateway, 2)
    before = work.seen(gateway)
    assert_replayed(work.send(gateway, 1, "job-7"))
    reused = work.send(gateway, 1, "job-7", work.changed)
    assert (reused.status_code, reused.headers["x-fence-outcome"]) == (422, "refused")
    assert work.send(gateway, 1, "job-8").status_code == 412
    assert work.send(gateway, 1, None).status_code == 412
    assert work.seen(gateway) == before


def test_without_a_key_nobody_can_know(gateway_process: Start) -> None:
    """Negative control: the same story without the key writes twice."""
    gateway = gateway_process(LOCAL)
    assert ROW.send(gateway, 1, None).is_success
    gateway.kill()
    gateway.start()
    assert ROW.send(gateway, 1, None).is_success
    assert len(ROW.seen(gateway)) == 2


def test_concurrent_requests_with_one_key_are_one(gateway_process: Start) -> None:
    """Eight at once: one row, one answer of its own, seven replays; then it is counted."""
    gateway = gateway_process(LOCAL)
    together = threading.Barrier(8)

    def send(_: int) -> httpx.Response:
        together.wait(10)
        return ROW.send(gateway, 1, "same")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(8)))
    assert {answer.status_code for answer in answers} == {201}
    assert sum("x-fence-replay" not in answer.headers for answer in answers) == 1
    assert ROW.seen(gateway) == [{"note": "one"}]
    assert gateway.metrics()['fencegate_retries_total{answer="replayed",store="db"}'] == 7
    replayed = [line for line in gateway.log() if line.get("replayed")]
    assert len(replayed) == 7
    assert all(line["retried"] for line in replayed)


# --- stores that are servers --------------------------------------------------------------------
@pytest.fixture
def relay_to() -> Iterator[Callable[[int], Relay]]:
    made: list[Relay] = []

    def make(port: int) -> Relay:
        made.append(Relay(port))
        return made[-1]

    yield make
    for relay in made:
        relay.close()


async def run_sql(dsn: str, sql: str) -> list[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        return [tuple(row) for row in await connection.fetch(sql)]
    finally:
        await connection.close()


def test_killed_while_postgresql_had_committed(
    gateway_process: Start,
    postgres_dsn: str,
    relay_to: Callable[[int], Relay],
    tmp_path: Path,
) -> None:
    """COMMIT done, its answer on the way, SIGKILL: in-flight until then, replayed afterwards."""
    relay = relay_to(urlsplit(postgres_dsn).port or 5432)
    asyncio.run(run_sql(postgres_dsn, "CREATE TABLE events (note text)"))
    parts = urlsplit(postgres_dsn)
    through = parts._replace(netloc=parts.netloc.replace(f":{parts.port}", f":{relay.port}"))
    document = POSTGRES.format(dsn=through.geturl())
    gateway = start_migrated(gateway_process, document, tmp_path)
    for number in range(2):  # the statement is prepared on the connection that comes first
        assert ROW.send(gateway, 1, f"warm-{number}").is_success

    work = replace(ROW, content=b'{"note":"lose-me"}')
    relay.lose_answers_from(b"lose-me")
    unread = send_and_never_read(gateway, work, 1, "job-7")
    count = "SELECT count(*) FROM events WHERE note = 'lose-me'"
    wait_until(lambda: asyncio.run(run_sql(postgres_dsn, count)) == [(1,)], 10, "the row")
    asked = httpx.get(f"{gateway.url}/v1/requests/job-7", headers=gateway.admin_headers, timeout=5)
    assert asked.json()["outcome"] == "in-flight"
    gateway.kill()
    unread.close()
    relay.heal()
    gateway.start()
    assert_replayed(work.send(gateway, 1, "job-7"))
    assert asyncio.run(run_sql(postgres_dsn, count)) == [(1,)]


def start_migrated(start: Start, document: str, folder: Path) -> GatewayProcess:
    """Migrate the database of the document, then serve it."""
    policy = folder / "migrate.toml"
    policy.write_text(document)
    command = [sys.executable, "-m", "gateway", "migrate", "db", "--policy", str(policy)]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(command, cwd=folder, env=env, check=True, timeout=40, capture_output=True)
    return start(document)


def s3_client(store: ObjectStore) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=store.endpoint,
        region_name=store.region,
        aws_access_key_id=store.access_key_id,
        aws_secret_access_key=store.secret_access_key,
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}),
    )


def test_killed_while_the_object_store_had_the_object(
    gateway_process: Start,
    ministack: ObjectStore,
    ministack_bucket: str,
    relay_to: Callable[[int], Relay],
) -> None:
    """The stamp in the object is all that is left of the first attempt, and it is enough."""
    relay = relay_to(urlsplit(ministack.endpoint).port or 80)
    gateway = gateway_process(
        LAKE.format(
            port=relay.port,
            key=ministack.access_key_id,
            secret=ministack.secret_access_key,
            bucket=ministack_bucket,
        )
    )
    path = f"/{ministack_bucket}/a/x"
    work = Work("lake", "PUT", path, path, "amz-sdk-invocation-id", b"lose-me", b"other content")
    relay.lose_answers_from(b"lose-me")
    unread = send_and_never_read(gateway, work, 1, "job-7")
    direct = s3_client(ministack)

    def held() -> dict[str, Any]:
        found = direct.list_objects_v2(Bucket=ministack_bucket, Prefix="a/x")
        if not found.get("Contents"):
            return {}
        return dict(direct.head_object(Bucket=ministack_bucket, Key="a/x")["Metadata"])

    wait_until(lambda: bool(held()), 10, "the object")
    stamp = held()
    gateway.kill()
    unread.close()
    relay.heal()
    gateway.start()
    assert_replayed(work.send(gateway, 1, "job-7"))
    assert held() == stamp, "the retry has written again"
    assert work.send(gateway, 1, "job-7", work.changed).status_code == 422
    assert work.send(gateway, 1, "job-8").is_success
    assert held() != stamp
