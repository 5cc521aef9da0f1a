"""A tiny server for the s3 dialect alone: ASGI in, an engine that is a dictionary, no fences.

It stands in for edge, engine and store, so that what a real client sees is the dialect's doing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import re
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from gateway.dialects.s3.credentials import date_seconds
from gateway.dialects.s3.dialect import S3Dialect
from gateway.model.object_action import (
    DeleteObject,
    GetObject,
    HeadBucket,
    ListBuckets,
    ListObjects,
    PutObject,
)
from gateway.model.operation import Operation
from gateway.model.outcome import Applied, Outcome, ReadFailed, ReadOk, Refused
from gateway.model.problem import Code, Problem
from gateway.model.reply import (
    BucketFound,
    Buckets,
    ListedObject,
    Listing,
    NotModified,
    ObjectDeleted,
    ObjectFound,
    ObjectMeta,
    ObjectPut,
)
from gateway.ports.body import BodyError
from gateway.ports.dialect import Parsed, RawRequest

WHEN_S = 1_700_000_000


class MemoryObjects:
    """Buckets of objects, with S3's answers. `refusals` are given first, one per operation."""

    def __init__(self, *buckets: str) -> None:
        self.buckets: dict[str, dict[str, tuple[bytes, ObjectMeta]]] = {b: {} for b in buckets}
        self.operations: list[Operation] = []
        self.refusals: list[Problem] = []

    async def handle(self, parsed: Parsed) -> Outcome:
        operation = parsed.operation
        self.operations.append(operation)
        if self.refusals:
            return Refused(self.refusals.pop(0))
        action = operation.action
        if isinstance(action, ListBuckets):
            return ReadOk(Buckets(tuple((name, WHEN_S) for name in sorted(self.buckets))))
        bucket = self.buckets.get(action.bucket)
        if bucket is None:
            return ReadFailed(Problem(Code.NOT_FOUND, "no such bucket", native="NoSuchBucket"))
        match action:
            case PutObject():
                return await self._put(bucket, operation, action, parsed)
            case DeleteObject(key=key):
                return Applied(ObjectDeleted(bucket.pop(key, None) is not None))
            case GetObject():
                return _get(bucket, operation, action)
            case ListObjects():
                return ReadOk(_list(bucket, action))
            case HeadBucket():
                return ReadOk(BucketFound("us-east-1"))
        raise AssertionError(action)

    async def _put(
        self, bucket: dict, operation: Operation, action: PutObject, parsed: Parsed
    ) -> Outcome:
        old = bucket.get(action.key)
        conditions = operation.conditions
        if (conditions.if_none_match and old) or (
            conditions.if_match and (old is None or old[1].etag not in conditions.if_match)
        ):
            return Refused(Problem(Code.PRECONDITION_FAILED, "the condition does not hold"))
        try:
            data = b"".join([piece async for piece in parsed.body])
        except BodyError as error:
            return Refused(error.problem)
        assert len(data) == action.length
        etag = f'"{hashlib.sha256(data).hexdigest()[:40]}"'
        bucket[action.key] = (data, ObjectMeta(etag, len(data), WHEN_S, action.metadata))
        return Applied(ObjectPut(etag, created=old is None))


def _get(bucket: dict, operation: Operation, action: GetObject) -> Outcome:
    if action.key not in bucket:
        return ReadFailed(Problem(Code.NOT_FOUND, "there is no such key"))
    data, meta = bucket[action.key]
    if meta.etag in (operation.conditions.if_none_match or ()):
        return ReadOk(NotModified(meta.etag))
    span = None
    if action.range_ is not None:
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", action.range_)
        assert found is not None
        first = int(found[1])
        last = min(int(found[2] or len(data)), len(data) - 1)
        if first > last:
            return ReadFailed(Problem(Code.NOT_SATISFIABLE, "the range is beyond the end"))
        span, data = (first, last, len(data)), data[first : last + 1]
    chunks = None if action.head else _once(data)
    return ReadOk(ObjectFound(meta, len(data), span, chunks))


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _list(bucket: dict, action: ListObjects) -> Listing:
    query = dict(action.query)
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    after = query.get("continuation-token", query.get("start-after", query.get("marker", "")))
    entries: dict[str, ListedObject | None] = {}
    for key in sorted(bucket, key=str.encode):
        if key.startswith(prefix):
            head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            name = prefix + head + found if found else key
            data, meta = bucket[key]
            entry = None if found else ListedObject(key, meta.etag, len(data), WHEN_S)
            if name.encode() > after.encode():
                entries.setdefault(name, entry)
    page = list(itertools.islice(entries, int(query["max-keys"])))
    return Listing(
        action.bucket,
        tuple(entry for name in page if (entry := entries[name]) is not None),
        tuple(name for name in page if entries[name] is None),
        page[-1] if len(page) < len(entries) and page else None,
    )


class AsgiBody:
    """A body over ASGI's receive."""

    def __init__(self, receive: Any, length: int | None) -> None:
        self.length = length
        self._receive = receive

    async def __aiter__(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise BodyError(Problem(Code.REQUEST_MALFORMED, "the client is gone"))
            more = message.get("more_body", False)
            yield message.get("body", b"")


class App:
    """Raw ASGI around a dialect. A request counts as having arrived when it was signed."""

    def __init__(self, dialect: S3Dialect, objects: MemoryObjects) -> None:
        self.dialect = dialect
        self.objects = objects
        self.requests: list[RawRequest] = []
        self._ids = itertools.count(1)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = self._request(scope, receive)
        self.requests.append(request)
        parsed = await self.dialect.parse(request)
        if isinstance(parsed, Problem):
            reply = self.dialect.render(request, None, Refused(parsed))
        else:
            outcome = await self.objects.handle(parsed)
            reply = self.dialect.render(request, parsed, outcome)
        fields = list(reply.fields)
        if reply.status >= 400 and request.method == "PUT":
            fields.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": reply.status, "headers": fields})
        if isinstance(reply.body, bytes):
            await send({"type": "http.response.body", "body": reply.body})
            return
        async for piece in reply.body:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})

    def _request(self, scope: Any, receive: Any) -> RawRequest:
        fields = tuple(scope["headers"])
        values = dict(fields)
        date = values.get(b"x-amz-date", b"").decode() or re.findall(
            r"X-Amz-Date=(\w+)", scope["query_string"].decode()
        )
        date = date[0] if isinstance(date, list) and date else date
        length = int(values.get(b"content-length", b"0"))
        return RawRequest(
            method=scope["method"],
            path=scope["raw_path"],
            query=scope["query_string"],
            fields=fields,
            request_id=f"req-{next(self._ids)}",
            host=values[b"host"].decode(),
            https=False,
            arrived_s=date_seconds(date) if date else 0.0,
            body=AsgiBody(receive, length),
        )


@dataclasses.dataclass
class Running:
    """A server that runs, and what it sees."""

    endpoint: str
    app: App
    objects: MemoryObjects


@contextmanager
def serving(dialect: S3Dialect, objects: MemoryObjects) -> Iterator[Running]:
    """Serve a dialect on a free port of the loopback interface, in a thread with its own loop."""
    app = App(dialect, objects)
    listener = socket.create_server(("127.0.0.1", 0))
    started = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets=sockets)
            started.set()

    config = uvicorn.Config(
        app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False
    )
    server = Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        assert started.wait(10), "the server did not start"
        yield Running(f"http://127.0.0.1:{listener.getsockname()[1]}", app, objects)
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
        assert not thread.is_alive()
