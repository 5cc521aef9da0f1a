"""Several replicas over one registry: told, drained, lapsed, ended, and the grace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from gateway.engine.fences import Admission, Fences, Timing
from gateway.model.claim import Generation, Identity, ReplicaId
from gateway.model.event import Event, Evicted, Joined, Lapsed, RulesDiffer
from gateway.model.mark import Scope
from gateway.model.problem import Code, Problem
from gateway.model.token import Token
from gateway.ports.registry import RegistryUnavailable
from gateway.registries.memory import MemoryRegistry
from gateway.system_clock import SystemClock

SCOPE = Scope("reports/eu")
TTL_S = 0.3


class SharedRegistry(MemoryRegistry):
    """A registry of several replicas, which can be away and can lose its memory."""

    shared = True

    def __init__(self) -> None:
        super().__init__()
        self.away: set[str] = set()
        self.vouched: set[str] = set()

    async def beat(self, replica: ReplicaId, generation: Generation) -> bool:
        if replica in self.away:
            raise RegistryUnavailable("away")
        return await super().beat(replica, generation)

    async def identity(self) -> Identity:
        incarnation = (await super().identity()).id
        return Identity(incarnation, incarnation in self.vouched)

    async def vouch(self, incarnation: str) -> None:
        self.vouched.add(incarnation)

    def forget_everything(self) -> None:
        """The engine came back empty: another incarnation."""
        fresh = MemoryRegistry()
        self._records, self._incarnation = fresh._records, fresh._incarnation
        self._members, self._inboxes, self._rings = {}, {}, {}


class Events(list[Event]):
    """Keeps what was emitted, and lets a test wait for it."""

    def emit(self, event: Event) -> None:
        self.append(event)

    async def until(self, kind: type[Event]) -> Event:
        """The first event of a kind."""
        while True:
            found = next((e for e in self if isinstance(e, kind)), None)
            if found is not None:
                return found
            await asyncio.sleep(0.005)


@pytest.fixture
async def registry() -> SharedRegistry:
    made = SharedRegistry()
    await made.vouch((await made.identity()).id)
    return made


Make = Callable[..., Awaitable[tuple[Fences, Events]]]


@pytest.fixture
async def make(registry: SharedRegistry) -> AsyncIterator[Make]:
    async with AsyncExitStack() as stack:

        async def made(rules: Callable[[], str] = str) -> tuple[Fences, Events]:
            events = Events()
            timing = Timing(drain_timeout_s=0.2, member_ttl_s=TTL_S)
            fences = Fences(registry, SystemClock(), events, timing, lambda _: (), rules)
            await fences.start(0)
            stack.push_async_callback(fences.stop)
            return fences, events

        yield made


async def ask(fences: Fences, token: int) -> Admission | Problem:
    return await fences.admit(SCOPE, Token(token), None, "files")


async def admitted(fences: Fences, token: int) -> Admission:
    got = await ask(fences, token)
    assert isinstance(got, Admission), got
    return got


async def eventually(fences: Fences, token: int, *allowed: Code) -> Admission:
    """Ask until admitted; only these refusals may come before."""
    async with asyncio.timeout(10):
        while isinstance(got := await ask(fences, token), Problem):
            assert got.code in allowed, got
            await asyncio.sleep(0.01)
    return got


async def test_a_raise_shuts_out_the_other_replica(make: Make) -> None:
    """Rules 2 to 4: the inbox tells the other replica, which yields; its older token is stale."""
    (one, _), (two, _) = await make(), await make()
    (await admitted(one, 1)).settle()
    (await admitted(two, 2)).settle()
    stale = await ask(one, 1)
    assert isinstance(stale, Problem)
    assert stale.code is Code.TOKEN_STALE


async def test_a_raise_waits_for_the_other_replicas_write(make: Make) -> None:
    """Rule 3: what has passed the gate elsewhere is waited for, and no longer than it takes."""
    (one, _), (two, _) = await make(), await make()
    older = await admitted(one, 1)
    assert older.gate() is None
    problem = await ask(two, 2)
    assert isinstance(problem, Problem)
    assert problem.code is Code.NOT_DRAINED
    older.settle()
    (await eventually(two, 2, Code.NOT_DRAINED)).settle()


async def test_an_open_ticket_fails_at_the_gate_after_a_raise_elsewhere(make: Make) -> None:
    """Rule 5: a ticket opened before the raise of another replica does not pass after it."""
    (one, _), (two, _) = await make(), await make()
    older = await admitted(one, 1)
    (await admitted(two, 2)).settle()
    shut = older.gate()
    assert shut is not None
    older.settle()


async def test_a_silent_replica_is_ended(make: Make, registry: SharedRegistry) -> None:
    """Rule 8: its beat stands still; it lapses by itself before another ends it and goes on."""
    (one, gone), (two, events) = await make(), await make()
    older = await admitted(one, 1)
    assert older.gate() is None  # and its answer never comes
    registry.away.add(one.membership.replica)
    newer = await eventually(two, 2, Code.NOT_DRAINED)
    assert any(isinstance(e, Evicted) for e in events)
    assert any(isinstance(e, Lapsed) for e in gone), "it knew before it was ended"
    newer.settle()
    older.settle()


async def test_a_replica_lapses_and_joins_anew(make: Make, registry: SharedRegistry) -> None:
    """Rule 7: it refuses from its deadline on, and admits again once its beats come through."""
    one, events = await make()
    held = await admitted(one, 1)
    registry.away.add(one.membership.replica)
    async with asyncio.timeout(10):
        await events.until(Lapsed)
    shut = held.gate()
    assert shut is not None, "a ticket from before the lapse never passes"
    held.settle()
    registry.away.clear()
    (await eventually(one, 1, Code.REGISTRY_UNAVAILABLE, Code.NOT_DRAINED)).settle()


async def test_a_forgetful_registry_is_met_with_a_grace(
    make: Make, registry: SharedRegistry
) -> None:
    """Rule 9: after an engine's loss nothing is answered as drained until the old can not land."""
    one, events = await make()
    (await admitted(one, 5)).settle()
    registry.forget_everything()
    async with asyncio.timeout(10):
        await events.until(Lapsed)
    problem = await ask(one, 6)
    assert isinstance(problem, Problem)
    assert problem.code in {Code.REGISTRY_UNAVAILABLE, Code.NOT_DRAINED}
    (await eventually(one, 6, Code.REGISTRY_UNAVAILABLE, Code.NOT_DRAINED)).settle()
    graces = [e.grace_s for e in events if isinstance(e, Joined)]
    assert graces[0] == 0.0, "the first incarnation was vouched for"
    assert graces[-1] > TTL_S
    late, _ = await make()
    (await admitted(late, 7)).settle()  # somebody has counted the grace: no second one


