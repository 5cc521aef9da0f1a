"""Commit order at the origin: which parts of the protocol keep it, and what catches their absence.

A lower write passes its gate and stalls inside the store. Then a higher token comes. Drain and
condition are taken away one by one; the journal of effects must show it each time.
"""

from __future__ import annotations

import asyncio
import itertools

import pytest

from gateway.ports.store import MaybeWritten, NotWritten, Written
from gateway.stores.s3 import puts
from gateway.testing.numbering_origin import Asked
from gateway.testing.store_contract import Effect
from gateway.testing.store_order import Attempt, late_effects, overtaken
from gateway.testing.store_subject import Pieces
from tests.conformance.s3_lake import Lake, open_lake


class Race:
    """A lower write that stalls in the store, and a higher one that may wait for it or not."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.attempts: list[Attempt] = []
        self.release = asyncio.Event()
        self._count = itertools.count(1)

    async def write(self, key: str, token: int, write_id: str) -> Attempt:
        """One write, with the places of its beginning and end among all events."""
        attempt = Attempt(key, token, write_id, Pieces(write_id.encode()), next(self._count))
        self.attempts.append(attempt)
        attempt.result = await self.lake.put(key, attempt.body, write_id, token=token)
        attempt.ended = next(self._count)
        return attempt

    async def run(self, higher_key: str, *, drain: bool) -> str:
        """Let the higher write come while the lower one stalls; what is wrong with the order."""
        origin = self.lake.origin

        async def stall(asked: Asked) -> None:
            if ".low." in (asked.get("x-amz-meta-fencegate") or ""):
                await self.release.wait()

        origin.faults.before_effect = stall
        low = asyncio.ensure_future(self.write("one", 1, "low"))
        await origin.until(lambda: any(asked.method == "PUT" for asked in origin.asked))
        if drain:
            self.release.set()
            await low
        await self.write(higher_key, 2, "high")
        self.release.set()
        await low
        effects = [Effect(effect.key, effect.write_id) for effect in origin.effects]
        return late_effects(effects, self.attempts)


@pytest.fixture(autouse=True)
def quick_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look for a lost write."""
    monkeypatch.setattr(puts, "_SETTLE_WAITS_S", (0.0,))


@pytest.mark.parametrize("mode", ["etag", "none"])
@pytest.mark.parametrize("higher_key", ["one", "two"])
async def test_drain_keeps_the_order(mode: str, higher_key: str) -> None:
    """With the drain the order holds, with conditions and without, on one object and on two."""
    async with open_lake(conditions=mode) as lake:
        race = Race(lake)
        assert await race.run(higher_key, drain=True) == ""
        assert all(isinstance(attempt.result, Written) for attempt in race.attempts)


async def test_condition_protects_one_object_without_the_drain() -> None:
    """Later than any drain, the version read at admission still keeps the rewritten object."""
    async with open_lake() as lake:
        race = Race(lake)
        assert await race.run("one", drain=False) == ""
        low, high = race.attempts
        assert isinstance(high.result, Written)
        assert not isinstance(low.result, Written | MaybeWritten | NotWritten)  # told as stale
        assert lake.data("one") == b"high"


@pytest.mark.parametrize("mode,higher_key", [("none", "one"), ("none", "two"), ("etag", "two")])
async def test_without_drain_the_order_breaks(mode: str, higher_key: str) -> None:
    """The control: no drain, and no condition on that object, is caught by the journal.

    The answers alone show nothing: both clients were told "applied", and neither wrote after the
    other had been answered. A test of answers passes this broken design.
    """
    async with open_lake(conditions=mode) as lake:
        race = Race(lake)
        assert "after token 2" in await race.run(higher_key, drain=False)
        assert all(attempt.applied for attempt in race.attempts)
        assert overtaken(race.attempts) == []


async def test_equal_bytes_need_the_drain() -> None:
    """A content hash repeats: after A, B, A the old condition holds again (so: drain first)."""
    for unique in (False, True):
        async with open_lake() as lake:
            lake.origin.faults.unique_etags = unique
            assert isinstance(await lake.put("k", b"A", "a1", token=1), Written)
            old_look = await lake.look_at("k")
            assert isinstance(await lake.put("k", b"B", "b2", token=2), Written)
            assert isinstance(await lake.put("k", b"A", "a3", token=3), Written)
            late = await lake.put("k", b"stale", "late", token=1, looked=old_look)
            assert isinstance(late, Written) is not unique
            assert (lake.data("k") == b"A") is unique
