"""The fences over a registry: admission, drain, carry and recovery, on real registries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gateway.engine.fences import Admission, Fences, Timing
from gateway.model.claim import Claim, RegistrationId, ReplicaId
from gateway.model.event import DuplicateFound, Event, RegistryRegressed
from gateway.model.mark import Era, Mark, Scope
from gateway.model.problem import Code, Problem
from gateway.model.token import Holder, Token
from gateway.ports.registry import Registry, RegistryUnavailable
from gateway.ports.store import CarryFailed
from gateway.registries.memory import MemoryRegistry
from gateway.registries.sqlite import SqliteRegistry
from gateway.system_clock import SystemClock

SCOPE = Scope("reports/eu")


class Events(list[Event]):
    """Keeps what was emitted."""

    def emit(self, event: Event) -> None:
        self.append(event)


class CarryingStore:
    """A store that keeps marks of its own, and can refuse to."""

    name = "db"

    def __init__(self) -> None:
        self.mark: Mark | None = None
        self.fails = False

    async def carry(self, scope: Scope, mark: Mark) -> Mark | None:
        if self.fails:
            raise CarryFailed("locked")
        if self.mark is not None and self.mark.rank > mark.rank:
            return self.mark
        self.mark = mark
        return None


@pytest.fixture(params=["memory", "sqlite"])
async def registry(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Registry]:
    made = MemoryRegistry() if request.param == "memory" else SqliteRegistry(tmp_path / "r.sqlite")
    yield made
    await made.aclose()


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
async def fences(registry: Registry, events: Events) -> AsyncIterator[Fences]:
    made = Fences(registry, SystemClock(), events, Timing(drain_timeout_s=0.2), lambda _: ())
    await made.start(0)
    yield made
    await made.stop()


async def admitted(fences: Fences, token: int, holder: str | None = None) -> Admission:
    got = await fences.admit(SCOPE, Token(token), holder and Holder(holder), "files")
    assert isinstance(got, Admission), got
    return got


async def refused(fences: Fences, token: int, holder: str | None = None) -> Problem:
    got = await fences.admit(SCOPE, Token(token), holder and Holder(holder), "files")
    assert isinstance(got, Problem)
    return got


async def test_lower_token_is_stale_and_told_the_mark(fences: Fences) -> None:
    """Compare rule: below the mark is refused, with the mark; equal is admitted again."""
    for _ in range(2):
        admission = await admitted(fences, 2)
        assert admission.gate() is None
        admission.settle()
    problem = await refused(fences, 1)
    assert (problem.code, problem.mark) == (Code.TOKEN_STALE, 2)


async def test_raise_waits_for_what_passed_the_gate(fences: Fences) -> None:
    """Rule 3: a raise is not answered while an older write is on its way; then it is."""
    older = await admitted(fences, 1)
    assert older.gate() is None
    problem = await refused(fences, 2)
    assert (problem.code, problem.retry_after_s) == (Code.NOT_DRAINED, 1)
    raising = asyncio.create_task(admitted(fences, 2))
    older.settle()
    newer = await raising
    assert newer.gate() is None
    newer.settle()


async def test_open_older_ticket_fails_at_the_gate(fences: Fences) -> None:
    """Rule 5: a ticket that was admitted before the raise does not pass the gate after it."""
    older = await admitted(fences, 1)
    newer = await admitted(fences, 2)
    shut = older.gate()
    assert shut is not None
    assert shut.code is Code.TOKEN_STALE
    older.settle()
    assert newer.gate() is None
    newer.settle()


async def test_unknown_outcome_holds_the_drain_for_its_settle_time(fences: Fences) -> None:
    """Rule 4: a write whose answer was lost counts as on its way until it cannot land any more."""
    older = await admitted(fences, 1)
    assert older.gate() is None
    older.lose(settle_s=0.3)
    assert (await refused(fences, 2)).code is Code.NOT_DRAINED
    async with asyncio.timeout(5):
        while isinstance(got := await fences.admit(SCOPE, Token(2), None, "files"), Problem):
            assert got.code is Code.NOT_DRAINED
    got.settle()


async def test_token_in_two_hands_is_burnt(fences: Fences, events: Events) -> None:
    """Both holders are refused until a higher token comes; the event tells once."""
    first = await admitted(fences, 5, "a")
    first.settle()
    assert (await refused(fences, 5, "b")).code is Code.TOKEN_DUPLICATE
    assert (await refused(fences, 5, "a")).code is Code.TOKEN_DUPLICATE
    assert sum(isinstance(e, DuplicateFound) for e in events) == 1
    (await admitted(fences, 6, "b")).settle()


async def test_seals_without_a_token_issue_each_number_once(fences: Fences) -> None:
    """Sixteen seals at once are answered with sixteen tokens, or refused as outrun."""
    got = await asyncio.gather(*(fences.seal(SCOPE, None, None) for _ in range(16)))
    tokens = [mark.token for mark in got if isinstance(mark, Mark)]
    assert tokens
    assert len(tokens) == len(set(tokens))
    row = await fences.calls.scope(SCOPE)
    assert row is not None
    assert row.mark.token == 16


async def test_mark_is_carried_before_the_write_is_admitted(
    registry: Registry, events: Events
) -> None:
    """Rule 11: no admission before the store in reach has the mark; its refusal fails closed."""
    store = CarryingStore()
    timing = Timing(drain_timeout_s=0.2)
    fences = Fences(registry, SystemClock(), events, timing, lambda _: (store,))  # type: ignore[arg-type]
    await fences.start(0)
    store.fails = True
    assert (await refused(fences, 3)).code is Code.NOT_DRAINED
    store.fails = False
    (await admitted(fences, 3)).settle()
    assert store.mark == Mark(Era(1), 3)
    await fences.stop()


async def test_a_burnt_mark_is_carried_before_it_is_told(
    registry: Registry, events: Events
) -> None:
    """A replica that has not heard of it yet is stopped by the store; what failed is done again."""
    store = CarryingStore()
    timing = Timing(drain_timeout_s=0.2)
    fences = Fences(registry, SystemClock(), events, timing, lambda _: (store,))  # type: ignore[arg-type]
    await fences.start(0)
    (await admitted(fences, 5, "a")).settle()
    store.fails = True
    assert (await refused(fences, 5, "b")).code is Code.TOKEN_DUPLICATE
    assert store.mark == Mark(Era(1), 5, holder=Holder("a"))
    store.fails = False
    assert (await refused(fences, 5, "b")).code is Code.TOKEN_DUPLICATE
    assert store.mark == Mark(Era(1), 5, burnt=True)
    (await admitted(fences, 6, "b")).settle()
    assert store.mark == Mark(Era(1), 6, holder=Holder("b"))
    sealed = await fences.seal(SCOPE, Token(6), Holder("c"))
    assert isinstance(sealed, Problem)
    assert store.mark == Mark(Era(1), 6, burnt=True), "a seal finds it out as a write does"
    await fences.stop()


async def test_store_that_knows_more_than_the_registry(registry: Registry, events: Events) -> None:
    """Rule 9: a witness above the registry's mark raises it, and is reported as an error."""
    store = CarryingStore()
    store.mark = Mark(Era(1), 9)
    timing = Timing(drain_timeout_s=0.2)
    fences = Fences(registry, SystemClock(), events, timing, lambda _: (store,))  # type: ignore[arg-type]
    await fences.start(0)
    assert (await refused(fences, 3)).code is Code.TOKEN_STALE
    assert any(isinstance(e, RegistryRegressed) for e in events)
    row = await registry.scope(SCOPE)
    assert row is not None
    assert row.mark.token == 9
    await fences.stop()


