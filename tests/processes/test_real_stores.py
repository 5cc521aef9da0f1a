"""The gateway in front of a real S3 server and a real PostgreSQL, with real clients."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.services.gateway_process import GatewayProcess
from tests.services.object_stores import ObjectStore

Start = Callable[..., GatewayProcess]

S3 = """
[server]
listen = "127.0.0.1:8080"
[registry]
type = "sqlite"
[[auth.keys]]
id = "worker"
secret = "worker-secret"
[stores.lake]
type = "s3"
listen = "127.0.0.1:9000"
endpoint = "{url}"
region = "us-east-1"
access_key_id = "{key}"
secret_access_key = "{secret}"
probe_bucket = "{bucket}"
{more}
"""

ROWS = """
[server]
listen = "127.0.0.1:8080"
[registry]
type = "sqlite"
[stores.db]
type = "postgres"
dsn = "{dsn}"
[stores.db.tables.jobs]
version_column = "version"
[[rules]]
store = "db"
match = "/db/jobs"
scope = "jobs"
"""

TABLE = (
    "CREATE TABLE jobs (id bigint PRIMARY KEY, name text NOT NULL,"
    " state text NOT NULL DEFAULT 'new', version bigint NOT NULL DEFAULT 1)"
)


def s3_policy(store: ObjectStore, bucket: str, more: str = "") -> str:
    return S3.format(
        url=store.endpoint,
        key=store.access_key_id,
        secret=store.secret_access_key,
        bucket=bucket,
        more=more,
    )


def client(gateway: GatewayProcess, token: int):
    made = boto3.client(
        "s3",
        endpoint_url=gateway.store_url("lake"),
        region_name="us-east-1",
        aws_access_key_id="worker",
        aws_secret_access_key="worker-secret",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}),
    )
    made.meta.events.register(
        "before-sign.s3",
        lambda request, **_: request.headers.add_header("X-Fence-Token", str(token)),
    )
    return made


def test_boto3_over_a_conditional_s3_server(
    gateway_process: Start, ministack: ObjectStore, ministack_bucket: str
) -> None:
    """Put, get, list and delete go through; the stale holder changes nothing; no stamp is seen."""
    gateway = gateway_process(s3_policy(ministack, ministack_bucket))
    old, new = client(gateway, 1), client(gateway, 2)
    where = {"Bucket": ministack_bucket, "Key": "reports/a b+c"}
    old.put_object(**where, Body=b"first", Metadata={"mine": "yes"})
    new.put_object(**where, Body=b"second" * 20_000, Metadata={"mine": "yes"})
    with pytest.raises(ClientError) as stale:
        old.put_object(**where, Body=b"late")
    assert stale.value.response["Error"]["Code"] == "fence_token_stale"
    with pytest.raises(ClientError):
        old.delete_object(**where)
    got = new.get_object(**where)
    assert got["Body"].read() == b"second" * 20_000
    assert got["Metadata"] == {"mine": "yes"}
    part = new.get_object(**where, Range="bytes=0-5")
    assert part["Body"].read() == b"second"
    listed = new.list_objects_v2(Bucket=ministack_bucket, Prefix="reports/")
    assert [entry["Key"] for entry in listed["Contents"]] == ["reports/a b+c"]
    new.delete_object(**where)
    with pytest.raises(ClientError):
        new.head_object(**where)


def test_a_server_that_ignores_conditions_is_refused_at_start(
    gateway_process: Start, rclone_s3: ObjectStore, rclone_bucket: str, tmp_path: Path
) -> None:
    """It starts only with `conditions = "none"`, and then refuses the client's own by name."""
    policy = tmp_path / "refused.toml"
    policy.write_text(
        s3_policy(rclone_s3, rclone_bucket).replace(":8080", ":0").replace(":9000", ":0")
    )
    refused = subprocess.run(
        [sys.executable, "-m", "gateway", "serve", str(policy)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        timeout=40,
        check=False,
    )
    assert refused.returncode == 1
    assert b'conditions = "none"' in refused.stderr
    assert b"Traceback" not in refused.stderr
    gateway = gateway_process(s3_policy(rclone_s3, rclone_bucket, 'conditions = "none"'))
    where = {"Bucket": rclone_bucket, "Key": "k"}
    client(gateway, 2).put_object(**where, Body=b"x")
    with pytest.raises(ClientError):
        client(gateway, 1).put_object(**where, Body=b"late")
    with pytest.raises(ClientError) as unsupported:
        client(gateway, 2).put_object(**where, Body=b"y", IfNoneMatch="*")
    assert unsupported.value.response["ResponseMetadata"]["HTTPStatusCode"] == 501


async def create_table(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(TABLE)
    await connection.close()


def test_rows_over_postgresql(gateway_process: Start, postgres_dsn: str, tmp_path: Path) -> None:
    """Migrate, serve, write, refuse the stale, tell precondition and stale apart."""
    asyncio.run(create_table(postgres_dsn))
    document = ROWS.format(dsn=postgres_dsn)
    policy = tmp_path / "migrate.toml"
    policy.write_text(document)
    command = [sys.executable, "-m", "gateway", "migrate", "db", "--policy", str(policy)]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(command, cwd=tmp_path, env=env, check=True, timeout=40, capture_output=True)
    gateway = gateway_process(document)
    jobs = gateway.store_url("db") + "/jobs"
    fence = {"X-Fence-Token": "2", "Prefer": "return=representation"}
    made = httpx.post(jobs, json={"id": 9007199254740993, "name": "a"}, headers=fence)
    assert (made.status_code, made.headers["etag"]) == (201, '"1"')
    row = f"{jobs}?id=eq.9007199254740993"
    late = httpx.patch(row, json={"state": "x"}, headers={"X-Fence-Token": "1"})
    assert (late.status_code, late.json()["code"]) == (412, "fence_token_stale")
    assert httpx.patch(row, json={"state": "run"}, headers=fence).json()[0]["version"] == 2
    failed = httpx.patch(row, json={"state": "x"}, headers=fence | {"If-Match": '"1"'})
    assert (failed.status_code, failed.json()["code"]) == (412, "precondition_failed")
    assert httpx.delete(row, headers={"X-Fence-Token": "2"}).status_code == 204
    assert httpx.get(jobs).json() == []
