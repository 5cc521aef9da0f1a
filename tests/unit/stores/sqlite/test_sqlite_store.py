"""The SQLite rows store as a whole: opening, locks, changes from outside, limits, closing."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from gateway.model.mark import Scope
from gateway.policy.document import TableSettings
from gateway.ports.store import CarryFailed, NotWritten, ProbeFailed, Written
from gateway.stores.sqlite import result, witness
from gateway.testing.rows_subject import Client, mark
from tests.unit.stores.sqlite.sqlite_stores import DDL, make, other, rows, traced, worker


async def test_quick_start(tmp_path: Path) -> None:
    """On an empty directory the first request works: file, tables and fence are made."""
    path = tmp_path / "deep" / "db.sqlite"
    store = make(path)
    client = await worker(store)
    assert (await client.post("/jobs", {"id": 1, "name": "a"})).status == 201
    await store.probe()
    assert store.capabilities.exact
    await store.aclose()
    assert rows(path) == [1]


async def test_durable_settings(tmp_path: Path) -> None:
    """The writer is in WAL with synchronous=FULL, and foreign keys are kept; readers only read."""
    store = make(tmp_path / "db.sqlite")
    await store.probe()

    def settings(connection: sqlite3.Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "query_only")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert await store._writer.call(settings) == ["wal", 2, 1, 0]
    assert (await store._readers.call(settings))[3] == 1
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await store._readers.call(lambda connection: connection.execute("DELETE FROM jobs"))
    await store.aclose()


async def test_a_restart_keeps_fence_and_rows(tmp_path: Path) -> None:
    """What was acknowledged is there after the store is opened again, the fence included."""
    first = make(tmp_path / "db.sqlite")
    await (await worker(first, 5)).post("/jobs", {"id": 1, "name": "a"})
    await first.aclose()
    second = make(tmp_path / "db.sqlite")
    await second.probe()
    assert await second.carry(Scope("kit"), mark(4)) == mark(5)
    assert (await Client(second, mark(5)).get("/jobs?id=eq.1")).etag == '"1"'
    await second.aclose()


@pytest.mark.parametrize(
    "more,told",
    [
        ({"init": None}, 'table "jobs" does not exist'),
        ({"init": "CREATE TABLE jobs("}, "incomplete input"),
        ({"tables": {"jobs": TableSettings(version_column="v")}}, 'has no column "v"'),
    ],
)
async def test_probe_says_what_to_change(
    tmp_path: Path, more: dict[str, object], told: str
) -> None:
    """A store that cannot serve its settings says so at start, with its name and file."""
    store = make(tmp_path / "db.sqlite", **more)
    with pytest.raises(ProbeFailed, match=told) as caught:
        await store.probe()
    assert "store db" in str(caught.value)
    assert "db.sqlite" in str(caught.value)
    await store.aclose()


async def test_probe_of_what_is_no_database(tmp_path: Path) -> None:
    """A file of something else is left as it is."""
    path = tmp_path / "db.sqlite"
    path.write_text("no database, but my only copy of something" * 100)
    before = path.read_bytes()
    store = make(path)
    for attempt in (store.probe, store.migrate):
        with pytest.raises(ProbeFailed, match="not a database"):
            await attempt()
    assert path.read_bytes() == before
    await store.aclose()


async def test_migrate_alone(tmp_path: Path) -> None:
    """The fence schema can be made before the store ever serves."""
    store = make(tmp_path / "db.sqlite")
    assert [await store.migrate(), await store.migrate()] == [0, 1]
    assert "fencegate_fence" in rows(tmp_path / "db.sqlite", "SELECT name FROM sqlite_schema")
    await store.aclose()


async def test_another_process_holds_the_lock(tmp_path: Path) -> None:
    """Writes and raises wait for the lock time-out, then are busy; reads go on meanwhile."""
    store = make(tmp_path / "db.sqlite")
    client = await worker(store)
    await client.post("/jobs", {"id": 1, "name": "a"})
    with other(tmp_path / "db.sqlite") as connection:
        connection.execute("BEGIN IMMEDIATE")
        held = await client.post("/jobs", {"id": 2, "name": "b"})
        assert (held.status, held.code, held.field("retry-after")) == (503, "busy", "1")
        assert isinstance(held.result, NotWritten)
        with pytest.raises(CarryFailed, match="store db"):
            await store.carry(client.scope, mark(2))
        assert (await client.get("/jobs?select=id")).json == [{"id": 1}]
        connection.execute("ROLLBACK")
    assert (await client.post("/jobs", {"id": 2, "name": "b"})).status == 201
    await store.aclose()


async def test_a_table_changed_by_others(tmp_path: Path) -> None:
    """A new column is there from the next request on; a dropped one is no silent constant."""
    store = make(tmp_path / "db.sqlite")
    client = await worker(store)
    await client.post("/jobs", {"id": 1, "name": "a"})
    with other(tmp_path / "db.sqlite") as connection:
        connection.execute("ALTER TABLE jobs ADD COLUMN extra text")
        connection.execute("ALTER TABLE jobs DROP COLUMN name")
    # The dialect still knows `name`; the store must not compare a text with a text.
    answer = await client.delete("/jobs?name=eq.name")
    assert (answer.status, answer.code) == (400, "42703")
    assert (await client.patch("/jobs?id=eq.1", {"extra": "x"})).status == 204
    with other(tmp_path / "db.sqlite") as connection:
        connection.execute("DROP TABLE jobs")
    for send in (client.get("/jobs"), client.delete("/jobs?id=eq.1")):
        assert (await send).status == 404
    await store.aclose()


async def test_an_answer_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A representation beyond the bound is refused, and the write that asked for it undone."""
    monkeypatch.setattr(result, "MAX_RESULT_CHARS", 200)
    store = make(tmp_path / "db.sqlite")
    client = await worker(store)
    for number in range(5):
        assert (await client.post("/jobs", {"id": number, "name": "x" * 60})).status == 201
    assert (await client.get("/jobs")).code == "54000"
    shown = await client.patch("/jobs?id=gte.0", {"name": "y" * 60}, prefer="return=representation")
    assert shown.code == "54000"
    assert (await client.patch("/jobs?id=gte.0", {"name": "z"})).field("content-range") == "0-4/*"
    assert rows(tmp_path / "db.sqlite", "SELECT DISTINCT version FROM jobs") == [2]
    await store.aclose()


