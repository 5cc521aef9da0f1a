"""Raises in single file, and writes of one scope behind their bulkhead."""

from __future__ import annotations

import asyncio

import pytest

from gateway.engine.bulkhead import Bulkhead, LanesBusy
from gateway.engine.raises import Raises
from gateway.model.mark import Era, Mark, Scope
from gateway.ports.store import CarryFailed

SCOPE = Scope("s")


class Database:
    """Raises that end when they are told to."""

    def __init__(self) -> None:
        self.started: list[Mark] = []
        self.go = asyncio.Event()
        self.fails = False

    async def raise_mark(self, scope: Scope, mark: Mark) -> Mark:
        self.started.append(mark)
        await self.go.wait()
        if self.fails:
            raise CarryFailed("no")
        return mark


def mark(token: int) -> Mark:
    return Mark(Era(1), token)


async def settle() -> None:
    """Let everything that can run, run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_equal_raises_share_one_and_others_follow() -> None:
    """One statement for all who ask for the same mark; another mark waits its turn."""
    database = Database()
    raises = Raises(database.raise_mark)
    same = [asyncio.create_task(raises.carry(SCOPE, mark(2))) for _ in range(5)]
    other = asyncio.create_task(raises.carry(SCOPE, mark(3)))
    elsewhere = asyncio.create_task(raises.carry(Scope("t"), mark(9)))
    await settle()
    assert database.started == [mark(2), mark(9)]
    database.go.set()
    assert await asyncio.gather(*same) == [mark(2)] * 5
    assert (await other, await elsewhere) == (mark(3), mark(9))
    assert database.started == [mark(2), mark(9), mark(3)]


async def test_all_who_wait_learn_of_a_failure_and_the_next_tries_anew() -> None:
    """A failed raise is nobody's cached answer."""
    database = Database()
    database.fails = True
    database.go.set()
    raises = Raises(database.raise_mark)
    answers = await asyncio.gather(
        *(raises.carry(SCOPE, mark(2)) for _ in range(3)), return_exceptions=True
    )
    assert [type(one) for one in answers] == [CarryFailed] * 3
    database.fails = False
    assert await raises.carry(SCOPE, mark(2)) == mark(2)


async def test_a_raise_outlives_the_caller_that_started_it() -> None:
    """The first in line gives up; the others still get their answer, and closing waits for it."""
    database = Database()
    raises = Raises(database.raise_mark)
    first = asyncio.create_task(raises.carry(SCOPE, mark(2)))
    second = asyncio.create_task(raises.carry(SCOPE, mark(2)))
    await settle()
    first.cancel()
    closing = asyncio.create_task(raises.aclose())
    await settle()
    assert not closing.done()
    database.go.set()
    assert await second == mark(2)
    await closing
    assert len(database.started) == 1


async def test_a_bulkhead_bounds_each_scope_alone() -> None:
    """So many of one scope, the next in time or not at all, other scopes untouched."""
    bulkhead = Bulkhead(2, wait_s=0.01)
    for _ in range(2):
        await bulkhead.enter(SCOPE)
    with pytest.raises(LanesBusy, match="2 writes of this scope are under way"):
        await bulkhead.enter(SCOPE)
    await bulkhead.enter(Scope("t"))
    waiting = asyncio.create_task(bulkhead.enter(SCOPE))
    await settle()
    bulkhead.leave(SCOPE)
    await waiting


async def test_a_bulkhead_keeps_nothing_of_scopes_that_are_done() -> None:
    """Scopes come and go by the million: what is left, was refused or gave up takes no memory."""
    bulkhead = Bulkhead(1, wait_s=0.01)
    for number in range(100):
        await bulkhead.enter(Scope(str(number)))
        with pytest.raises(LanesBusy):
            await bulkhead.enter(Scope(str(number)))
        waiting = asyncio.create_task(bulkhead.enter(Scope(str(number))))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        bulkhead.leave(Scope(str(number)))
    assert len(bulkhead) == 0
