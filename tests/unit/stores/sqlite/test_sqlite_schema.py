"""The fence schema and its versions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from gateway.stores.sqlite import schema
from gateway.stores.sqlite.schema import VERSION, SchemaTooNewError, migrate


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    """An empty database."""
    made = sqlite3.connect(":memory:", isolation_level=None)
    yield made
    made.close()


def test_creates_once(connection: sqlite3.Connection) -> None:
    """The first run creates, the second finds everything in place and keeps what is in it."""
    assert migrate(connection) == 0
    connection.execute("INSERT INTO fencegate_fence VALUES ('s', 1, 7, 0, NULL)")
    assert migrate(connection) == VERSION
    assert connection.execute("SELECT token FROM fencegate_fence").fetchall() == [(7,)]


def test_a_newer_schema_is_left_alone(connection: sqlite3.Connection) -> None:
    """A database of a newer release is not written to, and the answer says what to do."""
    migrate(connection)
    connection.execute("UPDATE fencegate_schema SET version = 99")
    with pytest.raises(SchemaTooNewError, match="use the newer release"):
        migrate(connection)
    assert not connection.in_transaction


def test_all_or_nothing(connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that fails leaves the database as it was."""
    monkeypatch.setattr(schema, "_STEPS", (("CREATE TABLE half(a)", "CREATE TABLE half(a)"),))
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection)
    assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