async def test_a_write_that_runs_too_long(tmp_path: Path) -> None:
    """A statement beyond its time-out is interrupted: busy, nothing changed, the store goes on."""
    store = make(tmp_path / "db.sqlite", statement_timeout_ms=50)
    client = await worker(store)
    with other(tmp_path / "db.sqlite") as connection:
        connection.executescript(
            "CREATE TABLE sink(n); CREATE TRIGGER slow AFTER INSERT ON jobs WHEN NEW.name = 'slow' "
            "BEGIN INSERT INTO sink SELECT count(*) FROM (WITH RECURSIVE c(x) AS (SELECT 1 "
            "UNION ALL SELECT x + 1 FROM c WHERE x < 1000000000) SELECT x FROM c); END"
        )
    slow = await client.post("/jobs", {"id": 1, "name": "slow"})
    assert (slow.status, slow.code) == (503, "busy")
    assert (await client.post("/jobs", {"id": 2, "name": "quick"})).status == 201
    assert rows(tmp_path / "db.sqlite") == [2]
    await store.aclose()


async def test_a_read_that_runs_too_long(tmp_path: Path) -> None:
    """A read beyond its time-out is interrupted."""
    release = threading.Event()
    released = []

    def held(statement: str) -> None:
        if "LIMIT" in statement and not released:
            released.append(release.wait(0.3))

    store = make(tmp_path / "db.sqlite", statement_timeout_ms=20, connect=traced(held))
    client = await worker(store)
    assert (await client.get("/jobs")).code == "busy"
    assert (await client.get("/jobs")).json == []
    await store.aclose()


async def test_requests_are_not_kept_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of requests is bounded, and a long representation is not kept in it."""
    monkeypatch.setattr(witness, "MAX_REQUESTS", 50)
    monkeypatch.setattr(witness, "MAX_REPLY_CHARS", 40)
    store = make(tmp_path / "db.sqlite")
    client = await worker(store)
    body = {"id": 1, "name": "x" * 50}
    first = await client.post("/jobs", body, prefer="return=representation", write_id="w")
    assert first.json is not None
    again = await client.post("/jobs", body, prefer="return=representation", previous="w")
    assert (again.status, again.json, again.etag) == (201, None, '"1"')
    await asyncio.gather(*(client.patch("/jobs?id=eq.1", {"name": "y"}) for _ in range(300)))
    (kept,) = rows(tmp_path / "db.sqlite", "SELECT count(*) FROM fencegate_request")
    assert kept <= 50 + 256
    await store.aclose()


async def test_closing_finishes_what_was_begun(tmp_path: Path) -> None:
    """Writes handed in before the close are answered; none is taken after it."""
    store = make(tmp_path / "db.sqlite")
    client = await worker(store)
    begun = [
        asyncio.create_task(client.post("/jobs", {"id": number, "name": "a"}))
        for number in range(10)
    ]
    await asyncio.sleep(0)
    await store.aclose()
    assert all(isinstance(answer.result, Written) for answer in await asyncio.gather(*begun))
    assert rows(tmp_path / "db.sqlite") == list(range(10))
    with pytest.raises(Exception, match="closed"):
        await client.post("/jobs", {"id": 99, "name": "a"})


def test_not_before_probe(tmp_path: Path) -> None:
    """A store that was not probed has no catalogue."""
    with pytest.raises(RuntimeError, match="not probed"):
        make(tmp_path / "db.sqlite", init=DDL).catalogue()
