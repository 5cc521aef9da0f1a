"""What a thousand slow clients cost the others: `python -m bench.slow_clients`.

A third of them never end their head, a third send a body one byte at a time, a third read their
answer one piece at a time. The memory of the gateway with them, and the 99th percentile of another
client's small reads and writes, without and with them, in rounds that take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tests.services.gateway_process import GatewayProcess

POLICY = """
[server]
listen = "127.0.0.1:8080"
auth = "none"
[registry]
type = "sqlite"
[stores.files]
type = "files"
root = "files"
"""
_BIG = 8 * 1024 * 1024
_PAUSE_S = 2.0


def resident_kib(pid: int) -> int:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    assert found is not None
    return int(found[1])


async def _slow(kind: int, host: str, port: int, number: int) -> None:
    reader, writer = await asyncio.open_connection(host, port, limit=4096)
    head = f"Host: {host}:{port}\r\nX-Fence-Token: 1\r\n"
    try:
        if kind == 0:
            writer.write(f"PUT /files/slow-{number} HTTP/1.1\r\nX".encode())
            while True:
                await asyncio.sleep(_PAUSE_S)
                writer.write(b"X")
                await writer.drain()
        elif kind == 1:
            start = f"PUT /files/slow-{number} HTTP/1.1\r\n{head}Content-Length: 100000\r\n\r\n"
            writer.write(start.encode())
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(_PAUSE_S)
        else:
            writer.write(f"GET /files/big HTTP/1.1\r\n{head}\r\n".encode())
            piece = b"some"
            while piece:
                piece = await reader.read(1024)
                await asyncio.sleep(_PAUSE_S)
    finally:
        writer.close()


async def clients(url: str, count: int) -> None:
    """So many slow clients, until the process is ended. One that is cut off comes back."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    host, port = parts.hostname, parts.port

    async def forever(number: int) -> None:
        await asyncio.sleep(_PAUSE_S * number / count)
        while True:
            with contextlib.suppress(OSError):
                await _slow(number % 3, host, port, number)
            await asyncio.sleep(_PAUSE_S)

    await asyncio.gather(*(forever(number) for number in range(count)))


@contextlib.contextmanager
def slow_clients(url: str, count: int) -> Iterator[None]:
    """The slow clients in a process of their own, while the block runs."""
    process = multiprocessing.get_context("spawn").Process(target=_run_clients, args=(url, count))
    process.start()
    time.sleep(3 * _PAUSE_S)  # until all of them are connected
    try:
        yield
    finally:
        process.kill()
        process.join()


def _run_clients(url: str, count: int) -> None:
    asyncio.run(clients(url, count))


def percentile_ms(url: str, requests: int) -> float:
    """The 99th percentile of another client's requests, half of them writes."""
    took = []
    with httpx.Client(timeout=30) as client:
        for number in range(requests):
            began = time.perf_counter()
            target = f"{url}/files/other-{number % 10}"
            if number % 2:
                client.get(target)
            else:
                headers = {"X-Fence-Token": "1"}
                client.put(target, content=b"x", headers=headers).raise_for_status()
            took.append((time.perf_counter() - began) * 1000)
    return statistics.quantiles(took, n=100)[98]


def main() -> None:
    """Print what it found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        gateway = GatewayProcess(POLICY, Path(directory)).start()
        try:
            httpx.put(
                f"{gateway.url}/files/big", content=bytes(_BIG), headers={"X-Fence-Token": "1"}
            ).raise_for_status()
            without, beside, memory = [], [], []
            for _ in range(asked.rounds):
                without.append(percentile_ms(gateway.url, asked.requests))
                with slow_clients(gateway.url, asked.clients):
                    beside.append(percentile_ms(gateway.url, asked.requests))
                    memory.append(resident_kib(gateway.pid) / 1024)
        finally:
            gateway.stop()
    a, b = statistics.median(without), statistics.median(beside)
    print(f"p99 without {a:.1f} ms, with {asked.clients} slow clients {b:.1f} ms: {b / a:.2f} x")
    allowed = 256 + asked.clients * 64 / 1024
    print(f"resident with them {max(memory):.0f} MiB, allowed {allowed:.0f} MiB")


if __name__ == "__main__":
    main()
