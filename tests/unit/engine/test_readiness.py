"""Readiness: every part is looked at, seldom, with a deadline, and a doubt is a no."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.engine.readiness import FRESH_S, Readiness
from gateway.ports.registry import RegistryUnavailable


class Hands:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def boottime_s(self) -> float:
        return self.now_s

    async def sleep_s(self, seconds: float) -> None:
        self.now_s += seconds


class Part:
    """A registry and a store in one: it counts the looks, and answers as it is told."""

    def __init__(self) -> None:
        self.looks = 0
        self.wrong: str | None = None
        self.error: Exception | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def check(self) -> str | None:
        self.looks += 1
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return self.wrong

    async def probe(self) -> None:
        await self.check()


class Stand:
    """Readiness over a registry and two stores."""

    def __init__(self) -> None:
        self.clock = Hands()
        self.registry, self.files, self.lake = Part(), Part(), Part()
        stores = {"files": self.files, "lake": self.lake}
        self.readiness = Readiness(self.registry, stores, self.clock, 0.02)  # type: ignore[arg-type]

    async def wrong(self) -> dict[str, str]:
        parts = await self.readiness.ready()
        assert self.readiness.leaving or set(parts) == {"registry", "store files", "store lake"}
        return {name: text for name, text in parts.items() if text is not None}


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    made = Stand()
    yield made
    await made.readiness.aclose()


async def test_each_part_says_what_is_wrong_with_it(stand: Stand) -> None:
    """The store that is down is named with its reason, the registry too; the others are not."""
    assert await stand.wrong() == {}
    stand.clock.now_s += FRESH_S
    stand.lake.wrong = "cannot be reached"
    stand.registry.error = RegistryUnavailable("no answer")
    assert await stand.wrong() == {"registry": "no answer", "store lake": "cannot be reached"}
    stand.clock.now_s += FRESH_S
    stand.lake.wrong = stand.registry.error = None
    assert await stand.wrong() == {}


async def test_health_checks_cannot_hammer_a_store(stand: Stand) -> None:
    """A hundred questions at once and a hundred more within a second are one look."""
    await asyncio.gather(*(stand.wrong() for _ in range(100)))
    stand.clock.now_s += FRESH_S * 0.9
    for _ in range(100):
        await stand.wrong()
    assert (stand.registry.looks, stand.files.looks, stand.lake.looks) == (1, 1, 1)
    stand.clock.now_s += FRESH_S * 0.1
    await stand.wrong()
    assert (stand.registry.looks, stand.files.looks, stand.lake.looks) == (2, 2, 2)


async def test_a_store_that_hangs_is_a_failure_and_not_piled_upon(stand: Stand) -> None:
    """It counts as wrong from the deadline on; no second look waits behind the first."""
    stand.lake.may_answer.clear()
    for _ in range(3):
        told = await stand.wrong()
        assert set(told) == {"store lake"}
        assert "has not answered" in told["store lake"]
        stand.clock.now_s += 5
    assert stand.lake.looks == 1
    assert stand.files.looks == 3
    stand.lake.may_answer.set()
    await asyncio.wait_for(_until_empty(stand), 5)


async def _until_empty(stand: Stand) -> None:
    while await stand.wrong():
        stand.clock.now_s += FRESH_S


async def test_an_unforeseen_error_is_a_no_and_its_text_stays_inside(stand: Stand) -> None:
    """Fail closed; what somebody else's error says may hold a password."""
    stand.files.error = ValueError("password=hush")
    told = await stand.wrong()
    assert told == {"store files": "could not be looked at (ValueError)"}


async def test_who_leaves_is_not_ready(stand: Stand) -> None:
    """A gateway that is about to stop says so, and asks nobody any more."""
    stand.readiness.leaving = True
    assert await stand.wrong() == {"server": "is stopping"}
    assert stand.files.looks == 0


async def test_a_look_under_way_is_given_up_at_the_end(stand: Stand) -> None:
    """A hanging store does not keep the gateway from stopping."""
    stand.lake.may_answer.clear()
    await stand.wrong()
    await asyncio.wait_for(stand.readiness.aclose(), 5)
