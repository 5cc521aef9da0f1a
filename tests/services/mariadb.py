"""A real MariaDB from Debian's package: one server a session, a fresh database a test.

MariaDB refuses to run as root, so as root it runs as the unprivileged user `nobody`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.services.postgres import unprivileged_ids
from tests.services.server_process import LOOPBACK, ServerProcess, accepts_connections, free_port

USER, PASSWORD = "fencegate", "kit-password"
BINLOG = "binlog"
SETTINGS = {
    "bind-address": LOOPBACK,
    "skip-name-resolve": "1",
    "server-id": "1",
    "log-bin": BINLOG,  # the commit-order law reads the order of commits from the binary log
    "binlog-format": "ROW",
    "binlog-annotate-row-events": "0",
    "sync-binlog": "1",
    "innodb-flush-log-at-trx-commit": "1",
    "innodb-buffer-pool-size": "64M",
    "innodb-log-file-size": "48M",
    "max-connections": "200",
    "performance-schema": "OFF",
}


class MariadbServer:
    """One server in a directory of its own. It can be stopped, killed and started again."""

    def __init__(self, **settings: str) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="my-"))
        self.port = free_port()
        self._ids = unprivileged_ids()
        if self._ids is not None:
            os.chown(self.home, *self._ids)
        self.data_dir = self.home / "data"
        self._socket = self.home / "s"
        self._initialise()
        user, group = self._ids or (None, None)
        named = {name.replace("_", "-"): value for name, value in settings.items()}
        options = [f"--{name}={value}" for name, value in {**SETTINGS, **named}.items()]
        self.process = ServerProcess(
            "mariadbd",
            [
                self._program("mariadbd"),
                "--no-defaults",
                f"--datadir={self.data_dir}",
                f"--port={self.port}",
                f"--socket={self._socket}",
                f"--pid-file={self.home / 'pid'}",
                *options,
            ],
            directory=self.home,
            ready=lambda: accepts_connections(self.port),
            user=user,
            group=group,
        )
        self.process.start()
        self.sql(
            f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'; GRANT ALL ON *.* TO '{USER}'@'%'"
        )

    def dsn(self, database: str, *, user: str = USER, password: str = PASSWORD) -> str:
        """The connection string of a database."""
        return f"mariadb://{user}:{password}@{LOOPBACK}:{self.port}/{database}"

    def sql(self, text: str, database: str = "") -> str:
        """Runs SQL as the administrator, returns its output; raises with the server's words."""
        command = [self._program("mariadb"), "--no-defaults", "-N", "-B", "-u", "root"]
        command += [f"--socket={self._socket}", "--default-character-set=utf8mb4", database]
        done = subprocess.run(
            [part for part in command if part],
            input=text,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return done.stdout.strip()

    def create_database(self) -> str:
        """Makes an empty database, whose texts are told apart to the byte; returns its name."""
        name = f"t_{uuid.uuid4().hex[:12]}"
        self.sql(f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin")
        return name

    def drop_database(self, name: str) -> None:
        """Removes a database."""
        self.sql(f"DROP DATABASE IF EXISTS {name}")

    def place_in_binlog(self) -> tuple[str, int]:
        """The binary log's file, and the byte at which the next transaction will stand."""
        file, position, *_ = self.sql("SHOW MASTER STATUS").split("\t")
        return file, int(position)

    def binlog_from(self, file: str, position: int, database: str) -> str:
        """The row changes of a database since a place, in commit order, as text."""
        done = subprocess.run(
            [
                self._program("mariadb-binlog"),
                *("--no-defaults", "-vv", "--base64-output=DECODE-ROWS"),
                *(f"--database={database}", f"--start-position={position}", "--to-last-log"),
                *("--read-from-remote-server", f"--host={LOOPBACK}", f"--port={self.port}"),
                *(f"--user={USER}", f"--password={PASSWORD}", file),
            ],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return done.stdout

    def restart(self) -> None:
        """Starts a server that was stopped or killed, on the same data and port."""
        self.process.start()

    def stop(self) -> None:
        """A clean shut-down."""
        if self.process.running():
            self.process.stop(signal_number=signal.SIGTERM, deadline_s=20)

    def crash(self) -> None:
        """SIGKILL: nothing is flushed, recovery comes next."""
        self.process.kill()

    def close(self) -> None:
        """Stops the server and removes everything it wrote."""
        if self.process.running():
            self.process.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def _initialise(self) -> None:
        user, group = self._ids or (None, None)
        done = subprocess.run(
            [
                self._program("mariadb-install-db"),
                *("--no-defaults", f"--datadir={self.data_dir}", "--skip-test-db"),
                *("--auth-root-authentication-method=normal", "--skip-name-resolve"),
            ],
            user=user,
            group=group,
            extra_groups=None if user is None else [],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"mariadb-install-db: {done.stdout}{done.stderr}")

    @staticmethod
    def _program(name: str) -> str:
        found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin")
        if found is None:
            raise FileNotFoundError(f"{name} is not installed: make extra-packages")
        return found


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariadbServer]:
    """The session's MariaDB. Tests that stop or crash a server take `new_mariadb` instead."""
    server = MariadbServer()
    yield server
    server.close()


@pytest.fixture
def mariadb_dsn(mariadb_server: MariadbServer) -> Iterator[str]:
    """A fresh, empty database of the session's server, dropped afterwards."""
    name = mariadb_server.create_database()
    yield mariadb_server.dsn(name)
    mariadb_server.drop_database(name)


@pytest.fixture
def new_mariadb() -> Iterator[Callable[..., MariadbServer]]:
    """Makes servers that belong to this test alone: to crash, to stop, to set up badly."""
    servers: list[MariadbServer] = []

    def make(**settings: str) -> MariadbServer:
        servers.append(MariadbServer(**settings))
        return servers[-1]

    yield make
    for server in servers:
        server.close()
