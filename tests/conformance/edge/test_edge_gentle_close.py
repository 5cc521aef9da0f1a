"""An early refusal reaches its client, and the client's next request is none the worse."""

import asyncio
import http.client
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from typing import Any

import boto3
import botocore.config
import botocore.exceptions
import pytest

from gateway.edge.exchange import Exchange
from gateway.edge.limits import EdgeLimits
from gateway.edge.strict import StrictProtocol
from tests.conformance.edge.must_reject import put
from tests.conformance.edge.raw_http import RawConnection
from tests.conformance.edge.recording_gateway import RecordingGateway, recording_gateway

SIZES = [0, 5, 3_000_000]
ROUNDS = 5


@pytest.fixture
async def gateway() -> AsyncIterator[RecordingGateway]:
    async with recording_gateway() as running:
        running.store.mark = 5
        yield running


def with_http_client(gateway: RecordingGateway, size: int) -> list[int]:
    """One connection object for both, as a worker would keep it."""
    client = http.client.HTTPConnection(*gateway.address, timeout=10)
    statuses = []
    try:
        for token in ("1", "5"):
            client.request("PUT", "/k", b"x" * size, {"X-Fence-Token": token})
            answer = client.getresponse()
            answer.read()
            statuses.append(answer.status)
    finally:
        client.close()
    return statuses


