"""Afterwards: what the object tells about a write whose answer was lost, and about a client's key.

The origin's journal is what really happened; nothing told may contradict it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.model.mark import Era
from gateway.model.object_action import PutObject
from gateway.model.operation import Operation
from gateway.model.token import Token
from gateway.model.version import Absent, Look
from gateway.model.write_id import request_name, write_id_of
from gateway.ports.store import MaybeWritten, NotWritten, WriteResult, Written
from gateway.stores.s3 import puts
from tests.conformance.s3_lake import BUCKET, SCOPE, Lake, open_lake, operation

LATE_S = 60.0
"""Longer than `settle_ms`."""


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not look for a lost write at once: these tests look later."""
    monkeypatch.setattr(puts, "_SETTLE_WAITS_S", ())


def named(key: str, length: int, retry_key: str) -> Operation:
    """A PUT with a key of the client's own."""
    made = operation(PutObject(BUCKET, key, length))
    return replace(made, token=Token(1), retry_key=retry_key)


async def found(lake: Lake, key: str, looked: Look, age_s: float, length: int = 1) -> WriteResult:
    asked = operation(PutObject(BUCKET, key, length))
    return await lake.store.find_out(asked, lake.fence("lost", looked), age_s)


async def test_a_write_that_landed_is_found_by_its_stamp() -> None:
    """Answer swallowed, effect there: applied, at whatever time one asks."""
    async with open_lake() as lake:
        lake.origin.faults.swallow_replies = 1
        assert isinstance(await lake.put("k", b"1", "lost"), MaybeWritten)
        assert lake.data("k") == b"1"
        for age_s in (0.0, LATE_S):
            assert isinstance(await found(lake, "k", Absent(), age_s), Written)


async def test_an_unchanged_object_tells_only_after_settling() -> None:
    """Before `settle_ms` the write may still land; afterwards it is certain that it has not."""
    async with open_lake() as lake:
        await lake.put("k", b"0", "first")
        looked = await lake.look_at("k")
        lake.origin.faults.fail_before_commit = 1
        assert isinstance(await lake.put("k", b"1", "lost"), MaybeWritten)
        assert isinstance(await found(lake, "k", looked, 0.0), MaybeWritten)
        assert isinstance(await found(lake, "k", looked, LATE_S), NotWritten)
        assert lake.data("k") == b"0"


async def test_what_others_changed_or_removed_tells_nothing() -> None:
    """Our bytes may have been there for a moment: unknown stays unknown, for ever."""
    async with open_lake() as lake:
        await lake.put("k", b"0", "first")
        looked = await lake.look_at("k")
        lake.origin.faults.swallow_replies = 1
        assert isinstance(await lake.put("k", b"1", "lost"), MaybeWritten)
        await lake.put("k", b"2", "later")
        assert isinstance(await found(lake, "k", looked, LATE_S), MaybeWritten)
        lake.origin.faults.swallow_replies = 1
        assert isinstance(await lake.put("new", b"1", "lost"), MaybeWritten)
        await lake.delete("new")
        assert isinstance(await found(lake, "new", Absent(), LATE_S), MaybeWritten)


async def test_a_store_that_is_down_tells_nothing() -> None:
    """No answer to the look is no answer to the question."""
    async with open_lake() as lake:
        await lake.put("k", b"0", "lost")
        lake.origin.faults.drop_requests = 4
        assert isinstance(await found(lake, "k", Absent(), LATE_S), MaybeWritten)


async def test_a_clients_key_is_recognised_by_the_stamp_alone() -> None:
    """Another process, with nothing in memory, does not write again; other content is refused."""
    async with open_lake() as lake:
        first, other = named("k", 1, "job-1"), named("k", 2, "job-1")
        name, other_name = request_name(first, SCOPE), request_name(other, SCOPE)
        wrote = await lake.put("k", b"1", write_id_of(name, "1" * 32))
        assert isinstance(wrote, Written)
        assert not wrote.earlier
        again = await lake.put("k", b"1", write_id_of(name, "2" * 32))
        assert again == Written(replace(wrote.reply, created=False, extra=()), earlier=True)
        reused = await lake.put("k", b"22", write_id_of(other_name, "3" * 32))
        assert isinstance(reused, NotWritten)
        assert reused.problem.status == 422
        assert len(lake.origin.effects) == 1

        recalled = await lake.store.recall(first, SCOPE, Era(1))
        assert isinstance(recalled, Written)
        assert recalled.earlier
        assert isinstance(await lake.store.recall(other, SCOPE, Era(1)), NotWritten)
        assert await lake.store.recall(named("k", 1, "job-2"), SCOPE, Era(1)) is None
        assert await lake.store.recall(first, SCOPE, Era(2)) is None
        assert await lake.store.recall(named("none", 1, "job-1"), SCOPE, Era(1)) is None
