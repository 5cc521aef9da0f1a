"""The harness itself: what a test believes about a server's life must be true."""

import socket
import sys
from pathlib import Path

import pytest

from tests.services.server_process import (
    LAST_PORT,
    LOOPBACK,
    ServerProcess,
    accepts_connections,
    free_port,
    wait_until,
)

LISTENER = """
import signal, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
while True:
    listener.accept()[0].close()
"""


def listener(directory: Path, port: int) -> ServerProcess:
    return ServerProcess(
        "listener",
        [sys.executable, "-c", LISTENER, str(port)],
        directory=directory,
        ready=lambda: accepts_connections(port),
    )


def test_a_port_is_given_once_and_no_connection_takes_it() -> None:
    """Ports are different, and none is one that the kernel chooses for an outgoing connection."""
    ports = [free_port() for _ in range(200)]
    assert len(set(ports)) == 200
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        assert max(ports) < LAST_PORT < probe.getsockname()[1]


def test_started_means_ready_and_stopped_means_gone(tmp_path: Path) -> None:
    """After start the port answers; after stop it does not, and the server can start again."""
    port = free_port()
    server = listener(tmp_path, port)
    for _ in range(2):
        server.start()
        assert server.running()
        assert accepts_connections(port)
        assert server.stop() != 0
        assert not accepts_connections(port)
    assert server.output().count("listening") == 2


def test_a_paused_server_is_still_stopped(tmp_path: Path) -> None:
    """Stop ends a server that was paused, without waiting for its deadline to kill it."""
    server = listener(tmp_path, free_port())
    server.start()
    server.pause()
    assert server.stop(deadline_s=20) == -15


def test_a_server_that_ends_at_its_start_is_reported_with_its_output(tmp_path: Path) -> None:
    """The failure names the exit code and shows what the process said."""
    server = ServerProcess(
        "broken",
        [sys.executable, "-c", "print('no such setting'); raise SystemExit(3)"],
        directory=tmp_path,
        ready=lambda: False,
    )
    with pytest.raises(RuntimeError, match=r"ended with 3 at its start\nno such setting"):
        server.start()
    assert not server.running()


def test_a_server_that_never_gets_ready_is_killed(tmp_path: Path) -> None:
    """The deadline is kept, and nothing is left running."""
    server = listener(tmp_path, free_port())
    server._ready = lambda: False
    with pytest.raises(TimeoutError, match="listener ready: not within"):
        server.start(deadline_s=0.3)
    assert not server.running()


def test_waiting_names_what_did_not_happen() -> None:
    """A wait that fails says for what."""
    with pytest.raises(TimeoutError, match="the moon: not within"):
        wait_until(lambda: False, 0.05, "the moon")
