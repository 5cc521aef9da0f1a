"""The registries that replicas share, each a server of the test's own."""

from __future__ import annotations

import os
import shutil
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.services.etcd import Etcd
from tests.services.postgres import PostgresServer
from tests.services.valkey import Valkey


class SharedRegistry(ABC):
    """One engine as the tests of replicas see it."""

    settings: str
    """The lines of `[registry]` that lead to it."""

    @abstractmethod
    def pause(self) -> None:
        """It answers nobody, until `resume`."""

    @abstractmethod
    def resume(self) -> None:
        """It goes on where it was."""

    @abstractmethod
    def crash(self, *, empty: bool = False) -> None:
        """It is killed and started again; `empty`: all that it knew is gone."""


class SharedRedis(SharedRegistry):
    """Valkey that syncs its log with every write."""

    def __init__(self, server: Valkey) -> None:
        self._process = server.process
        self.settings = f'type = "redis"\nurl = "{server.url}"'

    def pause(self) -> None:
        self._process.pause()

    def resume(self) -> None:
        self._process.resume()

    def crash(self, *, empty: bool = False) -> None:
        self._process.kill()
        if empty:
            shutil.rmtree(self._process.directory / "appendonlydir")
        self._process.start()


class SharedPostgres(SharedRegistry):
    """PostgreSQL; a crash is an immediate shut-down, with recovery from its log."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.settings = f'type = "postgres"\nurl = "{server.dsn()}"'

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        """To the server and the processes of its sessions, which have groups of their own."""
        server = self._server.process.pid
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        for pid in (server, *map(int, children)):
            os.kill(pid, number)

    def crash(self, *, empty: bool = False) -> None:
        self._server.crash()
        self._server.restart()
        if empty:
            self._server.psql("DROP SCHEMA IF EXISTS fencegate CASCADE")


class SharedEtcd(SharedRegistry):
    """etcd, one member."""

    def __init__(self, server: Etcd) -> None:
        self._server = server
        self.settings = f'type = "etcd"\nurl = "{server.url}"'

    def pause(self) -> None:
        self._server.process.pause()

    def resume(self) -> None:
        self._server.process.resume()

    def crash(self, *, empty: bool = False) -> None:
        self._server.process.kill()
        if empty:
            self._server.empty()
        self._server.process.start()


@pytest.fixture(params=["redis", "postgres", "etcd"])
def shared_registry(
    request: pytest.FixtureRequest, new_postgres: Callable[[], PostgresServer]
) -> Iterator[SharedRegistry]:
    """A registry for several replicas, a server of the test's own."""
    match request.param:
        case "redis":
            yield SharedRedis(request.getfixturevalue("valkey"))
        case "postgres":
            yield SharedPostgres(new_postgres())
        case _:
            yield SharedEtcd(request.getfixturevalue("etcd"))
