"""Laws of the rows contract about the fence: what stands in the database decides, exactly.

Source: protocol, rules 5, 9, 11 and 15; decisions, "Replays".
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading

from gateway.model.mark import Era, Scope
from gateway.model.problem import Code, Problem
from gateway.model.token import Holder
from gateway.ports.store import (
    BehindRegistry,
    FencedByStore,
    FindsOut,
    NotWritten,
    Recalls,
    WriteResult,
    Written,
)
from gateway.testing.rows_subject import Client, RowsHarness, client, mark


async def check_behind(harness: RowsHarness) -> None:
    """A fence row below the mark, or none, lets nothing through until it has been raised."""
    worker = Client(await harness.open(), mark(3))
    absent = await worker.post("/jobs", {"id": 1, "name": "a"})
    assert absent.result == BehindRegistry(None)
    assert await worker.store.carry(worker.scope, mark(2)) is None
    below = await worker.post("/jobs", {"id": 1, "name": "a"})
    assert below.result == BehindRegistry(mark(2))
    assert await harness.fetch("SELECT id FROM jobs") == []
    assert await worker.store.carry(worker.scope, mark(3)) is None
    assert (await worker.post("/jobs", {"id": 1, "name": "a"})).status == 201


async def check_carry_never_lowers(harness: RowsHarness) -> None:
    """Within an era a fence row only rises, and tells who comes with less where it stands."""
    store = await harness.open()
    scope = Scope("s")
    held = mark(5)._replace(holder=Holder("h1"))
    assert await store.carry(scope, held) is None
    assert await store.carry(scope, held) is None
    assert await store.carry(scope, mark(4)) == held
    assert await store.carry(scope, mark(5, burnt=True)) is None
    assert await store.carry(scope, mark(5)) == mark(5, burnt=True)
    assert await store.carry(scope, mark(1, era=2)) is None
    assert await store.carry(scope, mark(9)) == mark(1, era=2)
    other = await harness.open()
    assert await other.carry(scope, mark(9)) == mark(1, era=2)


async def check_burnt_and_eras(harness: RowsHarness) -> None:
    """A burnt mark fences its own token; a reset's new era lets a lower token write."""
    worker = await client(harness, 5)
    assert await worker.store.carry(worker.scope, mark(5, burnt=True)) is None
    burnt = await worker.post("/jobs", {"id": 1, "name": "a"})
    assert burnt.result == FencedByStore(mark(5, burnt=True))
    reset = dataclasses.replace(worker, mark=mark(1, era=2))
    assert (await (await reset.ready()).post("/jobs", {"id": 1, "name": "b"})).status == 201
    assert (await worker.delete("/jobs?id=eq.1")).result == FencedByStore(mark(1, era=2))


async def check_two_hands(harness: RowsHarness) -> None:
    """A forgetful registry cannot give one token to two holders: the fence row knows the first."""
    worker = await client(harness, 5)
    first, second = (mark(5)._replace(holder=Holder(name)) for name in ("a", "b"))
    assert await worker.store.carry(worker.scope, first) is None
    above = await worker.store.carry(worker.scope, second)
    assert above is not None
    assert above.rank == mark(5, burnt=True).rank
    for held in (first, second):
        refused = await dataclasses.replace(worker, mark=held).post("/jobs", {"id": 1, "name": "a"})
        assert isinstance(refused.result, FencedByStore)
        assert refused.result.mark.rank == above.rank
    assert await harness.fetch("SELECT id FROM jobs") == []


async def check_scopes_are_apart(harness: RowsHarness) -> None:
    """A mark fences its own scope and no other."""
    worker = await client(harness, 9)
    other = await dataclasses.replace(worker, scope=Scope("other"), mark=mark(1)).ready()
    assert (await other.post("/jobs", {"id": 1, "name": "a"})).status == 201
    assert (await worker.patch("/jobs?id=eq.1", {"name": "b"})).status == 204


