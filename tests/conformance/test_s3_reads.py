"""Reads through the `s3` store: relayed as they are, minus the stamp, and never cut in silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from gateway.model.object_action import GetObject, HeadBucket, ListObjects
from gateway.model.problem import Code
from gateway.model.reply import ObjectFound
from gateway.ports.store import ReadDone, ReadRefused, ReadResult, Written
from gateway.stores.s3.store import S3Store
from gateway.upstream.exchange import StreamBroken
from gateway.upstream.pool import Timeouts
from tests.conformance.s3_lake import BUCKET, open_lake, operation, s3_store
from tests.services.object_stores import ObjectStore
from tests.services.tls_identity import client_context, server_context

GET = GetObject(BUCKET, "k")


def found(result: ReadResult) -> ObjectFound:
    """The object that must have been found."""
    assert isinstance(result, ReadDone), result
    assert isinstance(result.reply, ObjectFound)
    return result.reply


def refused(result: ReadResult, code: Code) -> str:
    """The message of a refusal with this code."""
    assert isinstance(result, ReadRefused), result
    assert result.problem.code is code, result.problem
    return result.problem.message


async def test_stamp_is_hidden() -> None:
    """Metadata comes back as it was put; the stamp, which the origin holds, does not."""
    async with open_lake() as lake:
        metadata = (("content-type", "a/b"), ("x-amz-meta-x", "ü"))
        assert isinstance(await lake.put("k", b"1", metadata=metadata), Written)
        assert any("fencegate" in name for name, _ in lake.origin.objects["k"].fields)
        for head in (False, True):
            reply = found(await lake.read(GetObject(BUCKET, "k", head=head)))
            assert reply.meta.metadata == metadata
            assert reply.meta.last_modified_s == 1_750_000_000
            assert (reply.chunks is None) is head
            if reply.chunks is not None:
                assert [piece async for piece in reply.chunks] == [b"1"]


async def test_abandoned_reads_free_their_connection() -> None:
    """A reader that goes away in the middle, or before the first byte, holds nothing."""
    async with open_lake(connections=1, timeouts=Timeouts(connect_s=1)) as lake:
        lake.plant("k", bytes(8_000_000))
        for pieces in (0, 1):
            chunks = found(await lake.read(GET)).chunks
            assert chunks is not None
            for _ in range(pieces):
                await anext(chunks)
            await chunks.aclose()  # type: ignore[attr-defined]
        reply = found(await lake.read(GET))
        assert reply.chunks is not None
        assert sum([len(piece) async for piece in reply.chunks]) == 8_000_000
        assert found(await lake.read(GetObject(BUCKET, "k", head=True))).length == 8_000_000


@asynccontextmanager
async def scripted(*answers: bytes) -> AsyncIterator[tuple[S3Store, Callable[[], int]]]:
    """A store over a server that gives these answers, one connection each, then closes."""
    left = list(answers)
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.readuntil(b"\r\n\r\n")
        asked += 1
        writer.write(left.pop(0))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    store = s3_store(ObjectStore(f"http://127.0.0.1:{port}", "k", "s"), BUCKET)
    try:
        yield store, lambda: asked
    finally:
        await store.aclose()
        server.close()


async def test_cut_object_is_an_error() -> None:
    """A body that ends early raises in the middle of the answer; it never ends as if whole."""
    head = b'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 10\r\n\r\n'
    async with scripted(head + b"12345") as (store, _):
        chunks = found(await store.read(operation(GET))).chunks
        assert chunks is not None
        assert await anext(chunks) == b"12345"
        with pytest.raises(StreamBroken):
            await anext(chunks)
        with pytest.raises(StreamBroken):
            await anext(chunks)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b'HTTP/1.1 200 OK\r\nETag: "e"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
        b'HTTP/1.1 206 -\r\nETag: "e"\r\nContent-Length: 1\r\n\r\n1',
        b'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 1\r\nTransfer-Encoding: x\r\n\r\n',
        b"garbage\r\n\r\n",
        b"",
    ],
    ids=["no etag", "no length", "no range", "framing", "garbage", "nothing"],
)
async def test_useless_answers(answer: bytes) -> None:
    """An answer without what an object needs is refused, once asked and not twice."""
    async with scripted(answer) as (store, asked):
        text = refused(await store.read(operation(GET)), Code.UPSTREAM_FAILED)
        assert "'lake'" in text
        assert asked() == 1


async def test_redirects_are_never_followed() -> None:
    """Neither an object nor a listing nor a look follows, or tells, another address."""
    answer = (
        b"HTTP/1.1 307 -\r\nLocation: http://127.0.0.1:1/x\r\nContent-Length: 52\r\n\r\n"
        b"<Error><Code>TemporaryRedirect</Code></Error>       "
    )
    async with scripted(answer, answer, answer) as (store, asked):
        for action in (GET, ListObjects(BUCKET, 2), HeadBucket(BUCKET)):
            result = await store.read(operation(action))
            assert "127.0.0.1:1" not in refused(result, Code.UPSTREAM_FAILED)
        assert asked() == 3


async def test_kept_connection_that_was_closed_is_replaced() -> None:
    """A read on a kept connection that dies before a byte of answer is asked once more."""
    async with open_lake() as lake:
        lake.plant("k", b"1")
        for _ in range(2):
            reply = found(await lake.read(GET))
            assert reply.chunks is not None
            assert [piece async for piece in reply.chunks] == [b"1"]
            lake.origin.faults.drop_requests = 1
        assert len([a for a in lake.origin.asked if a.method == "GET"]) == 3


async def test_over_tls() -> None:
    """The same store over https: put, look and read, with the certificate checked."""
    async with open_lake(tls=client_context(), server_tls=server_context()) as lake:
        assert lake.origin.url.startswith("https://")
        data = bytes(range(256)) * 2000
        assert isinstance(await lake.put("k", data), Written)
        reply = found(await lake.read(GET))
        assert reply.chunks is not None
        assert b"".join([piece async for piece in reply.chunks]) == data


async def test_signed_hash_of_the_client_is_kept() -> None:
    """The body's hash that the client signed is signed again, so that the store checks it too."""
    async with open_lake() as lake:
        assert isinstance(await lake.put("k", b"1", sha256="ab" * 32), Written)
        assert isinstance(await lake.put("k", b"2", "w2"), Written)
        hashes = [a.get("x-amz-content-sha256") for a in lake.origin.asked if a.method == "PUT"]
        assert hashes == ["ab" * 32, "UNSIGNED-PAYLOAD"]
