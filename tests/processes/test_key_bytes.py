"""Keys are bytes that go from the socket to the store as they are, whatever they spell."""

from __future__ import annotations

import hashlib
import http.client
import time
from collections.abc import Callable
from urllib.parse import quote, quote_from_bytes

import pytest

from gateway.dialects.s3.sigv4 import AccessKey, UnsignedRequest, sign
from tests.processes.test_real_stores import client, s3_policy
from tests.services.gateway_process import GatewayProcess
from tests.services.object_stores import ObjectStore

pytestmark = pytest.mark.timeout(180)

Start = Callable[..., GatewayProcess]

FILES = """
[server]
listen = "127.0.0.1:8080"
[registry]
type = "sqlite"
[[auth.keys]]
id = "worker"
secret = "worker-secret"
[stores.lake]
type = "files"
dialect = "s3"
root = "objects"
listen = "127.0.0.1:9000"
buckets = ["demo"]
"""
KEYS = [
    "plain",
    "a b",
    "a+b",
    "a%20b",
    "a%2Bb",
    "%2F",
    "100%",
    "a/b",
    "a//b",
    "a/",
    "//",
    "/lead",
    ".",
    "..",
    "../up",
    "a/./b",
    "a/../b",
    "~*'()!$,;:@=&",
    '"<>[]{}|\\^`',
    "?q=1#f",
    "\u00fc/\u65e5\u672c",
    "e\u0301",
    "\u00e9",
    "\U0001f600",
    "UPPER",
    "upper",
    "x" * 1024,
]
SPELLINGS = {
    "a~b": ["a~b", "a%7Eb", "a%7eb", "%61~b"],
    "a+b": ["a+b", "a%2Bb", "a%2bb"],
    "a b": ["a%20b"],
    "a//b": ["a//b", "a/%2Fb", "a%2f%2Fb"],
    "\u00fc": ["%C3%BC", "%c3%bc"],
    "(x)*!": ["(x)*!", "%28x%29%2A%21"],
    "..": ["..", "%2E%2e"],
}


def raw_request(
    gateway: GatewayProcess, method: str, path: str, body: bytes = b""
) -> tuple[int, bytes]:
    """Send a path as it is spelt here, signed by the rules of S3; status and body."""
    host = gateway.store_url("lake").removeprefix("http://")
    fields = [(b"host", host.encode()), (b"x-fence-token", b"1")]
    hashed = hashlib.sha256(body).hexdigest()
    request = UnsignedRequest(method, path.encode(), b"", fields, hashed)
    added = sign(request, AccessKey("worker", "worker-secret"), "us-east-1", time.time())
    connection = http.client.HTTPConnection(host, timeout=10)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in [*fields, *added]:
            connection.putheader(name.decode(), value)
        if method == "PUT":
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def check_keys(gateway: GatewayProcess, bucket: str, keys: list[str]) -> None:
    s3 = client(gateway, 1)
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    for key in keys:
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode(), key
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert {entry["Key"] for entry in listed} >= set(keys)


def check_spellings(gateway: GatewayProcess, bucket: str) -> None:
    for key, spellings in SPELLINGS.items():
        for spelling in spellings:
            status, _ = raw_request(gateway, "PUT", f"/{bucket}/{spelling}", spelling.encode())
            assert status == 200, spelling
            for other in {*spellings, quote(key)}:
                status, body = raw_request(gateway, "GET", f"/{bucket}/{other}")
                assert (status, body) == (200, spelling.encode()), (spelling, other)
        got = client(gateway, 1).get_object(Bucket=bucket, Key=key)["Body"].read()
        assert got == spellings[-1].encode()


def test_keys_over_files(gateway_process: Start) -> None:
    """Each key is an object of its own; every spelling of a key in a target is the same object."""
    gateway = gateway_process(FILES)
    check_keys(gateway, "demo", KEYS)
    listed = client(gateway, 1).list_objects_v2(Bucket="demo")["Contents"]
    assert [entry["Key"].encode() for entry in listed] == sorted(key.encode() for key in KEYS)
    check_spellings(gateway, "demo")
    status, body = raw_request(gateway, "PUT", f"/demo/{quote_from_bytes(bytes([0xFF]))}", b"x")
    assert (status, b"InvalidURI" in body) == (400, True)


def test_keys_over_a_server(
    gateway_process: Start, ministack: ObjectStore, ministack_bucket: str
) -> None:
    """The server holds the very keys that the client sent, as its own client sees them."""
    gateway = gateway_process(s3_policy(ministack, ministack_bucket))
    check_keys(gateway, ministack_bucket, KEYS)
    direct = ministack.client()
    for key in KEYS:
        got = direct.get_object(Bucket=ministack_bucket, Key=key)
        assert got["Body"].read() == key.encode(), key
    check_spellings(gateway, ministack_bucket)
    direct.close()
