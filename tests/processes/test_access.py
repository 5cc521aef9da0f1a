"""Keys as workers use them: a real gateway, real clients, each key's own limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError

from gateway.model.worker import secret_digest
from tests.services.gateway_process import GatewayProcess

SECRETS = {name: f"secret-of-{name}-0123456789" for name in ("team", "reader", "old", "lake")}


def hashed(name: str) -> str:
    return f'id = "{name}"\nsecret_hash = "sha256:{secret_digest(SECRETS[name]).hex()}"'


POLICY = f"""
[server]
listen = "127.0.0.1:8080"
auth = "keys"

[[auth.keys]]
{hashed("team")}
stores = ["files", "db"]
scopes = ["reports/eu/{{rest*}}", "db:jobs/1"]

[[auth.keys]]
{hashed("reader")}
stores = ["files", "db"]
methods = ["GET"]

[[auth.keys]]
{hashed("old")}
stores = ["files", "db"]
expires = 2020-01-01T00:00:00Z

[[auth.keys]]
id = "lake"
secret = "${{LAKE_SECRET}}"
stores = ["objects"]
scopes = ["objects:demo/mine/{{rest*}}"]

[stores.files]
type = "files"
root = "files"

[stores.db]
type = "sqlite"
path = "db.sqlite"
init = "CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, state TEXT)"
tables.jobs = {{}}

[stores.objects]
type = "files"
dialect = "s3"
listen = "127.0.0.1:9000"
root = "objects"
buckets = ["demo"]

[[rules]]
match = "/files/reports/{{team}}/{{rest*}}"
scope = "reports/{{team}}/{{rest}}"
"""


@pytest.fixture
def gateway(gateway_process: Callable[..., GatewayProcess]) -> GatewayProcess:
    return gateway_process(POLICY, env={"LAKE_SECRET": SECRETS["lake"]})


def send(
    gateway: GatewayProcess, key: str | None, method: str, path: str, **options: Any
) -> httpx.Response:
    headers = {"X-Fence-Token": "3", **options.pop("headers", {})}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    return httpx.request(method, gateway.url + path, headers=headers, timeout=10, **options)


def test_each_key_reaches_what_it_covers(gateway: GatewayProcess) -> None:
    """Scopes, methods, expiry; in the http and the rows dialect; each refusal says which limit."""
    team, reader, old = (SECRETS[name] for name in ("team", "reader", "old"))
    cases = [
        (team, "PUT", "/files/reports/eu/a", 201, ""),
        (team, "GET", "/files/reports/eu/a", 200, ""),
        (team, "PUT", "/files/reports/us/a", 403, "does not cover the scope reports/us/a"),
        (team, "PUT", "/files/other", 403, "does not cover the scope files:other"),
        (team, "GET", "/db/jobs?id=eq.1", 200, ""),
        (team, "GET", "/db/jobs?id=eq.2", 403, "does not cover the scope db:jobs/2"),
        (team, "GET", "/db/jobs", 403, "limited to `scopes`"),
        (reader, "GET", "/files/reports/eu/a", 200, ""),
        (reader, "HEAD", "/files/reports/eu/a", 200, ""),
        (reader, "PUT", "/files/reports/eu/a", 403, "does not cover PUT; its `methods`: GET"),
        (reader, "DELETE", "/db/jobs?id=eq.1", 403, "does not cover DELETE"),
        (reader, "GET", "/db/jobs", 200, ""),
        (old, "GET", "/files/reports/eu/a", 401, "the key old has expired"),
        (None, "GET", "/files/reports/eu/a", 401, "Bearer"),
        (secret_digest(team).hex(), "GET", "/files/reports/eu/a", 401, "not known"),
    ]
    for key, method, path, status, told in cases:
        body = {"content": b"x"} if method == "PUT" else {}
        answer = send(gateway, key, method, path, **body)
        assert answer.status_code == status, (method, path, answer.text)
        assert told in answer.text
        assert answer.headers["x-request-id"]
    refused = send(gateway, reader, "PUT", "/files/reports/eu/a", content=b"x")
    assert refused.headers["x-fence-outcome"] == "refused"
    assert refused.json()["code"] == "access_denied"


def test_an_s3_key_is_limited_to_its_scopes(gateway: GatewayProcess) -> None:
    """boto3, unmodified: AccessDenied outside of them; a listing has no scope and is refused."""
    client = gateway.object_store("objects", "lake")
    s3 = type(client)(client.endpoint, "lake", SECRETS["lake"], client.region).client()
    s3.meta.events.register(
        "before-sign.s3", lambda request, **_: request.headers.add_header("X-Fence-Token", "3")
    )
    s3.put_object(Bucket="demo", Key="mine/a", Body=b"x")
    assert s3.get_object(Bucket="demo", Key="mine/a")["Body"].read() == b"x"
    for refused in (
        lambda: s3.put_object(Bucket="demo", Key="theirs/a", Body=b"x"),
        lambda: s3.get_object(Bucket="demo", Key="theirs/a"),
        lambda: s3.list_objects_v2(Bucket="demo"),
    ):
        with pytest.raises(ClientError) as caught:
            refused()
        assert caught.value.response["Error"]["Code"] == "AccessDenied"
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
