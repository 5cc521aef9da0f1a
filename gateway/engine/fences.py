"""The fences: runs the fence machine of every scope over a registry and the stores in reach.

The loops here await and hold no rule: what may be admitted is decided in `machines.fence`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, assert_never

from gateway.engine.calls import RegistryCalls
from gateway.engine.membership import Membership
from gateway.engine.refusals import refusal
from gateway.machines import fence
from gateway.machines.fence_events import (
    Admit,
    AnswerLost,
    Arrived,
    AwaitDrain,
    ClaimAnswered,
    ClaimFailed,
    DrainSeen,
    DrainTimedOut,
    Effect,
    Effects,
    Event,
    EvictionAsked,
    Forget,
    Forgotten,
    GateAsked,
    Hasten,
    LapseCame,
    Pass,
    Refuse,
    Rejoin,
    SendClaim,
    Settled,
    Told,
    UnknownExpired,
    Yield,
)
from gateway.machines.fence_state import View, Why
from gateway.model.claim import (
    Claim,
    ClaimAnswer,
    ClaimBurnt,
    Claimed,
    EraDiffers,
    Generation,
    GenerationEnded,
    RegistrationId,
)
from gateway.model.event import (
    Drained,
    DuplicateFound,
    Faulted,
    Raised,
    RegistryRegressed,
    TicketsOpen,
)
from gateway.model.mark import NO_MARK, Era, Mark, Scope
from gateway.model.problem import Problem
from gateway.model.token import Holder, Token
from gateway.ports.clock import Clock
from gateway.ports.journey import stage
from gateway.ports.observer import Observer
from gateway.ports.registry import Registry, RegistryUnavailable
from gateway.ports.store import CarryFailed, Store

_EVICTION_LOOKS: Final = 8
_HASTE_S: Final = 1.0
_LOOK_S: Final = (0.0005, 0.05)
_AGAIN_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Timing:
    """The durations that the fences work with."""

    registry_timeout_s: float = 1.5
    drain_timeout_s: float = 5.0
    max_cached_scopes: int = 1_000_000
    member_ttl_s: float = 3.0


@dataclass(frozen=True, slots=True)
class _Waiter:
    """A request that waits for a claim or a drain, on behalf of this store ("" for a seal)."""

    answer: asyncio.Future[Admit | Refuse]
    store: str


class Admission:
    """One admitted mutation: the mark it goes under, the gate, and how it ended."""

    __slots__ = ("_fences", "_resets", "mark", "scope", "store", "ticket", "token")

    def __init__(
        self, fences: Fences, scope: Scope, store: str, ticket: int, token: Token, mark: Mark
    ) -> None:
        self._fences = fences
        self._resets: list[Callable[[], None]] = []
        self.scope = scope
        self.store = store
        self.ticket = ticket
        self.token = token
        self.mark = mark

    def gate(self) -> Problem | None:
        """Ask for the last time, with nothing awaited before the bytes leave (rule 5)."""
        for effect in self._fences.apply(self.scope, GateAsked(self.ticket)):
            if isinstance(effect, Refuse) and effect.ticket == self.ticket:
                return refusal(effect.why, self.scope, self.token, effect.mark, 1.0)
        return None

    def on_haste(self, reset: Callable[[], None]) -> None:
        """Let a higher mark reset the upstream exchange when it stays unanswered (rule 4)."""
        self._resets.append(reset)

    def hasten(self) -> None:
        """Reset whatever the store still has under way."""
        for reset in self._resets:
            reset()

    def settle(self) -> None:
        """The outcome is known, or nothing was sent."""
        self._fences.close(self)
        self._fences.apply(self.scope, Settled(self.ticket))

    def lose(self, settle_s: float) -> None:
        """The outcome is unknown; it cannot take effect later than `settle_s` from now."""
        self._fences.close(self)
        self._fences.apply(self.scope, AnswerLost(self.ticket))
        if settle_s <= 0:
            self._fences.apply(self.scope, UnknownExpired(self.ticket))
        else:
            self._fences.later(settle_s, self.scope, UnknownExpired(self.ticket))


def _is_above(mark: Mark, token: Token) -> bool:
    return (mark.era, token, False) < mark.rank


class Fences:
    """All scopes of one replica."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        observer: Observer,
        timing: Timing,
        reach: Callable[[Scope], Iterable[Store]],
        rules: Callable[[], str] = str,
    ) -> None:
        """`rules` is the digest of what derives scopes now."""
        self.calls = RegistryCalls(registry, clock, observer, timing.registry_timeout_s)
        self._clock = clock
        self._observer = observer
        self._timing = timing
        self._reach = reach
        self.membership = Membership(
            self.calls, clock, observer, timing.member_ttl_s, self, rules, shared=registry.shared
        )
        self._views: dict[Scope, View] = {}
        self._waiting: dict[int, _Waiter] = {}
        self._admissions: dict[int, Admission] = {}
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._moved = asyncio.Event()

    # --- life -----------------------------------------------------------------------------------
    async def start(self, settle_s: float) -> None:
        """Join the registry; end what an unclean stop left behind once it can have no effect.

        `settle_s` is the longest settle time of all stores: 0 when each of them is exact.
        Raises `RegistryUnavailable`.
        """
        await self.membership.start(settle_s)

    async def stop(self) -> None:
        """Leave in good order, so that nobody has to wait (rule 8). Call with no request open."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.membership.stop(quiet=not any(v.tickets for v in self._views.values()))

    # --- what the membership tells --------------------------------------------------------------
    def lapsed(self, generation: Generation) -> None:
        """See `membership.Listener`."""
        for scope in tuple(self._views):
            self.apply(scope, LapseCame(generation))

    def told(self, scope: Scope, mark: Mark) -> None:
        """See `membership.Listener`."""
        self.apply(scope, Told(mark))

    def moved(self) -> None:
        """See `membership.Listener`."""
        self._moved.set()

    # --- what the pipeline asks -----------------------------------------------------------------
    async def admit(
        self,
        scope: Scope,
        token: Token,
        holder: Holder | None,
        store: str,
        max_jump: int | None = None,
    ) -> Admission | Problem:
        """Admit a mutation, or say why not. Without the registry when the token is ready."""
        number = next(self._numbers)
        answer = await self._arrive(scope, Arrived(number, token, holder, max_jump), store)
        if isinstance(answer, Refuse):
            return await self._refused(scope, token, answer)
        admission = Admission(self, scope, store, number, token, answer.mark)
        self._admissions[number] = admission
        self._observer.emit(TicketsOpen(store, 1))
        return admission

    async def seal(
        self,
        scope: Scope,
        token: Token | None,
        holder: Holder | None,
        max_jump: int | None = None,
    ) -> Mark | Problem:
        """Raise the mark and drain, without a write. Without a token, issue the next one."""
        number = next(self._numbers)
        answer = await self._arrive(scope, Arrived(number, token, holder, max_jump), "")
        if isinstance(answer, Refuse):
            return await self._refused(scope, token, answer)
        self.apply(scope, Settled(number))
        return answer.mark

    async def check(self, scope: Scope, token: Token, holder: Holder | None) -> Problem | None:
        """Compare a read's token with the mark this replica knows; no registry trip.

        But one before a refusal by a mark that was only heard of: where nothing is registered,
        nobody tells of a reset.
        """
        view = self._views.get(scope)
        if view is not None and _is_above(view.mark, token) and not view.registrations:
            with suppress(RegistryUnavailable):
                row = await self.calls.scope(scope)
                if row is not None and row.mark.rank > view.mark.rank:
                    self.apply(scope, Told(row.mark))
            view = self._views.get(scope)
        if view is None:
            return None
        if not _is_above(view.mark, token):
            bound = view.mark.holder if view.mark.token == token else None
            if bound is None or holder is None or holder == bound:
                return None
            return refusal(Why.DUPLICATE, scope, token, view.mark, 1.0)
        why = Why.DUPLICATE if view.mark.token == token else Why.STALE
        return refusal(why, scope, token, view.mark, 1.0)

    def era(self, scope: Scope) -> Era | None:
        """The era of a scope, as far as this replica knows it now."""
        view = self._views.get(scope)
        return view.mark.era if view is not None and view.mark.token > 0 else None

    async def witnessed(self, scope: Scope, witness: Mark) -> None:
        """A store's own witness stands above our mark: learn it, and tell a forgetful registry."""
        with suppress(RegistryUnavailable):
            row = await self.calls.scope(scope)
            known = row.mark if row is not None else NO_MARK
            if known.rank < witness.rank:
                self._observer.emit(RegistryRegressed(scope, witness, known))
                await self.calls.recall(scope, witness)
        self.apply(scope, Told(witness))

    async def carry(self, scope: Scope, mark: Mark) -> bool:
        """Commit the mark in every store in reach that keeps a fence of its own (rule 11)."""
        for store in self._reach(scope):
            above = await store.carry(scope, mark)
            if above is not None:
                await self.witnessed(scope, above)
                return False
        return True

    # --- running the machine --------------------------------------------------------------------
    def apply(self, scope: Scope, event: Event) -> Effects:
        """Step a scope's machine and carry the effects out."""
        carries = False
        if isinstance(event, ClaimAnswered):  # the only event to which the reach matters
            carries = any(True for _ in self._reach(scope))
        here = self.membership.here(carries=carries)
        view, effects = fence.step(self._views.get(scope) or View(), event, here)
        self._views[scope] = view
        for effect in effects:
            self._perform(scope, effect)
        return effects

    def close(self, admission: Admission) -> None:
        """Count a ticket as no longer open."""
        if self._admissions.pop(admission.ticket, None) is not None:
            self._observer.emit(TicketsOpen(admission.store, -1))

    def later(self, seconds: float, scope: Scope, event: Event) -> None:
        """Apply an event after a pause."""
        self._spawn(self._apply_later(seconds, scope, event))

    async def _apply_later(self, seconds: float, scope: Scope, event: Event) -> None:
        await self._clock.sleep_s(seconds)
        self.apply(scope, event)

    async def _arrive(self, scope: Scope, event: Arrived, store: str) -> Admit | Refuse:
        for effect in self.apply(scope, event):
            if isinstance(effect, Admit | Refuse) and effect.ticket == event.ticket:
                return effect
        self._make_room()
        future: asyncio.Future[Admit | Refuse] = asyncio.get_running_loop().create_future()
        self._waiting[event.ticket] = _Waiter(future, store)
        try:
            return await future
        except asyncio.CancelledError:
            self._waiting.pop(event.ticket, None)
            self.apply(scope, Settled(event.ticket))
            raise

    async def _refused(self, scope: Scope, token: Token | None, refused: Refuse) -> Problem:
        if refused.why is Why.DUPLICATE and refused.mark.burnt:
            await self._carry_burnt(scope, refused.mark)
        wait_s = self._timing.drain_timeout_s if refused.why is Why.NOT_DRAINED else 1.0
        return refusal(refused.why, scope, token, refused.mark, wait_s)

    async def _carry_burnt(self, scope: Scope, mark: Mark) -> None:
        """Commit a burnt mark where writes are checked, before anybody is told of it (rule 11).

        It is refused in any case; where this fails, the next refusal tries again.
        """
        try:
            async with asyncio.timeout(self._timing.drain_timeout_s):
                await self.carry(scope, mark)
        except Exception as error:
            self._fault("carry of a burnt mark", error)

    def _perform(self, scope: Scope, effect: Effect) -> None:
        match effect:
            case Pass():
                pass
            case Admit(ticket) | Refuse(ticket):
                waiter = self._waiting.pop(ticket, None)
                if waiter is not None and not waiter.answer.done():
                    waiter.answer.set_result(effect)
            case SendClaim():
                self._spawn(self._claim(scope, effect))
            case AwaitDrain(registration, mark, seen):
                self._spawn(self._drain(scope, registration, mark, seen=seen))
            case Yield(generation, mark):
                self._spawn(self._yield(scope, generation, mark))
            case Hasten(ticket):
                self._spawn(self._hasten(ticket))
            case Forget(registrations):
                self._spawn(self._forget(scope, registrations))
            case Rejoin():
                if self.membership.generation is not None:
                    self.membership.lapse(self.membership.generation)
            case _:
                assert_never(effect)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- loops that await -----------------------------------------------------------------------
    async def _claim(self, scope: Scope, effect: SendClaim) -> None:
        generation = self.membership.generation
        if generation is None:
            self.apply(scope, ClaimFailed(effect.registration))
            return
        claim = Claim(
            scope,
            effect.era,
            effect.token,
            effect.holder,
            self.membership.replica,
            generation,
            effect.registration,
            effect.max_jump,
            effect.gives_up,
        )
        try:
            with stage("claim"):
                answer = await self.calls.claim(claim)
                await self._remind(scope, answer)
        except Exception as error:
            self._fault("claim", error)
            self.apply(scope, ClaimFailed(effect.registration))
            return
        if isinstance(answer, Claimed) and (before := answer.raised_from) is not None:
            self._observer.emit(Raised(self._claimant(effect), scope, before, answer.mark))
        if isinstance(answer, ClaimBurnt) and answer.first:
            self._observer.emit(DuplicateFound(scope, answer.mark))
        self.apply(scope, ClaimAnswered(effect.registration, answer))

    async def _remind(self, scope: Scope, answer: ClaimAnswer) -> None:
        """A mark of ours that stands above the registry's answer is a witness too (rule 9)."""
        view = self._views.get(scope)
        if view is None or isinstance(answer, ClaimBurnt | GenerationEnded):
            return
        at = Mark(answer.era, 0) if isinstance(answer, EraDiffers) else answer.mark
        if at.rank < view.mark.rank:
            await self.witnessed(scope, view.mark)

    def _claimant(self, claim: SendClaim) -> str:
        """The store on whose behalf a claim was sent; its id ends with the ticket's number."""
        waiter = self._waiting.get(int(claim.registration.rpartition(".")[2]))
        return waiter.store if waiter is not None else ""

    def _fault(self, where: str, error: Exception) -> None:
        """Report what nobody foresaw; time-outs and lock waits are reported where they occur."""
        if not isinstance(error, TimeoutError | RegistryUnavailable | CarryFailed):
            self._observer.emit(Faulted(where, repr(error)))

    async def _drain(
        self, scope: Scope, registration: RegistrationId, mark: Mark, *, seen: bool
    ) -> None:
        began_s = self._clock.boottime_s()
        try:
            with stage("drain"):
                async with asyncio.timeout(self._timing.drain_timeout_s):
                    if not seen:
                        await self._until_drained(scope, mark)
                    await self.carry(scope, mark)
        except Exception as error:
            self._fault("drain", error)
            self._observer.emit(Drained(scope, self._clock.boottime_s() - began_s, complete=False))
            self.apply(scope, DrainTimedOut(registration))
            return
        self._observer.emit(Drained(scope, self._clock.boottime_s() - began_s, complete=True))
        self.apply(scope, DrainSeen(registration))

    async def _until_drained(self, scope: Scope, mark: Mark) -> None:
        began_s = self._clock.boottime_s()
        shortest_s, longest_s = _LOOK_S
        while True:
            generation = self.membership.generation
            lower = generation and await self.calls.pending(scope, mark, generation)
            if lower is None:
                if generation is not None:
                    self.membership.lapse(generation)
                raise RegistryUnavailable("the membership ended while older writes were awaited")
            if not lower and not self.membership.here().in_grace:
                break
            waited_s = self._clock.boottime_s() - began_s
            self._moved.clear()
            with suppress(TimeoutError):  # late by a quarter at most
                pause_s = min(max(shortest_s, waited_s / 4), longest_s)
                await asyncio.wait_for(self._moved.wait(), pause_s)

    async def _yield(self, scope: Scope, generation: Generation, mark: Mark) -> None:
        pause_s = _AGAIN_S
        while True:
            try:
                await self.calls.yield_(scope, self.membership.replica, generation, mark)
            except Exception as error:
                self._fault("yield", error)
                await self._clock.sleep_s(pause_s)
                pause_s = min(2 * pause_s, 1.0)
            else:
                self._moved.set()
                return

    async def _hasten(self, ticket: int) -> None:
        await self._clock.sleep_s(_HASTE_S)
        admission = self._admissions.get(ticket)
        if admission is not None:
            admission.hasten()

    async def _forget(self, scope: Scope, registrations: tuple[RegistrationId, ...]) -> None:
        for registration in registrations:
            try:
                await self.calls.forget(scope, registration)
            except Exception as error:
                self._fault("forget", error)
                await self._clock.sleep_s(_AGAIN_S)
                self._spawn(self._forget(scope, registrations))
                return
        self.apply(scope, Forgotten(registrations))
        view = self._views.get(scope)
        if view is not None and fence.is_idle(view) and not view.registrations:
            del self._views[scope]

    def _make_room(self) -> None:
        """Forget a few scopes that nobody uses when the cache is over its bound (rule 14)."""
        over = len(self._views) - self._timing.max_cached_scopes
        for scope in tuple(itertools.islice(self._views, _EVICTION_LOOKS)) if over > 0 else ():
            view = self._views.pop(scope)
            self._views[scope] = view
            if fence.is_idle(view):
                self.apply(scope, EvictionAsked())
