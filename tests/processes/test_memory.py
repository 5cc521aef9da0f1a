"""A body passes through and is never held: what a gateway grows by while 1 GiB is written."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import httpx
import pytest
from botocore.exceptions import ClientError

from gateway.testing.numbering_origin import NumberingOrigin
from tests.processes.test_real_stores import client, s3_policy
from tests.services.gateway_process import GatewayProcess
from tests.services.object_stores import ObjectStore

Start = Callable[..., GatewayProcess]

GIB = 1 << 30
PIECE = bytes(range(256)) * 4096  # 1 MiB
MOST_GROWTH_KIB = 32 * 1024
MOST_HELD_KIB = 48 * 1024  # a body of 16 MiB that is held, twice while its pieces are joined
FILES = """
[server]
listen = "127.0.0.1:8080"
[registry]
type = "sqlite"
[[auth.keys]]
id = "worker"
secret = "worker-secret"
[stores.files]
type = "files"
root = "files"
[stores.lake]
type = "files"
root = "objects"
dialect = "s3"
listen = "127.0.0.1:9000"
buckets = ["demo"]
"""

pytestmark = [pytest.mark.extra, pytest.mark.timeout(240)]


def memory_kib(pid: int, name: str) -> int:
    """A figure of /proc: VmRSS is what is resident now, VmHWM the most that ever was."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise LookupError(name)


def gibibyte() -> Iterator[bytes]:
    for _ in range(GIB // len(PIECE)):
        yield PIECE


class Gibibyte:
    """1 GiB that can be read and sought, as boto3 asks of a body, without lying anywhere."""

    def __init__(self) -> None:
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most one piece."""
        left = GIB - self._at
        size = min(left if size < 0 else size, left, len(PIECE))
        begin = self._at % len(PIECE)
        piece = PIECE[begin : begin + size]
        self._at += len(piece)
        return piece

    def seek(self, to: int, whence: int = 0) -> int:
        """Move; boto3 finds the length out this way."""
        self._at = to + {0: 0, 1: self._at, 2: GIB}[whence]
        return self._at

    def tell(self) -> int:
        """Where the next byte comes from."""
        return self._at


@contextmanager
def running_origin() -> Iterator[NumberingOrigin]:
    """An origin that is served by a thread of its own while the test blocks."""
    origin, loop = NumberingOrigin(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="origin")
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(origin.start(), loop).result(10)
        yield origin
        asyncio.run_coroutine_threadsafe(origin.aclose(), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def growth_kib(pid: int, small: Callable[[], object], big: Callable[[], object]) -> int:
    """The most that was resident during `big` beyond what was resident behind `small`."""
    small()
    before = memory_kib(pid, "VmRSS")
    big()
    return memory_kib(pid, "VmHWM") - before


def put_object(gateway: GatewayProcess, bucket: str, body: Any) -> None:
    client(gateway, 1).put_object(Bucket=bucket, Key="big", Body=cast(IO[bytes], body))


def test_http_into_files(gateway_process: Start) -> None:
    """PUT of 1 GiB: at most 32 MiB of growth, and every byte arrives."""
    gateway = gateway_process(FILES)
    headers = {"X-Fence-Token": "1", "Authorization": "Bearer worker-secret"}
    url = f"{gateway.url}/files/big"

    def put(body: bytes | Iterator[bytes], length: int) -> None:
        sized = headers | {"Content-Length": str(length)}
        assert httpx.put(url, content=body, headers=sized, timeout=120).is_success

    grown = growth_kib(gateway.pid, lambda: put(b"small", 5), lambda: put(gibibyte(), GIB))
    digest = hashlib.sha256()
    with httpx.stream("GET", url, headers=headers, timeout=120) as answer:
        for piece in answer.iter_bytes():
            digest.update(piece)
    expected = hashlib.sha256()
    for piece in gibibyte():
        expected.update(piece)
    assert digest.digest() == expected.digest()
    print(f"grown by {grown} KiB")
    assert grown <= MOST_GROWTH_KIB


def test_s3_into_files(gateway_process: Start) -> None:
    """boto3's put_object of 1 GiB, signed and hashed: at most 32 MiB of growth."""
    gateway = gateway_process(FILES)
    grown = growth_kib(
        gateway.pid,
        lambda: put_object(gateway, "demo", b"small"),
        lambda: put_object(gateway, "demo", Gibibyte()),
    )
    head = client(gateway, 1).head_object(Bucket="demo", Key="big")
    assert head["ContentLength"] == GIB
    print(f"grown by {grown} KiB")
    assert grown <= MOST_GROWTH_KIB


def test_s3_into_an_origin(gateway_process: Start) -> None:
    """The same into an S3 origin that acts on whole uploads: nothing is kept on the way."""
    with running_origin() as origin:
        at = ObjectStore(origin.url, "key", "secret")
        gateway = gateway_process(s3_policy(at, "kit"))
        origin.discard_bodies = True
        grown = growth_kib(
            gateway.pid,
            lambda: put_object(gateway, "kit", b"small"),
            lambda: put_object(gateway, "kit", Gibibyte()),
        )
        assert origin.received["big"] >= GIB
    print(f"grown by {grown} KiB")
    assert grown <= MOST_GROWTH_KIB


def test_s3_into_a_server_that_acts_early(
    gateway_process: Start, ministack: ObjectStore, ministack_bucket: str
) -> None:
    """A server that would act on half an upload: bodies are held to a bound, and 1 GiB is refused.

    Both S3 servers that come as packages are of this kind, which the probe finds out.
    """
    gateway = gateway_process(s3_policy(ministack, ministack_bucket))

    def offer() -> None:
        put_object(gateway, ministack_bucket, PIECE * 16)
        with pytest.raises(ClientError) as refused:
            put_object(gateway, ministack_bucket, Gibibyte())
        assert refused.value.response["Error"]["Code"] == "EntityTooLarge"

    grown = growth_kib(gateway.pid, lambda: put_object(gateway, ministack_bucket, b"small"), offer)
    head = client(gateway, 1).head_object(Bucket=ministack_bucket, Key="big")
    assert head["ContentLength"] == len(PIECE) * 16
    print(f"grown by {grown} KiB")
    assert grown <= MOST_HELD_KIB


def test_a_body_that_is_held_is_seen() -> None:
    """The measure is not blind: a process that holds a body of 256 MiB shows it."""
    held: list[bytes] = []
    grown = growth_kib(os.getpid(), lambda: None, lambda: held.append(b"x" * (256 << 20)))
    assert grown > MOST_GROWTH_KIB