async def check_another_replicas_raise(harness: RowsHarness) -> None:
    """A mark that one replica has committed stops the writes of every other replica."""
    old = await client(harness, 1)
    new = await client(harness, 2)
    await new.post("/jobs", {"id": 1, "name": "new"})
    for send in (
        old.post("/jobs", {"id": 2, "name": "old"}),
        old.patch("/jobs?id=eq.1", {"name": "old"}),
        old.delete("/jobs"),
    ):
        assert (await send).result == FencedByStore(mark(2))
    assert await harness.fetch("SELECT id, name FROM jobs") == [(1, "new")]


async def check_no_resurrection(harness: RowsHarness) -> None:
    """A row that the newer holder removed is not brought back by the older one."""
    old = await client(harness, 1)
    await old.post("/jobs", {"id": 1, "name": "a"})
    new = await dataclasses.replace(old, mark=mark(2)).ready()
    await new.delete("/jobs?id=eq.1")
    again = await old.post("/jobs", {"id": 1, "name": "a"}, if_none_match="*")
    assert again.result == FencedByStore(mark(2))
    assert await harness.fetch("SELECT id FROM jobs") == []


async def check_gate(harness: RowsHarness) -> None:
    """A shut gate leaves everything as it was; it is asked once, on the event loop's thread."""
    worker = await client(harness)
    await worker.post("/jobs", {"id": 1, "name": "a"})
    shut = Problem(Code.NOT_DRAINED, "shut")
    asked: list[int] = []

    def gate() -> Problem | None:
        asyncio.get_running_loop()
        asked.append(threading.get_ident())
        return shut

    barred = dataclasses.replace(worker, gate=gate)
    for send in (
        barred.post("/jobs", {"id": 2, "name": "b"}),
        barred.patch("/jobs?id=eq.1", {"name": "b"}),
        barred.delete("/jobs?id=eq.1"),
    ):
        assert (await send).result == NotWritten(shut)
    assert asked == [threading.get_ident()] * 3
    assert await harness.fetch("SELECT id, name, version FROM jobs") == [(1, "a", 1)]


async def check_gate_of_every_write(harness: RowsHarness) -> None:
    """Of many writes at once each is asked at its own gate: the shut ones alone are refused."""
    worker = await client(harness)
    shut = Problem(Code.NOT_DRAINED, "shut")

    async def insert(number: int) -> bool:
        gate = (lambda: shut) if number % 3 == 0 else (lambda: None)
        answer = await dataclasses.replace(worker, gate=gate).post(
            "/jobs", {"id": number, "name": "n"}
        )
        return isinstance(answer.result, Written)

    written = await asyncio.gather(*(insert(number) for number in range(24)))
    assert written == [number % 3 != 0 for number in range(24)]
    rows = await harness.fetch("SELECT id FROM jobs ORDER BY id")
    assert [row[0] for row in rows] == [number for number in range(24) if number % 3]


async def check_failures_do_not_spread(harness: RowsHarness) -> None:
    """Of many writes at once those that fail undo themselves alone."""
    worker = await client(harness)
    race = (
        worker.post("/kinds", {"id": number, "size": -1 if number % 4 == 0 else 1})
        for number in range(24)
    )
    statuses = [answer.status for answer in await asyncio.gather(*race)]
    assert statuses == [400 if number % 4 == 0 else 201 for number in range(24)]
    rows = await harness.fetch("SELECT id FROM kinds ORDER BY id")
    assert [row[0] for row in rows] == [number for number in range(24) if number % 4]


async def check_lost_answer_found(harness: RowsHarness) -> None:
    """A retry that names its earlier attempt gets that attempt's answer, from any replica."""
    worker = await client(harness)
    await worker.post("/jobs", {"id": 1, "name": "a"})
    first = await worker.patch(
        "/jobs?id=eq.1", {"state": "x"}, prefer="return=representation", write_id="w1"
    )
    other = dataclasses.replace(worker, store=await harness.open())
    again = await other.patch(
        "/jobs?id=eq.1", {"state": "x"}, prefer="return=representation", previous="w1"
    )
    assert (again.status, again.json, again.etag) == (first.status, first.json, first.etag)
    assert await harness.fetch("SELECT version FROM jobs") == [(2,)]
    fresh = await other.patch("/jobs?id=eq.1", {"state": "x"}, previous="w-unknown")
    assert fresh.status == 204
    assert await harness.fetch("SELECT version FROM jobs") == [(3,)]


