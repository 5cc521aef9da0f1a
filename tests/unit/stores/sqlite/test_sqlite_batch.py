"""Several jobs in one transaction: what one of them does to the others, and a COMMIT that fails."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.model.mark import Scope
from gateway.model.problem import Code, Problem
from gateway.ports.store import CarryFailed, MaybeWritten, NotWritten, Written
from gateway.stores.sqlite import batch, witness
from gateway.stores.sqlite.transaction import CarryJob
from gateway.testing.rows_subject import Answer, Client, mark
from tests.unit.stores.sqlite.sqlite_stores import (
    FailingCommit,
    failing_connect,
    make,
    other,
    rows,
    traced,
    worker,
)


async def insert_many(client: Client, names: list[str]) -> list[Answer]:
    """Insert a row for each name, all at once: they wait for one transaction."""
    return await asyncio.gather(
        *(client.post("/jobs", {"id": number, "name": name}) for number, name in enumerate(names))
    )


@pytest.fixture
def failing() -> Iterator[type[FailingCommit]]:
    """The switch of connections whose COMMIT fails."""
    yield FailingCommit
    FailingCommit.failing, FailingCommit.commits_first = None, False


async def test_many_share_a_commit(tmp_path: Path) -> None:
    """Writes that wait together are committed together: far fewer commits than writes."""
    commits = []
    store = make(
        tmp_path / "db.sqlite",
        connect=traced(lambda text: commits.append(text) if text == "COMMIT" else None),
    )
    client = await worker(store)
    commits.clear()
    answers = await insert_many(client, ["a"] * 100)
    assert [answer.status for answer in answers] == [201] * 100
    assert len(commits) <= 5
    await store.aclose()


async def test_a_trigger_that_rolls_everything_back(tmp_path: Path) -> None:
    """RAISE(ROLLBACK) ends the whole transaction: the others are written all the same."""
    store = make(tmp_path / "db.sqlite")
    client = await worker(store)
    with other(tmp_path / "db.sqlite") as connection:
        connection.execute(
            "CREATE TRIGGER bad BEFORE INSERT ON jobs WHEN NEW.name = 'bad' "
            "BEGIN SELECT RAISE(ROLLBACK, 'not this one'); END"
        )
    answers = await insert_many(client, ["a", "bad", "b", "bad", "c"])
    assert [answer.status for answer in answers] == [201, 400, 201, 400, 201]
    assert answers[1].code == "P0001"
    assert rows(tmp_path / "db.sqlite") == [0, 2, 4]
    await store.aclose()


async def test_a_constraint_that_fails_at_the_commit(tmp_path: Path) -> None:
    """A deferred foreign key fails at COMMIT: its own write is refused, the others are written."""
    ddl = (
        "CREATE TABLE IF NOT EXISTS parents(id integer PRIMARY KEY);"
        "CREATE TABLE IF NOT EXISTS jobs(id integer PRIMARY KEY, name integer"
        " REFERENCES parents(id) DEFERRABLE INITIALLY DEFERRED, version integer);"
        "INSERT INTO parents VALUES (1)"
    )
    store = make(tmp_path / "db.sqlite", init=ddl)
    client = await worker(store)
    answers = await insert_many(client, ["1", "7", "1"])
    assert [answer.status for answer in answers] == [201, 409, 201]
    assert answers[1].code == "23503"
    assert rows(tmp_path / "db.sqlite") == [0, 2]
    await store.aclose()


@pytest.mark.parametrize("commits", [True, False])
async def test_an_io_error_at_the_commit_is_unknown(
    tmp_path: Path, failing: type[FailingCommit], commits: bool
) -> None:
    """Whether the change is there is not known, and never said to be refused or applied."""
    store = make(tmp_path / "db.sqlite", connect=failing_connect)
    client = await worker(store)
    failing.failing, failing.commits_first = "SQLITE_IOERR_FSYNC", commits
    answers = await insert_many(client, ["a", "b"])
    stale = await client.at(0).post("/jobs", {"id": 9, "name": "stale"})
    with pytest.raises(CarryFailed):
        await store.carry(client.scope, mark(2))
    failing.failing = None
    assert all(isinstance(answer.result, MaybeWritten) for answer in answers)
    assert [answer.status for answer in answers] == [504, 504]
    assert not isinstance(stale.result, Written | MaybeWritten)
    assert rows(tmp_path / "db.sqlite") == ([0, 1] if commits else [])
    await store.aclose()


async def test_a_busy_commit_is_refused(tmp_path: Path, failing: type[FailingCommit]) -> None:
    """A COMMIT that SQLite says it has not done is undone, and refused as busy."""
    store = make(tmp_path / "db.sqlite", connect=failing_connect)
    client = await worker(store)
    failing.failing = "SQLITE_BUSY"
    answers = await insert_many(client, ["a", "b"])
    failing.failing = None
    for answer in answers:
        assert isinstance(answer.result, NotWritten)
        assert answer.result.problem.code is Code.BUSY
    assert rows(tmp_path / "db.sqlite") == []
    assert (await client.post("/jobs", {"id": 1, "name": "a"})).status == 201
    await store.aclose()


async def test_the_fence_holds_within_a_batch(tmp_path: Path) -> None:
    """A raise that waits behind a write and before another one parts them, in one transaction."""
    store = make(tmp_path / "db.sqlite")
    client = await worker(store)
    first, raised, second = await asyncio.gather(
        client.post("/jobs", {"id": 1, "name": "a"}),
        store.carry(client.scope, mark(2)),
        client.post("/jobs", {"id": 2, "name": "b"}),
    )
    assert isinstance(first.result, Written)
    assert raised is None
    assert not isinstance(second.result, Written)
    assert rows(tmp_path / "db.sqlite") == [1]
    await store.aclose()


async def test_an_error_of_the_gateways_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug in one write is raised to its caller, undoes that write alone, and blocks nobody."""
    record = witness.record

    def buggy(connection: sqlite3.Connection, *rest: Any) -> None:
        if rest[1].write_id == "bug":
            raise ZeroDivisionError
        record(connection, *rest)

    monkeypatch.setattr(witness, "record", buggy)
    store = make(tmp_path / "db.sqlite")
    client = await worker(store)
    bad, good = await asyncio.gather(
        client.post("/jobs", {"id": 1, "name": "a"}, write_id="bug"),
        client.post("/jobs", {"id": 2, "name": "b"}),
        return_exceptions=True,
    )
    assert isinstance(bad, ZeroDivisionError)
    assert isinstance(good, Answer)
    assert rows(tmp_path / "db.sqlite") == [2]
    await store.aclose()


def test_no_transaction_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even an error between two jobs ends the transaction: the next one can begin."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    jobs = [CarryJob(Scope("s"), mark(1))] * 2
    monkeypatch.setattr(batch, "_run", lambda *_: (_ for _ in ()).throw(MemoryError()))
    with pytest.raises(MemoryError):
        batch.run_batch(connection, jobs, lambda *_: NotWritten(Problem(Code.BUSY, "")))
    assert not connection.in_transaction
    connection.close()