async def test_registry_away_then_back(
    fences: Fences, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails closed while the registry is away, admits what is ready, and recovers by itself."""
    (await admitted(fences, 1)).settle()

    async def away(*_: object) -> None:
        raise RegistryUnavailable("away")

    monkeypatch.setattr(registry, "claim", away)
    ready = await admitted(fences, 1)
    assert ready.gate() is None
    ready.settle()
    assert (await refused(fences, 2)).code is Code.REGISTRY_UNAVAILABLE
    monkeypatch.undo()
    (await admitted(fences, 2)).settle()


async def test_cache_is_bounded(registry: Registry, events: Events) -> None:
    """Rule 14: over its bound the cache forgets scopes, and a forgotten scope is still fenced."""
    fences = Fences(registry, SystemClock(), events, Timing(max_cached_scopes=10), lambda _: ())
    await fences.start(0)
    for number in range(200):
        got = await fences.admit(Scope(f"s{number}"), Token(2), None, "files")
        assert isinstance(got, Admission)
        got.settle()
    async with asyncio.timeout(5):
        while len(fences._views) > 20:  # noqa: ASYNC110 - the cache has no event
            await asyncio.sleep(0)
    stale = await fences.admit(Scope("s0"), Token(1), None, "files")
    assert isinstance(stale, Problem)
    await fences.stop()


async def test_unclean_stop_is_waited_for_its_settle_time(
    registry: Registry, events: Events
) -> None:
    """What a killed process left registered holds a raise back until it can have no effect."""
    make: Callable[[], Fences] = lambda: Fences(  # noqa: E731
        registry, SystemClock(), events, Timing(drain_timeout_s=0.1), lambda _: ()
    )
    killed = make()
    await killed.start(0)
    assert (await admitted(killed, 1)).gate() is None  # and never heard of again
    fences = make()
    await fences.start(0.4)
    assert (await refused(fences, 2)).code is Code.NOT_DRAINED
    async with asyncio.timeout(5):
        while isinstance(got := await fences.admit(SCOPE, Token(2), None, "files"), Problem):
            assert got.code is Code.NOT_DRAINED
    got.settle()
    await fences.stop()


async def test_a_jump_is_judged_by_the_registrys_mark(fences: Fences, registry: Registry) -> None:
    """A replica whose cached mark lies behind takes what is near the real one, and only that."""
    (await admitted(fences, 5)).settle()
    other = ReplicaId("other")
    generation = await registry.join(other)
    raised = RegistrationId(f"{generation}.1")
    await registry.claim(Claim(SCOPE, Era(1), Token(1000), None, other, generation, raised))
    await registry.leave(other, generation)
    far = await fences.admit(SCOPE, Token(1011), None, "files", 10)
    assert isinstance(far, Problem)
    assert (far.code, far.status, far.mark) == (Code.TOKEN_IMPLAUSIBLE, 403, None)
    assert "1000" not in str(far), "the mark is nobody's business"
    near = await fences.admit(SCOPE, Token(1010), None, "files", 10)
    assert isinstance(near, Admission), "from the cached 5 it would have been too far"
    near.settle()


async def test_an_implausible_token_locks_nobody_out(fences: Fences) -> None:
    """Refused and not learnt: the real holder goes on, by write and by seal; an admin may jump."""
    (await admitted(fences, 5)).settle()
    forged = await fences.admit(SCOPE, Token(2**60), None, "files", 10)
    sealed = await fences.seal(SCOPE, Token(2**60), None, 10)
    assert isinstance(forged, Problem)
    assert isinstance(sealed, Problem)
    assert {forged.code, sealed.code} == {Code.TOKEN_IMPLAUSIBLE}
    (await admitted(fences, 5)).settle()
    assert await fences.seal(SCOPE, Token(2**60), None) == Mark(Era(1), 2**60)


async def test_claims_of_different_bounds_do_not_share_an_answer(fences: Fences) -> None:
    """Two rules of one scope: the one without a bound raises, the other refuses, at once."""
    (await admitted(fences, 5)).settle()
    bounded, free = await asyncio.gather(
        fences.admit(SCOPE, Token(100), None, "files", 10),
        fences.admit(SCOPE, Token(100), None, "files"),
    )
    assert isinstance(bounded, Problem)
    assert isinstance(free, Admission)
    free.settle()
