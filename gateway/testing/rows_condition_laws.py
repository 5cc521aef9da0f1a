"""Laws of the rows contract about versions: ETag, If-Match, If-None-Match, and races for a row."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Final

from gateway.model.problem import Code
from gateway.ports.store import FencedByStore, Written
from gateway.testing.rows_subject import RowsHarness, client, mark

_RACERS: Final = 16
_REPRESENTATION: Final = "return=representation"


async def check_etags(harness: RowsHarness) -> None:
    """A single row's ETag is its version, the same from a write and the read after it."""
    worker = await client(harness)
    made = await worker.post("/jobs", {"id": 1, "name": "a"}, prefer=_REPRESENTATION)
    assert made.etag == (await worker.get("/jobs?id=eq.1&select=name")).etag == '"1"'
    changed = await worker.patch("/jobs?id=eq.1&select=name", {"name": "b"}, prefer=_REPRESENTATION)
    assert changed.json == [{"name": "b"}]
    single = await worker.get("/jobs?name=eq.b", accept="application/vnd.pgrst.object+json")
    assert changed.etag == single.etag == '"2"'
    for answer in (await worker.get("/jobs"), await worker.get("/jobs?id=eq.9")):
        assert answer.field("etag") is None
    await worker.post("/pairs", {"k1": 1, "k2": "a"})
    assert (await worker.get("/pairs?k1=eq.1&k2=eq.a")).field("etag") is None


async def check_read_conditions(harness: RowsHarness) -> None:
    """If-None-Match of the current version is 304, If-Match of another 412, also when absent."""
    worker = await client(harness)
    await worker.post("/jobs", {"id": 1, "name": "a"})
    known = await worker.get("/jobs?id=eq.1", if_none_match='W/"1"')
    assert (known.status, known.json, known.etag) == (304, None, '"1"')
    assert (await worker.get("/jobs?id=eq.1", if_none_match='"2", "3"')).status == 200
    assert (await worker.get("/jobs?id=eq.1", if_match='"1"')).status == 200
    for target, tag in (("/jobs?id=eq.1", '"2"'), ("/jobs?id=eq.9", "*")):
        answer = await worker.get(target, if_match=tag)
        assert (answer.status, answer.code) == (412, "precondition_failed")


async def check_write_conditions(harness: RowsHarness) -> None:
    """PATCH and DELETE pass on the version they name, and change nothing on any other."""
    worker = await client(harness)
    await worker.post("/jobs", {"id": 1, "name": "a"})
    for tag in ('"2"', 'W/"1"', '"x"', '"01"', '"99999999999999999999"'):
        for send in (
            worker.patch("/jobs?id=eq.1", {"name": "b"}, if_match=tag),
            worker.delete("/jobs?id=eq.1", if_match=tag),
        ):
            answer = await send
            assert (answer.status, answer.code) == (412, "precondition_failed"), tag
    refused = await worker.patch("/jobs?id=eq.1", {"name": "b"}, if_none_match='"0", "1"')
    assert refused.code == "precondition_failed"
    assert await harness.fetch("SELECT name, version FROM jobs") == [("a", 1)]
    assert (await worker.patch("/jobs?id=eq.1", {"name": "b"}, if_match='"7", "1"')).status == 204
    assert (await worker.patch("/jobs?id=eq.1", {"name": "c"}, if_match="*")).status == 204
    assert (await worker.patch("/jobs?id=eq.1", {}, if_match='"3"')).status == 204
    assert (await worker.patch("/jobs?id=eq.1", {}, if_match='"2"')).status == 412
    assert (await worker.delete("/jobs?id=eq.1", if_match='"3"')).status == 204
    for send in (
        worker.patch("/jobs?id=eq.1", {"name": "d"}, if_match='"3"'),
        worker.delete("/jobs?id=eq.1", if_match="*"),
    ):
        assert (await send).code == "precondition_failed"


async def check_create_only(harness: RowsHarness) -> None:
    """If-None-Match: * inserts only where no row has the key; another constraint stays a 409."""
    worker = await client(harness)
    first = await worker.post("/kinds", {"id": 1, "code": "c"}, if_none_match="*")
    assert first.status == 201
    second = await worker.post("/kinds", {"id": 1, "code": "d"}, if_none_match="*")
    assert (second.status, second.code) == (412, "precondition_failed")
    other = await worker.post("/kinds", {"id": 2, "code": "c"}, if_none_match="*")
    assert (other.status, other.code) == (409, "23505")
    assert await harness.fetch("SELECT id, code FROM kinds") == [(1, "c")]


