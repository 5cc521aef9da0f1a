"""Raw requests for the tests of the s3 dialect: unsigned, signed by hand, or made by boto3."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.awsrequest import AWSResponse
from botocore.config import Config

from gateway.dialects.s3.credentials import date_seconds
from gateway.dialects.s3.dialect import S3Dialect
from gateway.dialects.s3.sigv4 import (
    EMPTY_SHA256,
    AccessKey,
    UnsignedRequest,
    sign,
)
from gateway.model.problem import Problem
from gateway.model.worker import WorkerKey
from gateway.ports.body import Body
from gateway.ports.dialect import Parsed, RawRequest

ACCESS = "demo"
SECRET = "demo-secret"
REGION = "us-east-1"
STORE = "objects"
HOST = b"127.0.0.1:9000"
NOW_S = 1_800_000_000.0
KEYS = {
    ACCESS: WorkerKey(ACCESS, SECRET),
    "elsewhere": WorkerKey("elsewhere", "other", frozenset({"files"})),
}

Fields = list[tuple[bytes, bytes]]


class Pieces:
    """A body that arrives in the pieces given."""

    def __init__(self, *pieces: bytes, length: int | None = None) -> None:
        self.pieces = pieces
        self.length = sum(map(len, pieces)) if length is None else length

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._each()

    async def _each(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece


async def read_all(body: Body) -> bytes:
    """Read a body to its end."""
    return b"".join([piece async for piece in body])


def dialect(keys: dict[str, WorkerKey] | None = KEYS, region: str = REGION) -> S3Dialect:
    """Make the dialect under test."""
    return S3Dialect(STORE, keys, region)


def raw(
    method: str,
    path: bytes,
    query: bytes = b"",
    fields: Iterable[tuple[bytes, bytes]] = (),
    body: Body | bytes = b"",
    arrived_s: float = NOW_S,
) -> RawRequest:
    """Make a request as the edge hands it over; a Host field is added when there is none."""
    given = list(fields)
    if all(name != b"host" for name, _ in given):
        given.insert(0, (b"host", HOST))
    return RawRequest(
        method=method,
        path=path,
        query=query,
        fields=tuple(given),
        request_id="r-1",
        host="127.0.0.1:9000",
        https=False,
        arrived_s=arrived_s,
        body=Pieces(body) if isinstance(body, bytes) else body,
    )


def signed(
    method: str,
    path: bytes,
    query: bytes = b"",
    fields: Iterable[tuple[bytes, bytes]] = (),
    body: Body | bytes = b"",
    *,
    payload: str | None = None,
    access: str = ACCESS,
    secret: str = SECRET,
    region: str = REGION,
    at_s: float = NOW_S,
    unsigned: Iterable[tuple[bytes, bytes]] = (),
) -> RawRequest:
    """Sign a request; `payload` defaults to the hash of a bytes body, `unsigned` is added after."""
    if isinstance(body, bytes):
        payload = payload or hashlib.sha256(body).hexdigest()
        length = [(b"content-length", str(len(body)).encode())] if method == "PUT" else []
    else:
        length = []
    given = [(b"host", HOST), *fields]
    parts = UnsignedRequest(method, path, query, given, payload or EMPTY_SHA256)
    added = sign(parts, AccessKey(access, secret), region, at_s)
    has_length = any(name == b"content-length" for name, _ in [*given, *unsigned])
    return raw(
        method, path, query, [*given, *added, *([] if has_length else length), *unsigned], body
    )


async def parsed(request: RawRequest, keys: dict[str, WorkerKey] | None = KEYS) -> Parsed:
    """Parse a request that must be understood."""
    answer = await dialect(keys).parse(request)
    assert isinstance(answer, Parsed), answer
    return answer


async def problem(request: RawRequest, keys: dict[str, WorkerKey] | None = KEYS) -> Problem:
    """Parse a request that must be refused."""
    answer = await dialect(keys).parse(request)
    assert isinstance(answer, Problem), answer
    return answer


class BotoRecorder:
    """A real boto3 client whose requests are caught, signed and ready, instead of sent."""

    def __init__(self, endpoint: str = "http://127.0.0.1:9000", **config: Any) -> None:
        self.caught: list[RawRequest] = []
        self.client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=ACCESS,
            aws_secret_access_key=SECRET,
            region_name=REGION,
            config=Config(**config) if config else None,
        )
        self.client.meta.events.register("before-send.s3", self._catch)

    def _catch(self, request: Any, **_: Any) -> AWSResponse:
        self.caught.append(from_prepared(request))
        return AWSResponse(request.url, 200, {}, _NoBytes())

    def one(self, operation: str, **arguments: Any) -> RawRequest:
        """Make one call and return the request that it would have sent."""
        self.caught.clear()
        getattr(self.client, operation)(**arguments)
        (request,) = self.caught
        return request


class _NoBytes:
    """An empty answer from the wire."""

    def stream(self, *_: Any, **__: Any) -> Iterable[bytes]:
        return iter(())

    def read(self, *_: Any, **__: Any) -> bytes:
        return b""


def from_prepared(request: Any) -> RawRequest:
    """Turn botocore's prepared request into what the edge would make of it on arrival."""
    url = urlsplit(request.url)
    fields = {
        name.lower().encode(): value if isinstance(value, bytes) else str(value).encode("latin-1")
        for name, value in request.headers.items()
    }
    fields.setdefault(b"host", url.netloc.encode())
    data = request.body
    body = data.read() if hasattr(data, "read") else data or b""
    date = fields.get(b"x-amz-date", b"").decode()
    return raw(
        request.method,
        url.path.encode(),
        url.query.encode(),
        fields.items(),
        body if isinstance(body, bytes) else body.encode(),
        date_seconds(date) if date else NOW_S,
    )
