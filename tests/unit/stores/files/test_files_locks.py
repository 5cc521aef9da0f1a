"""Locks of scopes and resources: who waits for whom, for how long, and what is left on the disk."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.model.mark import Era, Mark, Scope
from gateway.model.problem import Code
from gateway.model.token import Holder
from gateway.ports.store import BehindRegistry, CarryFailed, FencedByStore
from gateway.stores.files.faults import Refusal
from gateway.stores.files.flocks import FileLock
from gateway.stores.files.resource_locks import Removals, ResourceLocks
from gateway.stores.files.scope_locks import ScopeLocks, standing
from gateway.stores.files.threads import DiskThreads

S = Scope("reports/a")
ONE, TWO = Mark(Era(1), 1), Mark(Era(1), 2)


@pytest.fixture
async def threads() -> AsyncIterator[DiskThreads]:
    threads = DiskThreads("test")
    yield threads
    threads.close()


@pytest.fixture
def locks(tmp_path: Path, threads: DiskThreads) -> ScopeLocks:
    return ScopeLocks(tmp_path, threads, 0.2)


@contextmanager
def elsewhere(path: Path, how: int) -> Iterator[None]:
    """The lock as another process would hold it: by an open file of its own."""
    fd = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(fd, how)
        yield
    finally:
        os.close(fd)


async def stored(locks: ScopeLocks) -> Mark | None:
    async with locks.shared(S) as mark:
        return mark


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    "mark, ours, answer",
    [
        (None, ONE, BehindRegistry(None)),
        (ONE, TWO, BehindRegistry(ONE)),
        (ONE, ONE, None),
        (TWO, ONE, FencedByStore(TWO)),
        (Mark(Era(1), 1, burnt=True), ONE, FencedByStore(Mark(Era(1), 1, burnt=True))),
        (Mark(Era(2), 0), TWO, FencedByStore(Mark(Era(2), 0))),
        (TWO, Mark(Era(2), 1), BehindRegistry(TWO)),
        (Mark(Era(1), 1, holder=Holder("h")), ONE, None),
    ],
)
def test_standing(mark: Mark | None, ours: Mark, answer: object) -> None:
    """Only the very mark that is stored lets a write go on; eras come first, burnt is above."""
    assert standing(mark, ours) == answer


async def test_marks_rise_and_stay(locks: ScopeLocks, tmp_path: Path, threads: DiskThreads) -> None:
    """A mark is read back by others, is never lowered, and learns its holder later."""
    assert await stored(locks) is None
    assert await locks.carry(S, ONE) is None
    assert await locks.carry(S, TWO) is None
    assert await locks.carry(S, ONE) == TWO
    assert await locks.carry(S, Mark(Era(1), 2, holder=Holder("h"))) is None
    assert await locks.carry(S, TWO) is None
    other = ScopeLocks(tmp_path, threads, 0.2)
    assert await stored(other) == Mark(Era(1), 2, holder=Holder("h"))
    assert await locks.carry(S, Mark(Era(2), 0)) is None
    assert await stored(other) == Mark(Era(2), 0)


async def test_a_raise_waits_for_writers_and_gives_up(locks: ScopeLocks) -> None:
    """While a writer anywhere holds the lock the raise waits, then fails, and nothing is lost."""
    await locks.carry(S, ONE)
    with elsewhere(locks.path(S), fcntl.LOCK_SH):
        with pytest.raises(CarryFailed, match="reports/a"):
            await locks.carry(S, TWO)
        assert await stored(locks) == ONE
        assert await locks.carry(S, ONE) is None  # stands already: nothing older is under way
    assert await locks.carry(S, TWO) is None


async def test_a_raise_goes_on_as_soon_as_it_can(locks: ScopeLocks) -> None:
    """A writer that ends lets a waiting raise through."""
    await locks.carry(S, ONE)
    async with locks.shared(S):
        raising = asyncio.create_task(locks.carry(S, TWO))
        done, _ = await asyncio.wait({raising}, timeout=0.05)
        assert not done
    assert await asyncio.wait_for(raising, 0.2) is None


async def test_a_writer_waits_for_a_raise_and_gives_up(locks: ScopeLocks) -> None:
    """While a raise holds the lock a write waits, and is told to come again."""
    await locks.carry(S, ONE)
    with elsewhere(locks.path(S), fcntl.LOCK_EX):
        with pytest.raises(Refusal) as refused:
            await stored(locks)
        assert refused.value.problem.code is Code.BUSY
        assert await locks.peek(S, ONE) is None  # nobody waits before a body is read
    assert await stored(locks) == ONE


async def test_writers_share(locks: ScopeLocks) -> None:
    """Many writes of one token go on side by side."""
    await locks.carry(S, ONE)
    async with locks.shared(S) as one, locks.shared(S) as two:
        assert one == two == ONE


async def test_a_look_ahead(locks: ScopeLocks) -> None:
    """Before its body is read a write learns how it would end as things stand."""
    assert await locks.peek(S, ONE) == BehindRegistry(None)
    await locks.carry(S, TWO)
    assert await locks.peek(S, ONE) == FencedByStore(TWO)
    assert await locks.peek(S, TWO) is None


async def test_a_damaged_file_refuses(locks: ScopeLocks) -> None:
    """Neither a write nor a raise goes on over a mark that cannot be read."""
    await locks.carry(S, TWO)
    with locks.path(S).open("r+b") as file:
        file.write(b"v1 1 1 1 0 - forged")
    for attempt in (locks.peek(S, TWO), stored(locks)):
        with pytest.raises(Refusal, match="damaged"):
            await attempt
    with pytest.raises(CarryFailed, match="damaged"):
        await locks.carry(S, Mark(Era(1), 3))
    assert b"forged" in locks.path(S).read_bytes()


async def test_nothing_stays_open(locks: ScopeLocks) -> None:
    """Locks cost no open file once they are given back, also after failures and cancellations."""
    await locks.carry(S, ONE)
    await stored(locks)
    before = open_files()
    for number in range(20):
        await locks.carry(Scope(f"s{number}"), ONE)
        await locks.carry(Scope(f"s{number}"), TWO)
        await locks.peek(Scope("none"), ONE)
    with elsewhere(locks.path(S), fcntl.LOCK_EX):
        waiting = [asyncio.create_task(stored(locks)) for _ in range(5)]
        waiting += [asyncio.create_task(locks.carry(S, TWO)) for _ in range(5)]  # type: ignore[arg-type]
        await asyncio.wait(waiting, timeout=0.03)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert open_files() == before
    assert await locks.carry(S, TWO) is None


async def test_a_million_scopes_do_not_share_a_directory(locks: ScopeLocks, tmp_path: Path) -> None:
    """Lock files lie two levels deep by their hash: 65,536 directories, evenly filled."""
    paths = [locks.path(Scope(f"scope/{number}")) for number in range(20_000)]
    assert len(set(paths)) == len(paths)
    assert {len(path.relative_to(tmp_path).parts) for path in paths} == {3}
    assert len({path.parent for path in paths}) > 15_000


async def test_one_writer_per_resource(tmp_path: Path, threads: DiskThreads) -> None:
    """Writers of one resource, or of one lock file, come one after the other, in order."""
    locks = ResourceLocks(tmp_path, threads, 0.2)
    inside: list[int] = []
    order: list[int] = []

    async def work(number: int) -> None:
        async with locks.held("abc" + "0" * 61):
            inside.append(number)
            assert len(inside) == 1
            await asyncio.sleep(0)
            order.append(inside.pop())

    await asyncio.gather(*(work(number) for number in range(10)))
    assert order == list(range(10))
    assert [path.name for path in tmp_path.iterdir()] == ["abc"]


async def test_a_resource_held_elsewhere_is_busy(tmp_path: Path, threads: DiskThreads) -> None:
    """Another process that holds it too long costs a 503, and those behind it their turn only."""
    locks = ResourceLocks(tmp_path, threads, 0.1)
    async with locks.held("abc"):
        pass
    with elsewhere(tmp_path / "abc", fcntl.LOCK_EX):
        results = await asyncio.gather(*(_busy(locks) for _ in range(3)), return_exceptions=True)
        assert all(isinstance(result, Refusal) for result in results)
    async with locks.held("abc"):
        pass


async def _busy(locks: ResourceLocks) -> None:
    async with locks.held("abc"):
        raise AssertionError("held twice")


def test_removals_are_bounded_and_forgiving(tmp_path: Path) -> None:
    """The last removals are remembered, the latest of each; nonsense is like nothing."""
    lock = FileLock(tmp_path / "abc", exclusive=True)
    assert lock.try_acquire()
    removals = Removals(lock)
    assert removals.write_id("r1") is None
    for number in range(40):
        removals.note(f"r{number}", f"w{number}")
    removals.note("r39", "again")
    assert removals.write_id("r39") == "again"
    assert removals.write_id("r30") == "w30"
    assert removals.write_id("r1") is None
    (tmp_path / "abc").write_text("{nonsense")
    assert removals.write_id("r39") is None
    removals.note("r1", "w1")
    assert removals.write_id("r1") == "w1"
    lock.release()
