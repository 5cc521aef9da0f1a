"""What an operator or a schema can do wrong, met by a real gateway: refused, or told."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from gateway.cli.promise import promise
from gateway.policy.load import PolicyError, loads
from tests.services.gateway_process import GatewayProcess

QUICKSTART = (Path(__file__).parents[2] / "policies" / "quickstart.toml").read_text()
Start = Callable[..., GatewayProcess]


@pytest.mark.parametrize(
    "before, after",
    [
        ('root = "files"', 'root = "."'),
        ('root = "files"', 'root = "/"'),
        ('root = "files"', 'root = "objects/inside"'),
        ('root = "objects"', 'root = "files/inside"'),
        ('path = "db.sqlite"', 'path = "files/db.sqlite"'),
        ('path = "db.sqlite"', 'path = "registry.sqlite"'),
    ],
)
def test_a_store_never_holds_another_or_our_state(before: str, after: str) -> None:
    """Marks, keys and the data of other stores are not reachable as files of a store."""
    assert before in QUICKSTART
    with pytest.raises(PolicyError):
        loads(QUICKSTART.replace(before, after))


def test_links_are_followed_before_places_are_compared(tmp_path: Path) -> None:
    """A link into another store's directory is the same place under another name."""
    (tmp_path / "files").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "files")
    text = QUICKSTART.replace('data_dir = "data"', f'data_dir = "{tmp_path}"')
    loads(text)
    with pytest.raises(PolicyError):
        loads(text.replace('root = "objects"', 'root = "link/inside"'))


@pytest.mark.parametrize(
    "scope, status",
    [
        ("files:x", 200),
        ("files:a/b%2Cc", 200),
        ("files:", 404),
        ("files:/x", 404),
        ("files:x%41", 404),
        ("files:é", 404),
        ("files:a/../b", 404),
        ("files:a//b", 404),
        ("files:reports/eu/july.txt", 404),
        ("reports/eu", 200),
        ("reports/", 404),
        ("reports/a/b", 404),
        ("reports/%65u", 404),
        ("jobs", 200),
        ("db:jobs/1", 404),
        ("db:nosuch/1", 404),
        ("objects:demo/k//..", 200),
        ("objects:demo", 404),
    ],
)
def test_only_scopes_that_requests_have_are_sealed(
    shared_gateway: GatewayProcess, scope: str, status: int
) -> None:
    """A misspelt seal would be answered, and shut nobody out."""
    sealed = httpx.post(
        shared_gateway.url + "/v1/seal",
        json={"scope": scope},
        headers=shared_gateway.admin_headers,
    )
    assert sealed.status_code == status, sealed.text


@pytest.fixture
def shared_gateway(gateway_process: Start) -> GatewayProcess:
    return gateway_process(QUICKSTART)


def test_a_conflict_clause_removes_no_row_of_another_scope(gateway_process: Start) -> None:
    """UNIQUE ON CONFLICT REPLACE would let an old token delete a row under a newer mark."""
    policy = QUICKSTART.replace(
        'init = """',
        'init = """CREATE TABLE IF NOT EXISTS tv (id integer PRIMARY KEY,'
        " u text UNIQUE ON CONFLICT REPLACE, v text);",
    ).replace("[stores.db.tables.jobs]", "[stores.db.tables.tv]\n[stores.db.tables.jobs]")
    gateway = gateway_process(policy)
    rows = gateway.store_url("db") + "/tv"
    assert httpx.post(rows, json={"id": 1, "u": "k"}, headers={"X-Fence-Token": "10"}).is_success
    late = httpx.post(rows, json={"id": 2, "u": "k"}, headers={"X-Fence-Token": "1"})
    assert (late.status_code, late.json()["code"]) == (409, "23505")
    two = {"id": 3, "u": "other"}
    assert httpx.post(rows, json=two, headers={"X-Fence-Token": "1"}).is_success
    moved = httpx.patch(f"{rows}?id=eq.3", json={"u": "k"}, headers={"X-Fence-Token": "1"})
    assert moved.status_code == 409
    assert httpx.get(f"{rows}?id=eq.1").json()[0]["u"] == "k"


def test_side_effects_of_a_database_are_told() -> None:
    """Triggers and cascades are not fenced, and `explain` says so for every database store."""
    policy = loads(QUICKSTART)
    told = promise([policy.stores["db"]], policy.registry).not_covered
    assert any("triggers" in line for line in told)


def test_what_a_directory_cannot_give_is_refused(gateway_process: Start) -> None:
    """An ACL or encryption that is asked for is refused by name, never dropped in silence."""
    gateway = gateway_process(QUICKSTART)
    s3 = boto3.client(
        "s3",
        endpoint_url=gateway.store_url("objects"),
        region_name="us-east-1",
        aws_access_key_id="demo",
        aws_secret_access_key="demo-secret",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}),
    )
    s3.meta.events.register(
        "before-sign.s3", lambda request, **_: request.headers.add_header("X-Fence-Token", "2")
    )
    where = {"Bucket": "demo", "Key": "k", "Body": b"x"}
    for asked in ({"ACL": "public-read"}, {"ServerSideEncryption": "AES256"}):
        with pytest.raises(ClientError) as refused:
            s3.put_object(**where, **asked)
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 501
    s3.put_object(**where, ACL="private")
    assert s3.get_object(Bucket="demo", Key="k")["Body"].read() == b"x"


def test_a_stalled_client_does_not_hold_the_end_up(gateway_process: Start) -> None:
    """SIGTERM ends well before a body's idle limit; what was half sent is not there afterwards."""
    gateway = gateway_process(QUICKSTART)
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=15) as client:
        head = "PUT /files/k HTTP/1.1\r\nHost: h\r\nX-Fence-Token: 1\r\nContent-Length: 100\r\n\r\n"
        client.sendall(head.encode() + b"abc")
        httpx.get(gateway.url + "/healthz")
        assert gateway.stop(deadline_s=14) == 0
    gateway.start()
    assert httpx.get(gateway.url + "/files/k").status_code == 404
