"""A real `python -m gateway serve` in a directory of its own, on free ports.

A policy document is taken as it is written, shipped ones included: only the ports of its `listen`
values are replaced by free ones.
"""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.services.canary import leaks, secrets_of
from tests.services.object_stores import ObjectStore
from tests.services.server_process import LOOPBACK, ServerProcess, free_port, wait_until

_CHECKOUT = Path(__file__).parents[2]
ADMIN_KEY = "admin-key-of-the-tests"
_LISTEN = re.compile(r'^(?P<key>\s*listen\s*=\s*")127\.0\.0\.1:\d+(?P<rest>")', re.MULTILINE)


def with_free_ports(document: str) -> str:
    """The same policy document, listening on free loopback ports."""
    return _LISTEN.sub(
        lambda found: f"{found['key']}{LOOPBACK}:{free_port()}{found['rest']}", document
    )


class GatewayProcess:
    """One gateway: its addresses, its log, its metrics, and what can be done to its process."""

    def __init__(
        self,
        document: str,
        directory: Path,
        *,
        env: Mapping[str, str] | None = None,
        arguments: tuple[str, ...] = (),
        verify: ssl.SSLContext | None = None,
    ) -> None:
        self.directory = directory
        self.document = with_free_ports(document)
        self.policy = tomllib.loads(self.document)
        self.policy_path = directory / "policy.toml"
        self.policy_path.write_text(self.document)
        self.scheme = "http" if "tls" not in self.policy else "https"
        self.verify: ssl.SSLContext | bool = True if verify is None else verify
        self.url = f"{self.scheme}://{self.policy['server']['listen']}"
        self.secrets = {ADMIN_KEY} | secrets_of(self.document, env or {})
        self.admin_headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        self.process = ServerProcess(
            "gateway",
            [sys.executable, "-m", "gateway", "serve", self.policy_path, *arguments],
            directory=directory,
            env={
                "FENCEGATE_ADMIN_KEY": ADMIN_KEY,
                "PYTHONUNBUFFERED": "1",
                "PYTHONPATH": str(_CHECKOUT),  # this one, whatever is installed
                **(env or {}),
            },
            ready=self.ready,
        )

    def start(self, deadline_s: float = 30) -> GatewayProcess:
        """Starts it, also after `stop` or `kill`, on the same ports and data; ready on return."""
        self.process.start(deadline_s)
        return self

    def ready(self) -> bool:
        """Whether /readyz answers 200."""
        try:
            answer = httpx.get(f"{self.url}/readyz", timeout=2, verify=self.verify)
            return answer.status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def store_url(self, store: str) -> str:
        """Where a store is served: its own listener, or its mount on the common one."""
        settings = self.policy["stores"][store]
        if "listen" in settings:
            return f"{self.scheme}://{settings['listen']}"
        return self.url + str(settings.get("mount", f"/{store}"))

    def object_store(self, store: str, key_id: str | None = None) -> ObjectStore:
        """An s3 store as its clients see it, with a key of the document's [[auth.keys]]."""
        keys = self.policy["auth"]["keys"]
        key = next(k for k in keys if key_id in (None, k["id"]))
        region = self.policy["stores"][store].get("region", "us-east-1")
        return ObjectStore(self.store_url(store), key["id"], key["secret"], region)

    @property
    def data_dir(self) -> Path:
        """Where this gateway keeps its registry and its stores."""
        return self.directory / self.policy["server"].get("data_dir", "data")

    @property
    def pid(self) -> int:
        """The pid of the running gateway."""
        return self.process.pid

    def lines(self) -> list[str]:
        """What it has written so far, by lines; a line that is still being written is left out."""
        return self.process.output().split("\n")[:-1]

    def log(self) -> list[dict[str, Any]]:
        """Its log: the lines of its output that are JSON objects."""
        return [json.loads(line) for line in self.lines() if line.startswith("{")]

    def wait_for_log(
        self, matches: Callable[[dict[str, Any]], bool], deadline_s: float = 10
    ) -> dict[str, Any]:
        """The first log record for which `matches` holds, once it is there."""
        found: list[dict[str, Any]] = []

        def seen() -> bool:
            found.extend(record for record in self.log() if matches(record))
            return bool(found)

        wait_until(seen, deadline_s, "log record")
        return found[0]

    def metrics(self) -> dict[str, float]:
        """The samples of /metrics, by name with labels, as exposed."""
        address = f"{self.url}/metrics"
        answer = httpx.get(address, headers=self.admin_headers, timeout=5, verify=self.verify)
        answer.raise_for_status()
        samples = {}
        for line in answer.text.splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                samples[name] = float(value)
        return samples

    def stop(self, deadline_s: float = 15) -> int:
        """SIGTERM: leaves in good order. Returns the exit code."""
        return self.process.stop(deadline_s)

    def kill(self) -> None:
        """SIGKILL, wherever it is."""
        self.process.kill()

    def hang_up(self) -> None:
        """SIGHUP: reload."""
        os.kill(self.pid, signal.SIGHUP)

    def pause(self) -> None:
        """SIGSTOP."""
        self.process.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.process.resume()


@pytest.fixture
def gateway_process(tmp_path: Path) -> Iterator[Callable[..., GatewayProcess]]:
    """Starts gateways from policy documents; ends those still running when the test is over.

    None of them may have written a credential: the canary of the whole suite.
    """
    started: list[GatewayProcess] = []

    def start(document: str, **options: Any) -> GatewayProcess:
        directory = tmp_path / f"gateway-{len(started)}"
        directory.mkdir()
        gateway = GatewayProcess(document, directory, **options)
        started.append(gateway)
        return gateway.start()

    yield start
    for gateway in started:
        if gateway.process.running():
            gateway.stop()
        print(gateway.process.output_tail())  # pytest shows it when the test failed
    for gateway in started:
        told = leaks(gateway.process.output(), gateway.secrets)
        assert not told, f"the gateway wrote credentials: {told}"
