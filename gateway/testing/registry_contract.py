"""The registry contract: laws that every registry keeps, whatever its engine (port: registry).

Each law is a plain coroutine function over a fresh registry; `REGISTRY_LAWS` lists them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.model.claim import (
    Claim,
    ClaimAnswer,
    ClaimBurnt,
    Claimed,
    ClaimImplausible,
    ClaimStale,
    EraDiffers,
    Generation,
    GenerationEnded,
    Registration,
    RegistrationId,
    ReplicaId,
)
from gateway.model.mark import Era, Mark, Scope
from gateway.model.token import MAX_TOKEN, Holder, Token
from gateway.ports.registry import Registry

SCOPE: Final = Scope("reports/eu")
_R0: Final = ReplicaId("r0")
_R1: Final = ReplicaId("r1")


class _Claimer:
    """A replica that claims tokens, each under a registration of its own."""

    def __init__(self, registry: Registry, replica: ReplicaId, generation: Generation) -> None:
        self.registry = registry
        self.replica = replica
        self.generation = generation
        self._count = 0

    @classmethod
    async def join(cls, registry: Registry, replica: ReplicaId = _R0) -> _Claimer:
        return cls(registry, replica, await registry.join(replica))

    async def claim(
        self,
        token: int | None,
        holder: str | None = None,
        era: int = 1,
        scope: Scope = SCOPE,
        max_jump: int | None = None,
        gives_up: tuple[RegistrationId, ...] = (),
    ) -> ClaimAnswer:
        self._count += 1
        return await self.registry.claim(
            Claim(
                scope,
                Era(era),
                None if token is None else Token(token),
                None if holder is None else Holder(holder),
                self.replica,
                self.generation,
                self.last,
                max_jump,
                gives_up,
            )
        )

    @property
    def last(self) -> RegistrationId:
        """The id of the last claim's registration."""
        return RegistrationId(f"{self.generation}.{self._count}")

    async def pending(self, mark: Mark) -> tuple[Registration, ...]:
        lower = await self.registry.pending(SCOPE, mark, self.generation)
        assert lower is not None, "its generation has not ended"
        return lower


async def _mark(registry: Registry) -> Mark:
    row = await registry.scope(SCOPE)
    assert row is not None, "a claimed scope is there"
    return row.mark


async def a_mark_never_goes_down(registry: Registry) -> None:
    """A lower claim is stale, told the mark, and changes nothing."""
    one = await _Claimer.join(registry)
    await one.claim(7)
    answer = await one.claim(6)
    assert answer == ClaimStale(Mark(Era(1), 7)), answer
    assert (await _mark(registry)).token == 7


async def tokens_are_exact_up_to_the_end(registry: Registry) -> None:
    """Neighbours at 2^53 and 2^63 are told apart, and nothing is issued past the end."""
    one = await _Claimer.join(registry)
    for token in (2**53, 2**53 + 1, MAX_TOKEN - 1, MAX_TOKEN):
        answer = await one.claim(token)
        assert isinstance(answer, Claimed), answer
        assert answer.raised_from is not None, f"{token} is a raise"
        assert isinstance(await one.claim(token - 1), ClaimStale), f"{token - 1} is below"
    assert isinstance(await one.claim(None), ClaimStale), "there is no next token"


async def one_claim_raises(registry: Registry) -> None:
    """Of sixteen equal claims at once exactly one is the raise; all of them hold."""
    claimers = [await _Claimer.join(registry, ReplicaId(f"r{i}")) for i in range(16)]
    answers = await asyncio.gather(*(c.claim(5) for c in claimers))
    raises = [a for a in answers if isinstance(a, Claimed) and a.raised_from is not None]
    assert len(raises) == 1, f"{len(raises)} raises"
    assert all(isinstance(a, Claimed) for a in answers)


async def issued_tokens_are_distinct(registry: Registry) -> None:
    """Sixteen claims for the next token at once get sixteen different ones."""
    claimers = [await _Claimer.join(registry, ReplicaId(f"r{i}")) for i in range(16)]
    answers = await asyncio.gather(*(c.claim(None) for c in claimers))
    tokens = sorted(a.mark.token for a in answers if isinstance(a, Claimed))
    assert tokens == list(range(1, 17)), tokens


async def a_registration_is_never_overwritten(registry: Registry) -> None:
    """A replica's lower registration stands beside its newer one until it yields."""
    one = await _Claimer.join(registry)
    await one.claim(1)
    answer = await one.claim(2)
    assert isinstance(answer, Claimed)
    assert [r.token for r in answer.lower] == [1], "the claimer's own lower one is shown"
    assert [r.token for r in await one.pending(answer.mark)] == [1]
    await registry.yield_(SCOPE, _R0, one.generation, answer.mark)
    assert await one.pending(answer.mark) == ()