async def check_conditions_refused_by_name(harness: RowsHarness) -> None:
    """A condition that cannot be evaluated is refused, never ignored: nothing is changed."""
    worker = await client(harness)
    await worker.post("/jobs", {"id": 1, "name": "a"})
    await worker.post("/pairs", {"k1": 1, "k2": "a", "extra": 0})
    for send in (
        worker.patch("/pairs?k1=eq.1&k2=eq.a", {"extra": 1}, if_match='"1"'),
        worker.patch("/jobs?name=eq.a", {"name": "b"}, if_match='"1"'),
        worker.patch("/jobs?id=eq.1", {"name": "b"}, if_none_match="*"),
        worker.delete("/jobs?id=gte.1", if_match="*"),
        worker.post("/jobs", {"id": 2, "name": "b"}, if_match="*"),
        worker.post("/plain", {"a": "x"}, if_none_match="*"),
        worker.get("/jobs", if_match='"1"'),
    ):
        answer = await send
        assert (answer.status, answer.code) == (501, "condition_unsupported")
        assert "If-" in answer.json["message"]
    assert await harness.fetch("SELECT name FROM jobs") == [("a",)]
    assert await harness.fetch("SELECT extra FROM pairs") == [(0,)]
    assert await harness.fetch("SELECT a FROM plain") == []


async def check_version_is_the_gateways(harness: RowsHarness) -> None:
    """A body cannot set the version; a client beside the gateway can, and is noticed."""
    worker = await client(harness)
    await worker.post("/jobs", {"id": 1, "name": "a"})
    for answer in (
        await worker.patch("/jobs?id=eq.1", {"version": 9}),
        await worker.post("/jobs", {"id": 2, "name": "b", "version": 9}),
    ):
        assert (answer.status, answer.code) == (400, "request_malformed")
        assert "version" in answer.json["message"]
    await harness.execute("UPDATE jobs SET version = 7 WHERE id = 1")
    assert (await worker.patch("/jobs?id=eq.1", {"name": "b"}, if_match='"1"')).status == 412
    assert (await worker.patch("/jobs?id=eq.1", {"name": "b"}, if_match='"7"')).status == 204


async def check_refusals_told_apart(harness: RowsHarness) -> None:
    """Stale, failed condition and no such row are three answers, and stale comes before all."""
    worker = await client(harness, 5)
    await worker.post("/jobs", {"id": 1, "name": "a"})
    missing = await worker.patch("/jobs?id=eq.9", {"name": "b"})
    assert isinstance(missing.result, Written)
    failed = await worker.patch("/jobs?id=eq.1", {"name": "b"}, if_match='"9"')
    assert failed.problem is not None
    assert failed.problem.code is Code.PRECONDITION_FAILED
    old = worker.at(4)
    for send in (
        old.patch("/jobs?id=eq.1", {"name": "b"}),
        old.patch("/jobs?id=eq.9", {"name": "b"}),
        old.patch("/jobs?id=eq.1", {}),
        old.patch("/jobs?id=eq.1", {"name": "b"}, if_match='"9"'),
        old.post("/jobs", {"id": 1, "name": "a"}),
        old.post("/jobs", {"id": 1, "name": "a"}, if_none_match="*"),
        old.delete("/jobs?id=eq.1"),
    ):
        answer = await send
        assert answer.result == FencedByStore(mark(5))
    assert await harness.fetch("SELECT id, name, version FROM jobs") == [(1, "a", 1)]


async def check_race_for_a_version(harness: RowsHarness) -> None:
    """Of many writers that name the same version exactly one wins, over two replicas."""
    first = await client(harness)
    second = await client(harness)
    await first.post("/jobs", {"id": 1, "name": "a"})
    race = (
        (first, second)[n % 2].patch("/jobs?id=eq.1", {"name": f"n{n}"}, if_match='"1"')
        for n in range(_RACERS)
    )
    statuses = sorted(answer.status for answer in await asyncio.gather(*race))
    assert statuses == [204] + [412] * (_RACERS - 1)
    assert await harness.fetch("SELECT version FROM jobs") == [(2,)]


async def check_race_to_create(harness: RowsHarness) -> None:
    """Of many creators of one key exactly one wins, over two replicas."""
    first = await client(harness)
    second = dataclasses.replace(first, store=await harness.open())
    race = (
        (first, second)[n % 2].post("/jobs", {"id": 1, "name": f"n{n}"}, if_none_match="*")
        for n in range(_RACERS)
    )
    answers = await asyncio.gather(*race)
    statuses = [answer.status for answer in answers]
    assert sorted(statuses) == [201] + [412] * (_RACERS - 1)
    winner = statuses.index(201)
    assert await harness.fetch("SELECT name FROM jobs") == [(f"n{winner}",)]