def with_urllib(gateway: RecordingGateway, size: int) -> list[int]:
    statuses = []
    for token in ("1", "5"):
        request = urllib.request.Request(
            gateway.url + "/k", b"x" * size, {"X-Fence-Token": token}, method="PUT"
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                statuses.append(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                statuses.append(error.code)
    return statuses


def fenced_client(gateway: RecordingGateway, token: Callable[[], str], timeout_s: int) -> Any:
    client = boto3.client(
        "s3",
        endpoint_url=gateway.url,
        region_name="us-east-1",
        aws_access_key_id="demo",
        aws_secret_access_key="demo-secret",
        config=botocore.config.Config(
            s3={"addressing_style": "path"}, read_timeout=timeout_s, retries={"max_attempts": 3}
        ),
    )

    def add_token(request: Any, **_: object) -> None:
        request.headers["X-Fence-Token"] = token()

    client.meta.events.register("before-sign.s3", add_token)
    return client


def with_boto3(gateway: RecordingGateway, size: int, timeout_s: int = 4) -> list[int]:
    token = "1"
    client = fenced_client(gateway, lambda: token, timeout_s)
    statuses = []
    try:
        for number in ("1", "5"):
            token = number
            try:
                answer = client.put_object(Bucket="bucket", Key="k", Body=b"x" * size)
                statuses.append(answer["ResponseMetadata"]["HTTPStatusCode"])
            except botocore.exceptions.ClientError as error:
                statuses.append(error.response["ResponseMetadata"]["HTTPStatusCode"])
    finally:
        client.close()
    return statuses


CLIENTS = {"http.client": with_http_client, "urllib": with_urllib, "boto3": with_boto3}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CLIENTS)
async def test_the_client_finds_the_refusal(
    gateway: RecordingGateway, name: str, size: int
) -> None:
    """It sees the 412; its next PUT is quick and reaches the store once."""
    for _ in range(ROUNDS):
        gateway.store.reached.clear()
        gateway.store.writes.clear()
        gateway.store.objects.clear()
        began = time.monotonic()
        assert await asyncio.to_thread(CLIENTS[name], gateway, size) == [412, 201]
        assert time.monotonic() - began < 2
        assert len(gateway.store.reached) == 2
        assert [len(data) for _, data in gateway.store.writes] == [size]


NODE = """
const [url, size] = [process.argv[1], Number(process.argv[2])];
const seen = [];
for (const token of ["1", "5"]) {
  const body = new Uint8Array(size);
  const answer = await fetch(url, {method: "PUT", body, headers: {"x-fence-token": token}});
  await answer.arrayBuffer();
  seen.push(answer.status);
}
console.log(JSON.stringify(seen));
"""


@pytest.mark.extra
@pytest.mark.parametrize("size", SIZES)
async def test_node_fetch_finds_the_refusal(gateway: RecordingGateway, size: int) -> None:
    """The same for fetch, which gives up a connection that closes on it while it sends."""
    for _ in range(ROUNDS):
        gateway.store.objects.clear()
        process = await asyncio.create_subprocess_exec(
            "node",
            "--input-type=module",
            "-e",
            NODE,
            gateway.url + "/k",
            str(size),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await asyncio.wait_for(process.communicate(), 20)
        assert process.returncode == 0, errors.decode()
        assert json.loads(output) == [412, 201]


SENDS_BEFORE_IT_READS = """
import http.client, sys
lost = 0
for _ in range(int(sys.argv[4])):
    client = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=10)
    try:
        client.request("PUT", "/k", b"x" * int(sys.argv[3]), {"X-Fence-Token": "1"})
        assert client.getresponse().status == 412
    except OSError:
        lost += 1
    client.close()
print(lost)
"""


async def lost_answers(gateway: RecordingGateway, size: int) -> int:
    """How many of 20 refusals a client in a process of its own does not find."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SENDS_BEFORE_IT_READS,
        gateway.address[0],
        str(gateway.address[1]),
        str(size),
        "20",
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 30)
    return int(output)


@pytest.mark.parametrize("size", [3_000_000, 10_000_000])
async def test_no_refusal_of_a_large_body_is_lost(gateway: RecordingGateway, size: int) -> None:
    """A client that sends its whole body before it reads finds 20 of 20 refusals."""
    assert await lost_answers(gateway, size) == 0


async def test_an_abrupt_close_would_lose_them(
    gateway: RecordingGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: closed at once instead, the refusals are lost."""
    monkeypatch.setattr(StrictProtocol, "_linger", lambda self: self.transport.close())
    assert await lost_answers(gateway, 10_000_000) > 0


async def test_a_kept_connection_would_spoil_the_next_request(
    gateway: RecordingGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: kept alive, boto3's next PUT comes late and twice."""
    start = Exchange._start

    def keep(self: Exchange, *args: Any) -> bytes:
        self.ended, self.awaits_continue = True, False
        return start(self, *args)

    monkeypatch.setattr(Exchange, "_start", keep)
    began = time.monotonic()
    await asyncio.to_thread(with_boto3, gateway, 0, 1)
    assert time.monotonic() - began > 0.9
    assert len(gateway.store.reached) > 2


async def until_cut_off(connection: RawConnection, piece: bytes, pause_s: float) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                await connection.send(piece)
            except ConnectionError:
                return
            await asyncio.sleep(pause_s)


async def test_the_rest_is_read_within_bounds() -> None:
    """A client that never stops is cut off after the bytes, one that stalls after the time."""
    limits = EdgeLimits(linger_max_bytes=100_000, linger_timeout_s=0.3)
    async with recording_gateway(limits=limits) as gateway:
        gateway.store.mark = 5
        head = put(b"Content-Length: 900000000\r\n", token=b"X-Fence-Token: 1\r\n")
        endless = await gateway.connect()
        await endless.send(head)
        assert (await endless.answer()).status == 412
        await until_cut_off(endless, b"x" * 65_536, pause_s=0)
        stalled = await gateway.connect()
        await stalled.send(head)
        assert (await stalled.answer()).status == 412
        began = time.monotonic()
        await until_cut_off(stalled, b"x", pause_s=0.02)
        assert 0.1 < time.monotonic() - began < 2


async def test_a_refusal_behind_a_read_body_keeps_the_connection(
    gateway: RecordingGateway,
) -> None:
    """The body has arrived with the head: nothing is left to read, nothing must close."""
    connection: RawConnection = await gateway.connect()
    for _ in range(2):
        await connection.send(put(b"Content-Length: 3\r\n", b"abc", token=b"X-Fence-Token: 1\r\n"))
        answer = await connection.answer()
        assert (answer.status, answer.fields["x-fence-mark"]) == (412, "5")
        assert "connection" not in answer.fields
    await connection.close()