async def a_yield_touches_its_own_generation_only(registry: Registry) -> None:
    """One replica's yield leaves the other's registrations where they are."""
    one, two = await _Claimer.join(registry), await _Claimer.join(registry, _R1)
    await one.claim(1)
    await two.claim(1)
    await two.claim(2)
    mark = await _mark(registry)
    await registry.yield_(SCOPE, _R1, two.generation, mark)
    left = await one.pending(mark)
    assert [r.generation for r in left] == [one.generation]


async def a_claim_carries_a_yield(registry: Registry) -> None:
    """What a claim gives up goes with it: own, lower, by id; and nobody is told of that."""
    one, two = await _Claimer.join(registry), await _Claimer.join(registry, _R1)
    await one.claim(1)
    first = one.last
    await one.claim(1)
    await two.claim(1)
    answer = await one.claim(2, gives_up=(first, two.last, RegistrationId("nobody's")))
    assert isinstance(answer, Claimed), answer
    left = {(r.generation, r.id) for r in answer.lower}
    assert left == {(one.generation, f"{one.generation}.2"), (two.generation, two.last)}, left
    answer = await one.claim(2, gives_up=(one.last,))
    assert isinstance(answer, Claimed), answer
    await registry.yield_(SCOPE, _R1, two.generation, answer.mark)
    second = RegistrationId(f"{one.generation}.2")
    answer = await one.claim(3, gives_up=(second,))
    assert isinstance(answer, Claimed), answer
    assert [r.token for r in answer.lower] == [2, 2], "an equal one is never given up"


async def a_refused_claim_gives_nothing_up(registry: Registry) -> None:
    """A claim that does not hold changes no registration."""
    one, two = await _Claimer.join(registry), await _Claimer.join(registry, _R1)
    await one.claim(1)
    kept = one.last
    await two.claim(2)
    assert isinstance(await one.claim(1, gives_up=(kept,)), ClaimStale)
    jump = await one.claim(9, max_jump=1, gives_up=(kept,))
    assert isinstance(jump, ClaimImplausible), jump
    assert [r.id for r in await two.pending(await _mark(registry))] == [kept]


async def one_whose_registration_goes_is_told_nothing(registry: Registry) -> None:
    """A claim that gives up its replica's last lower registration writes no notice to itself."""
    one = await _Claimer.join(registry)
    await one.claim(1)
    await one.claim(2, gives_up=(one.last,))
    assert await registry.inbox(_R0, one.generation, 0) == ()


async def lower_owners_are_told(registry: Registry) -> None:
    """A raise writes to the inbox of each generation with a lower registration, once."""
    one, two = await _Claimer.join(registry), await _Claimer.join(registry, _R1)
    await one.claim(1)
    await two.claim(2)
    notices = await registry.inbox(_R0, one.generation, 0)
    assert [(n.scope, n.mark.token) for n in notices] == [(SCOPE, 2)], notices
    assert await registry.inbox(_R0, one.generation, notices[-1].number) == (), "seen is gone"
    assert await registry.inbox(_R1, two.generation, 0) == ()


async def an_unseen_notice_stays(registry: Registry) -> None:
    """A lost answer of the inbox loses no notice: it is given again until it is acknowledged."""
    one, two = await _Claimer.join(registry), await _Claimer.join(registry, _R1)
    await one.claim(1)
    await two.claim(2)
    first = await registry.inbox(_R0, one.generation, 0)
    await two.claim(3)
    again = await registry.inbox(_R0, one.generation, 0)
    assert again[: len(first)] == first, (first, again)
    rest = await registry.inbox(_R0, one.generation, first[-1].number)
    assert all(n.number > first[-1].number for n in rest), rest
    assert {n.mark.token for n in (*first, *rest)} >= {3}, "the highest mark is told"


async def a_wait_ends_with_a_notice(registry: Registry) -> None:
    """It returns early when something comes, also what came before it began; else in time."""
    one, two = await _Claimer.join(registry), await _Claimer.join(registry, _R1)
    await one.claim(1)
    await registry.inbox(_R0, one.generation, 0)
    waiting = asyncio.create_task(registry.wait(_R0, one.generation, 30))
    await two.claim(2)
    async with asyncio.timeout(5):
        await waiting
        notices = await registry.inbox(_R0, one.generation, 0)
        while not notices:  # a hint may come early
            await registry.wait(_R0, one.generation, 0.05)
            notices = await registry.inbox(_R0, one.generation, 0)
        await two.claim(3)
        await registry.wait(_R0, one.generation, 30)
        await registry.wait(_R1, two.generation, 0.05)