async def check_lost_answer_found_after_a_raise(harness: RowsHarness) -> None:
    """What was written stays written: the retry learns it although its token is stale by now."""
    worker = await client(harness)
    await worker.post("/jobs", {"id": 1, "name": "a"}, write_id="w1")
    assert await worker.store.carry(worker.scope, mark(2)) is None
    again = await worker.post("/jobs", {"id": 1, "name": "a"}, previous="w1")
    assert again.status == 201
    other = await worker.post("/jobs", {"id": 2, "name": "a"}, previous="w2")
    assert other.result == FencedByStore(mark(2))


async def check_idempotency_key(harness: RowsHarness) -> None:
    """The same request with the same key is done once, on every replica; another key is another."""
    first = await client(harness)
    second = dataclasses.replace(first, store=await harness.open())
    for worker, key in ((first, "k1"), (second, "k1"), (second, "k2"), (first, "k2")):
        answer = await worker.post("/plain", {"a": "x"}, idempotency_key=key)
        assert answer.status == 201
    assert len(await harness.fetch("SELECT a FROM plain")) == 2
    other_scope = await dataclasses.replace(first, scope=Scope("other")).ready()
    await other_scope.post("/plain", {"a": "x"}, idempotency_key="k1")
    assert len(await harness.fetch("SELECT a FROM plain")) == 3


async def check_refused_is_forgotten(harness: RowsHarness) -> None:
    """A request that was refused is tried anew with the same key."""
    worker = await client(harness)
    refused = await worker.post("/jobs", {"id": 1}, idempotency_key="k")
    assert refused.status == 400
    assert (await worker.post("/jobs", {"id": 1, "name": "a"}, idempotency_key="k")).status == 201


async def check_key_of_another_request(harness: RowsHarness) -> None:
    """A key that was used for other content is refused by every replica, and nothing is done."""
    first = await client(harness)
    second = dataclasses.replace(first, store=await harness.open())
    applied = await first.post("/plain", {"a": "x"}, idempotency_key="k")
    assert isinstance(applied.result, Written)
    assert not applied.result.earlier
    for worker in (first, second):
        other = await worker.post("/plain", {"a": "y"}, idempotency_key="k")
        assert (other.status, other.code) == (422, "idempotency_key_reused")
        again = await worker.post("/plain", {"a": "x"}, idempotency_key="k")
        assert again.result == dataclasses.replace(applied.result, earlier=True)
    assert await harness.fetch("SELECT a FROM plain") == [("x",)]


async def check_recalled(harness: RowsHarness) -> None:
    """What stands under a key is told to a retry that the fence refuses; nothing else is."""
    worker = await client(harness)
    applied = await worker.post("/plain", {"a": "x"}, idempotency_key="k")
    store = await harness.open()
    assert isinstance(store, Recalls)
    assert isinstance(applied.result, Written)
    era = worker.mark.era

    async def recalled(body: object, key: str, at: Era | None = era) -> WriteResult | None:
        operation = await worker.operation("POST", "/plain", body, idempotency_key=key)
        return await store.recall(operation, worker.scope, at)

    assert await recalled({"a": "x"}, "k") == dataclasses.replace(applied.result, earlier=True)
    other = await recalled({"a": "y"}, "k")
    assert isinstance(other, NotWritten)
    assert other.problem.status == 422
    assert await recalled({"a": "x"}, "unused") is None
    assert await recalled({"a": "x"}, "k", Era(2)) is None


async def check_found_out(harness: RowsHarness) -> None:
    """A write that is found not to have happened never happens; one that did is told as it was."""
    worker = await client(harness)
    assert isinstance(worker.store, FindsOut)
    body = {"id": 1, "name": "a"}
    operation = await worker.operation("POST", "/jobs", body)
    early = await worker.store.find_out(operation, worker.fence("w1"), 0.0)
    assert isinstance(early, NotWritten)
    late = await worker.post("/jobs", body, write_id="w1")
    assert isinstance(late.result, NotWritten), "a write landed that was said to be lost"
    assert await harness.fetch("SELECT id FROM jobs") == []
    applied = await worker.post("/jobs", body, write_id="w2")
    assert await worker.store.find_out(operation, worker.fence("w2"), 0.0) == applied.result