async def test_a_replica_reminds_a_forgetful_registry(make: Make, registry: SharedRegistry) -> None:
    """Rule 9: a mark in a replica's memory is a witness: the registry is raised again."""
    one, events = await make()
    (await admitted(one, 5)).settle()
    registry.forget_everything()
    async with asyncio.timeout(10):
        await events.until(Lapsed)
        got = await ask(one, 3)
        while isinstance(got, Problem) and got.code is not Code.TOKEN_STALE:
            await asyncio.sleep(0)  # a lapsed replica refuses at once: let it join anew
            got = await ask(one, 3)
    assert isinstance(got, Problem), "token 3 is below what this replica has seen"
    row = await registry.scope(SCOPE)
    assert row is not None
    assert row.mark.token == 5


async def test_leaving_in_good_order_costs_nobody_a_wait(make: Make) -> None:
    """Rule 8: a raise behind a replica that has left needs neither its beat nor a settle time."""
    (one, _), (two, events) = await make(), await make()
    (await admitted(one, 1)).settle()
    await one.stop()
    (await admitted(two, 2)).settle()
    assert not any(isinstance(e, Evicted) for e in events)


async def test_other_rules_admit_nothing_until_the_others_have_left(make: Make) -> None:
    """A replica that derives scopes otherwise would compare with other marks: it waits outside."""
    one, _ = await make(lambda: "a")
    two, events = await make(lambda: "b")
    await admitted(one, 1)
    refused = await ask(two, 2)
    assert isinstance(refused, Problem)
    assert refused.code is Code.REGISTRY_UNAVAILABLE
    assert (await two.membership.wrong() or "").startswith("another replica derives")
    await admitted(one, 1)
    await one.stop()
    await eventually(two, 2, Code.REGISTRY_UNAVAILABLE)
    assert await two.membership.wrong() is None
    told = [e for e in events if isinstance(e, RulesDiffer)]
    assert told == [RulesDiffer(f"b {TTL_S:g} s 0 s")], "once"


async def test_rules_that_are_exchanged_are_agreed_to_anew(make: Make) -> None:
    """Both are reloaded: each is outside until the other one's old membership has ended."""
    rules = ["a"]
    one, _ = await make(lambda: rules[0])
    two, _ = await make(lambda: rules[0])
    await admitted(one, 1)
    await one.membership.follow_rules()
    assert isinstance(await ask(one, 1), Admission), "the same rules: nothing happens"
    rules[0] = "b"
    await one.membership.follow_rules()
    assert isinstance(await ask(one, 1), Problem)
    await two.membership.follow_rules()
    await eventually(one, 2, Code.REGISTRY_UNAVAILABLE, Code.NOT_DRAINED)
    await eventually(two, 2, Code.REGISTRY_UNAVAILABLE, Code.NOT_DRAINED)


async def test_other_times_are_other_terms(make: Make, registry: SharedRegistry) -> None:
    """One with a shorter time-to-live would end members that are alive: it waits outside."""
    one, _ = await make()
    other = Fences(
        registry, SystemClock(), Events(), Timing(member_ttl_s=TTL_S / 2), lambda _: (), str
    )
    await other.start(0)
    await admitted(one, 1)
    assert isinstance(await ask(other, 2), Problem)
    await other.stop()