async def holders_bind_and_burn(registry: Registry) -> None:
    """No holder matches any; a second one burns the token for both; a higher token heals."""
    one = await _Claimer.join(registry)
    assert isinstance(await one.claim(5), Claimed)
    assert isinstance(await one.claim(5, "a"), Claimed)
    assert isinstance(await one.claim(5), Claimed)
    burnt = await one.claim(5, "b")
    assert isinstance(burnt, ClaimBurnt)
    assert burnt.first
    again = await one.claim(5, "a")
    assert isinstance(again, ClaimBurnt)
    assert not again.first
    assert isinstance(await one.claim(6, "b"), Claimed)


async def an_implausible_raise_is_not_learnt(registry: Registry) -> None:
    """A raise above the mark by more than `max_jump` changes nothing: no mark, no registration.

    The bound is the registry's mark, exact at every size; equal tokens, issued ones and the first
    of an era are no jump.
    """
    one = await _Claimer.join(registry)
    first = 2**53 + 1
    assert isinstance(await one.claim(first, max_jump=10), Claimed), "the first is exempt"
    answer = await one.claim(first + 11, "a", max_jump=10)
    assert answer == ClaimImplausible(Mark(Era(1), first)), answer
    assert await _mark(registry) == Mark(Era(1), first), "not learnt"
    assert len(await one.pending(Mark(Era(1), MAX_TOKEN))) == 1, "not registered"
    assert isinstance(await one.claim(first, max_jump=1), Claimed)
    assert isinstance(await one.claim(first + 10, max_jump=10), Claimed), "as far as allowed"
    assert isinstance(await one.claim(None, max_jump=1), Claimed)
    assert isinstance(await one.claim(first, max_jump=1), ClaimStale), "stale is told as stale"
    assert isinstance(await one.claim(MAX_TOKEN - 9), Claimed), "no bound"
    assert isinstance(await one.claim(MAX_TOKEN, max_jump=8), ClaimImplausible)
    assert isinstance(await one.claim(MAX_TOKEN, max_jump=MAX_TOKEN), Claimed)


async def an_implausible_raise_is_judged_by_era(registry: Registry) -> None:
    """After a reset the first mark may be any number again."""
    one = await _Claimer.join(registry)
    await one.claim(5)
    await registry.reset(SCOPE, Era(1), "test")
    await registry.yield_(SCOPE, _R0, one.generation, await _mark(registry))
    assert await registry.reset(SCOPE, Era(1), "test") == Mark(Era(2), 0)
    assert isinstance(await one.claim(900, era=2, max_jump=1), Claimed)
    assert isinstance(await one.claim(902, era=2, max_jump=1), ClaimImplausible)


async def an_ended_generation_claims_nothing(registry: Registry) -> None:
    """Unknown and evicted generations are refused; the eviction drops their registrations."""
    one = await _Claimer.join(registry)
    await one.claim(1)
    assert await registry.beat(_R0, one.generation)
    assert not await registry.evict(_R0, one.generation, 0), "its beat has moved"
    assert await registry.evict(_R0, one.generation, 1)
    assert isinstance(await one.claim(1), GenerationEnded)
    assert not await registry.beat(_R0, one.generation)
    top = Mark(Era(1), MAX_TOKEN)
    assert await registry.pending(SCOPE, top, one.generation) is None, "it can conclude nothing"
    two = await _Claimer.join(registry, _R1)
    assert await two.pending(top) == ()
    assert isinstance(await _Claimer(registry, _R0, Generation("none")).claim(1), GenerationEnded)


async def a_deregistration_goes_by_its_id(registry: Registry) -> None:
    """A late removal of one registration leaves a later one of the same replica alone."""
    one = await _Claimer.join(registry)
    await one.claim(1)
    await one.claim(1)
    await registry.forget(SCOPE, RegistrationId(f"{one.generation}.1"))
    await registry.forget(SCOPE, RegistrationId("nobody's"))
    left = await one.pending(Mark(Era(1), 2))
    assert [r.id for r in left] == [f"{one.generation}.2"]


async def members_work_by_the_same_rules(registry: Registry) -> None:
    """The first ones count until all who agreed to them have ended, in good order or not."""
    one, two = await _Claimer.join(registry), await _Claimer.join(registry, _R1)
    assert await registry.agree(one.generation, "rules-1")
    assert await registry.agree(one.generation, "rules-1"), "again"
    assert not await registry.agree(two.generation, "rules-2")
    assert await registry.agree(two.generation, "rules-1")
    assert not await registry.agree(one.generation, "rules-2"), "not while the other goes by 1"
    await registry.leave(_R1, two.generation)
    assert not await registry.agree(two.generation, "rules-1"), "it has ended"
    assert await registry.agree(one.generation, "rules-2"), "it is alone"
    three = await _Claimer.join(registry, ReplicaId("r2"))
    assert not await registry.agree(three.generation, "rules-3")
    assert await registry.evict(_R0, one.generation, 0)
    assert await registry.agree(three.generation, "rules-3")


