"""The writer: when gates are asked, and what a caller that goes away leaves behind."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from pathlib import Path

import pytest

from gateway.model.problem import Problem
from gateway.stores.sqlite.writer import WriterClosedError
from tests.unit.stores.sqlite.sqlite_stores import make, rows, traced, worker


async def test_gates_are_asked_when_the_writer_is_free(tmp_path: Path) -> None:
    """A write that waits behind another transaction is asked only when its own is begun."""
    begun, release, asked = threading.Event(), threading.Event(), list[str]()

    def held(statement: str) -> None:
        if statement.startswith("INSERT OR ABORT INTO `jobs`") and not begun.is_set():
            begun.set()
            release.wait(5)

    store = make(tmp_path / "db.sqlite", connect=traced(held))
    client = await worker(store)

    def gate() -> Problem | None:
        asked.append("second")
        return None

    first = asyncio.create_task(client.post("/jobs", {"id": 1, "name": "a"}))
    await asyncio.to_thread(begun.wait, 5)
    waiting = dataclasses.replace(client, gate=gate)
    second = asyncio.create_task(waiting.post("/jobs", {"id": 2, "name": "b"}))
    for _ in range(10):
        await asyncio.sleep(0)
    assert asked == []
    release.set()
    assert [(await task).status for task in (first, second)] == [201, 201]
    assert asked == ["second"]
    await store.aclose()


async def test_a_caller_that_goes_away_before_its_gate(tmp_path: Path) -> None:
    """Its write never happens, and its gate is never asked; the others are written."""
    begun, release, asked = threading.Event(), threading.Event(), list[str]()

    def held(statement: str) -> None:
        if statement.startswith("INSERT OR ABORT INTO `jobs`") and not begun.is_set():
            begun.set()
            release.wait(5)

    store = make(tmp_path / "db.sqlite", connect=traced(held))
    client = await worker(store)
    first = asyncio.create_task(client.post("/jobs", {"id": 1, "name": "a"}))
    await asyncio.to_thread(begun.wait, 5)
    barred = dataclasses.replace(client, gate=lambda: asked.append("gone"))
    gone = asyncio.create_task(barred.post("/jobs", {"id": 2, "name": "b"}))
    last = asyncio.create_task(client.post("/jobs", {"id": 3, "name": "c"}))
    for _ in range(10):
        await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    release.set()
    assert [(await task).status for task in (first, last)] == [201, 201]
    assert asked == []
    assert rows(tmp_path / "db.sqlite") == [1, 3]
    await store.aclose()


async def test_not_open(tmp_path: Path) -> None:
    """A store that was not probed takes no write."""
    store = make(tmp_path / "db.sqlite")
    with pytest.raises(WriterClosedError, match="probe it first"):
        await store._writer.call(lambda connection: None)
    await store.aclose()
