"""The demo's stage: a gateway process in a directory of its own, and worker processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from gateway.settings import policy_path

_START_S: Final = 20.0
_STEP_S: Final = 60.0


class StageError(Exception):
    """A process of the demo did not do its part; the text says which and what it printed."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway: where its two listeners are."""

    http_url: str
    s3_url: str


@asynccontextmanager
async def gateway(directory: Path) -> AsyncIterator[Gateway]:
    """Serve the quick-start policy on free ports, with its data in `directory`."""
    policy = directory / "policy.toml"
    at = Gateway(*(f"http://127.0.0.1:{port}" for port in _free_ports(2)))
    text = policy_path().read_text()
    for address, url in (("127.0.0.1:8080", at.http_url), ("127.0.0.1:9000", at.s3_url)):
        text = text.replace(address, url.removeprefix("http://"))
    policy.write_text(text)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "serve", str(policy)),
        cwd=directory,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=(directory / "gateway.log").open("wb"),
    )
    try:
        await _until_ready(process, at, directory)
        yield at
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _free_ports(count: int) -> list[int]:
    """Ports that differ: all are taken before the first is given back."""
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(server.getsockname()[1]) for server in taken]


async def _until_ready(process: asyncio.subprocess.Process, at: Gateway, directory: Path) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_START_S), httpx.AsyncClient() as client:
            while process.returncode is None:
                if await _is_ready(client, at.http_url):
                    return
                await asyncio.sleep(0.05)
    log = (directory / "gateway.log").read_text(errors="replace")[-2000:]
    raise StageError(f"the gateway did not start:\n{log}")


async def _is_ready(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(f"{url}/readyz")).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


class Worker:
    """A worker process that can be paused for real (SIGSTOP) and woken (SIGCONT)."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._process = process

    @classmethod
    async def start(cls, name: str, token: int, at: Gateway) -> Worker:
        """Start a worker that holds `token`."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway.demo.worker", name, str(token)),
            *(at.http_url, at.s3_url),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={k: v for k, v in os.environ.items() if not k.startswith("AWS_")},
        )
        return cls(name, process)

    async def events(self, until: str) -> AsyncIterator[dict[str, Any]]:
        """What the worker tells, up to and without the event `until`."""
        assert self._process.stdout is not None
        while True:
            async with asyncio.timeout(_STEP_S):
                line = await self._process.stdout.readline()
            if not line:
                raise StageError(f"worker {self.name} ended too early")
            event = json.loads(line)
            if event["event"] == until:
                return
            yield event

    def pause(self) -> None:
        """Freeze the process, and have it find its go-ahead when it wakes."""
        assert self._process.stdin is not None
        self._process.send_signal(signal.SIGSTOP)
        self._process.stdin.write(b"\n")

    def wake(self) -> None:
        """Let the process go on as if nothing had happened."""
        self._process.send_signal(signal.SIGCONT)

    def go_on(self) -> None:
        """Let a worker that is not paused start its second round."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def end(self) -> None:
        """Reap the process; kill it when it is still there."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