async def of_many_rules_one_is_agreed_to(registry: Registry) -> None:
    """Sixteen members ask at once for sixteen sets of rules: exactly one of them gets its own."""
    members = [await _Claimer.join(registry, ReplicaId(f"r{i}")) for i in range(16)]
    asked = (registry.agree(m.generation, f"rules-{i}") for i, m in enumerate(members))
    assert sum(await asyncio.gather(*asked)) == 1


async def leaving_takes_everything_along(registry: Registry) -> None:
    """A replica that leaves costs nobody a wait; its marks stay."""
    one = await _Claimer.join(registry)
    await one.claim(3)
    await registry.leave(_R0, one.generation)
    assert await registry.members() == ()
    two = await _Claimer.join(registry, _R1)
    assert await two.pending(Mark(Era(1), 9)) == ()
    assert (await _mark(registry)).token == 3


async def scopes_come_in_pages(registry: Registry) -> None:
    """All scopes page by page, none left out; in name order within a page."""
    one = await _Claimer.join(registry)
    names = sorted(Scope(f"s/{i:02}") for i in range(25))
    for name in reversed(names):
        await one.claim(1, scope=name)
    got: list[Scope] = []
    page = await registry.scopes(None, 10)
    got += (row.scope for row in page.rows)
    while page.next is not None:
        page = await registry.scopes(page.next, 10)
        assert list(page.rows) == sorted(page.rows)
        got += (row.scope for row in page.rows)
    assert sorted(set(got)) == names, got


async def a_reset_starts_an_era(registry: Registry) -> None:
    """It waits for every registration, lets nobody in meanwhile, and starts from nothing."""
    one = await _Claimer.join(registry)
    await one.claim(9)
    assert await registry.reset(SCOPE, Era(1), "test") is None, "a registration stands"
    assert not isinstance(await one.claim(10), Claimed), "a closed era takes no claim"
    await registry.yield_(SCOPE, _R0, one.generation, await _mark(registry))
    assert await registry.reset(SCOPE, Era(1), "test") == Mark(Era(2), 0)
    assert await one.claim(1) == EraDiffers(Era(2))
    assert isinstance(await one.claim(1, era=2), Claimed)
    assert await registry.reset(SCOPE, Era(1), "late") is None, "not the current era"


async def a_witness_raises_a_forgetful_registry(registry: Registry) -> None:
    """A recalled mark holds like any other, and never lowers one."""
    one = await _Claimer.join(registry)
    await one.claim(3)
    assert (await registry.recall(SCOPE, Mark(Era(1), 8))).token == 8
    assert (await registry.recall(SCOPE, Mark(Era(1), 5))).token == 8
    assert isinstance(await one.claim(7), ClaimStale)


async def the_incarnation_stays_and_is_vouched_for(registry: Registry) -> None:
    """The same engine has the same identity, and a grace that was counted on it counts for all."""
    before = await registry.identity()
    await registry.vouch("another incarnation")
    assert await registry.identity() == before, "only the current one can be vouched for"
    await registry.vouch(before.id)
    after = await registry.identity()
    assert (after.id, after.vouched) == (before.id, True)


Law = Callable[[Registry], Awaitable[None]]
REGISTRY_LAWS: Final[tuple[Law, ...]] = (
    a_mark_never_goes_down,
    tokens_are_exact_up_to_the_end,
    one_claim_raises,
    issued_tokens_are_distinct,
    a_registration_is_never_overwritten,
    a_yield_touches_its_own_generation_only,
    a_claim_carries_a_yield,
    a_refused_claim_gives_nothing_up,
    one_whose_registration_goes_is_told_nothing,
    lower_owners_are_told,
    an_unseen_notice_stays,
    a_wait_ends_with_a_notice,
    holders_bind_and_burn,
    an_implausible_raise_is_not_learnt,
    an_implausible_raise_is_judged_by_era,
    an_ended_generation_claims_nothing,
    a_deregistration_goes_by_its_id,
    leaving_takes_everything_along,
    members_work_by_the_same_rules,
    of_many_rules_one_is_agreed_to,
    scopes_come_in_pages,
    a_reset_starts_an_era,
    a_witness_raises_a_forgetful_registry,
    the_incarnation_stays_and_is_vouched_for,
)
