"""The admin's desk over real registries: resets drain and start an era; an issuer may regress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.engine.desk import Desk
from gateway.engine.fences import Admission, Fences, Timing
from gateway.model.event import Event, RegistryRegressed, ScopeReset, TokenRegressed
from gateway.model.mark import Era, Mark, Scope
from gateway.model.problem import Code, Problem
from gateway.model.token import MAX_TOKEN, Holder, Token
from gateway.ports.registry import Registry
from gateway.ports.store import CarryFailed
from gateway.registries.memory import MemoryRegistry
from gateway.registries.sqlite import SqliteRegistry
from gateway.system_clock import SystemClock

SCOPE = Scope("reports/eu")
CLOCK = SystemClock()
DRAIN_S = 0.3


class Events(list[Event]):
    """Keeps what was emitted."""

    def emit(self, event: Event) -> None:
        self.append(event)


class CarryingStore:
    """A store that keeps marks of its own, and can refuse to."""

    name = "db"

    def __init__(self) -> None:
        self.mark = Mark(Era(1), 0)
        self.fails = False

    async def carry(self, scope: Scope, mark: Mark) -> Mark | None:
        if self.fails:
            raise CarryFailed("locked")
        if self.mark.rank > mark.rank:
            return self.mark
        self.mark = mark
        return None


class Bench:
    """Fences with their desk, over one registry and one carrying store."""

    def __init__(self, registry: Registry) -> None:
        self.events, self.store = Events(), CarryingStore()
        timing = Timing(drain_timeout_s=DRAIN_S)
        self.fences = Fences(
            registry,
            CLOCK,
            self.events,
            timing,
            lambda _: [self.store],  # type: ignore[list-item]
        )
        self.desk = Desk(self.fences, CLOCK, self.events, DRAIN_S)

    async def admitted(self, token: int) -> Admission:
        found = await self.fences.admit(SCOPE, Token(token), None, "db")
        assert isinstance(found, Admission), found
        return found

    async def refused(self, token: int) -> Code:
        found = await self.fences.admit(SCOPE, Token(token), None, "db")
        assert isinstance(found, Problem), found
        return found.code

    async def reset(self) -> Mark:
        done = await self.desk.reset(SCOPE, "drill")
        assert isinstance(done, Mark), done
        return done


@pytest.fixture(params=["memory", "sqlite"])
async def registry(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Registry]:
    made = MemoryRegistry() if request.param == "memory" else SqliteRegistry(tmp_path / "r.sqlite")
    yield made
    await made.aclose()


@pytest.fixture
async def bench(registry: Registry) -> AsyncIterator[Bench]:
    made = Bench(registry)
    await made.fences.start(0)
    yield made
    await made.fences.stop()


async def test_a_reset_makes_low_tokens_new_again(bench: Bench) -> None:
    """Rule 15: era + 1, an empty mark, in the registry and in the store; told as an event."""
    (await bench.admitted(50)).settle()
    assert await bench.reset() == Mark(Era(2), 0)
    assert bench.store.mark == Mark(Era(2), 0)
    reset = next(e for e in bench.events if isinstance(e, ScopeReset))
    assert (reset.before.token, reset.after, reset.reason) == (50, Mark(Era(2), 0), "drill")
    low = await bench.admitted(3)
    assert low.gate() is None
    low.settle()
    assert bench.store.mark == Mark(Era(2), 3)
    assert await bench.refused(2) is Code.TOKEN_STALE
    assert not any(isinstance(e, RegistryRegressed) for e in bench.events)


async def test_a_reset_waits_for_what_passed_the_gate(bench: Bench) -> None:
    """Rule 15: it drains everything first; meanwhile no token gets in, however high."""
    sent = await bench.admitted(5)
    assert sent.gate() is None
    resetting = asyncio.create_task(bench.desk.reset(SCOPE, "drill"))
    while (row := await bench.desk.scope(SCOPE)) is None or not row.mark.burnt:
        assert not resetting.done()
        await asyncio.sleep(0)
    assert await bench.refused(99) is Code.TOKEN_STALE
    assert not resetting.done()
    sent.settle()
    assert await resetting == Mark(Era(2), 0)


async def test_an_open_ticket_of_the_old_era_fails_at_the_gate(bench: Bench) -> None:
    """Rules 5 and 15: what had not been sent when the reset came is never sent."""
    waiting = await bench.admitted(5)
    await bench.reset()
    problem = waiting.gate()
    assert problem is not None
    waiting.settle()


async def test_a_reset_that_cannot_drain_is_called_again(bench: Bench) -> None:
    """It answers 503 and leaves the scope closed; the same call later finishes it."""
    sent = await bench.admitted(5)
    assert sent.gate() is None
    late = await bench.desk.reset(SCOPE, "drill")
    assert isinstance(late, Problem)
    assert (late.code, late.retry_after_s) == (Code.NOT_DRAINED, 1)
    assert await bench.refused(6) is Code.TOKEN_STALE
    sent.settle()
    assert await bench.reset() == Mark(Era(2), 0)


async def test_a_store_that_cannot_be_told_is_named(bench: Bench) -> None:
    """Rule 11 holds for a new era too: not answered as done before the store has it."""
    (await bench.admitted(5)).settle()
    bench.store.fails = True
    answer = await bench.desk.reset(SCOPE, "drill")
    assert isinstance(answer, Problem)
    assert answer.code is Code.BUSY
    assert "era 2" in answer.message
    bench.store.fails = False
    assert (await bench.reset()).era == 3


async def test_a_reset_goes_beyond_the_era_that_a_store_remembers(bench: Bench) -> None:
    """Rule 9: a registry put back behind an earlier reset is raised to it, then reset beyond."""
    (await bench.admitted(5)).settle()
    bench.store.mark = Mark(Era(4), 7)
    assert await bench.reset() == Mark(Era(5), 0)
    assert bench.store.mark == Mark(Era(5), 0)
    assert any(isinstance(e, RegistryRegressed) for e in bench.events)


async def test_a_registry_put_back_before_a_reset_is_raised_again(registry: Registry) -> None:
    """A replica that knows a later era reminds the registry of it; it does not stay away."""
    bench = Bench(registry)
    await bench.fences.start(0)
    (await bench.admitted(5)).settle()
    await bench.reset()
    forgetful = MemoryRegistry()  # the same registry, as it was before
    bench.fences.calls._registry = forgetful
    bench.fences.membership.lapse(bench.fences.membership.generation or pytest.fail("no member"))
    deadline_s = CLOCK.boottime_s() + 5
    while isinstance(found := await bench.fences.admit(SCOPE, Token(4), None, "db"), Problem):
        assert CLOCK.boottime_s() < deadline_s, found
        await asyncio.sleep(0.01)
    assert found.mark == Mark(Era(2), 4)
    found.settle()
    assert any(isinstance(e, RegistryRegressed) for e in bench.events)
    await bench.fences.stop()


async def test_reads_are_not_refused_by_a_mark_from_before_a_reset(tmp_path: Path) -> None:
    """A replica without a registration is told of nothing: it looks before it refuses a read."""
    registries = [SqliteRegistry(tmp_path / "r.sqlite", shared=True) for _ in range(2)]
    one, two = (Bench(registry) for registry in registries)
    await one.fences.start(0)
    await two.fences.start(0)
    (await two.admitted(7)).settle()
    (await one.admitted(9)).settle()
    assert await two.refused(7) is Code.TOKEN_STALE
    assert await two.fences.check(SCOPE, Token(8), None) is not None
    await one.reset()
    assert await two.fences.check(SCOPE, Token(1), None) is None
    for bench, registry in zip((one, two), registries, strict=True):
        await bench.fences.stop()
        await registry.aclose()


async def test_nobody_resets_a_scope_that_nobody_has_seen(bench: Bench) -> None:
    """A misspelt scope is told, and not made."""
    answer = await bench.desk.reset(Scope("reports/ue"), "drill")
    assert isinstance(answer, Problem)
    assert answer.code is Code.NOT_FOUND
    assert await bench.desk.scope(Scope("reports/ue")) is None


async def test_an_issuer_below_the_mark_has_regressed(bench: Bench) -> None:
    """Its own code, event and floor; a stale holder's write stays stale and is not counted."""
    (await bench.admitted(7)).settle()
    assert await bench.refused(3) is Code.TOKEN_STALE
    assert not any(isinstance(e, TokenRegressed) for e in bench.events)
    answer = await bench.desk.seal(SCOPE, Token(3), None)
    assert isinstance(answer, Problem)
    assert answer.code is Code.TOKEN_REGRESSED
    assert "go on from 8" in answer.message
    assert bench.events[-1] == TokenRegressed(SCOPE, 3, 7)
    assert await bench.desk.seal(SCOPE, Token(7), None) == Mark(Era(1), 7)


async def test_behind_the_last_token_only_a_reset_helps(bench: Bench) -> None:
    """No refusal advises a token that cannot be: each says that the scope must be reset."""
    last = Token(MAX_TOKEN)
    sealed = await bench.desk.seal(SCOPE, last, Holder("a"))
    assert isinstance(sealed, Mark)
    refused = [
        await bench.desk.seal(SCOPE, None, None),
        await bench.desk.seal(SCOPE, Token(3), None),
        await bench.fences.seal(SCOPE, Token(3), None),
        await bench.desk.seal(SCOPE, last, Holder("b")),
    ]
    for answer in refused:
        assert isinstance(answer, Problem)
        assert "fencegate scopes reset" in answer.message
        assert "None" not in answer.message
        assert str(MAX_TOKEN + 1) not in answer.message
    reset = await bench.desk.reset(SCOPE, "the end of the counter")
    assert isinstance(reset, Mark)
    assert await bench.desk.seal(SCOPE, None, None) == Mark(reset.era, 1)
