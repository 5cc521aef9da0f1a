"""The admin's desk: seals, scopes and resets, as the control API asks for them (rule 15)."""

from __future__ import annotations

from typing import Final

from gateway.engine.fences import Fences
from gateway.engine.refusals import never_seen, regressed
from gateway.machines.fence_events import Told
from gateway.model.claim import Generation, Member, ScopePage, ScopeRow
from gateway.model.event import ScopeReset, TokenRegressed
from gateway.model.mark import Era, Mark, Scope
from gateway.model.problem import Code, Problem
from gateway.model.token import MAX_TOKEN, Holder, Token
from gateway.ports.clock import Clock
from gateway.ports.observer import Observer
from gateway.ports.store import CarryFailed

_POLL_S: Final = (0.005, 0.1)


class Desk:
    """What an admin, or a lease service with the admin key, may ask of the fences."""

    def __init__(
        self, fences: Fences, clock: Clock, observer: Observer, drain_timeout_s: float
    ) -> None:
        self._fences = fences
        self._clock = clock
        self._observer = observer
        self._drain_timeout_s = drain_timeout_s

    async def scope(self, scope: Scope) -> ScopeRow | None:
        """One scope as the registry has it. Raises `RegistryUnavailable`."""
        return await self._fences.calls.scope(scope)

    async def scopes(self, after: str | None, limit: int) -> ScopePage:
        """A page of scopes. Raises `RegistryUnavailable`."""
        return await self._fences.calls.scopes(after, limit)

    async def replicas(self) -> tuple[tuple[Member, ...], Generation | None]:
        """All members, and which of them this process is. Raises `RegistryUnavailable`."""
        return await self._fences.calls.members(), self._fences.membership.generation

    async def seal(
        self, scope: Scope, token: Token | None, holder: Holder | None
    ) -> Mark | Problem:
        """Raise the mark and drain. Without a token, issue the next one.

        It is the issuer that speaks here: a token of its own below the mark is no stale holder's,
        it shows that the issuer has lost its counter.
        """
        sealed = await self._fences.seal(scope, token, holder)
        if isinstance(sealed, Mark) or sealed.code is not Code.TOKEN_STALE or token is None:
            return sealed
        mark = sealed.mark or 0
        self._observer.emit(TokenRegressed(scope, token, mark))
        return regressed(scope, token, mark)

    async def reset(self, scope: Scope, reason: str) -> Mark | Problem:
        """Drain everything, then start the next era with an empty mark (rule 15).

        Raises `RegistryUnavailable`; what has been done by then is done, and it can be repeated.
        """
        row = await self.scope(scope)
        if row is None:
            return never_seen(scope)
        before, ends_s = row.mark, self._clock.boottime_s() + self._drain_timeout_s
        era = before.era
        while True:
            after = await self._next_era(scope, era, reason, ends_s)
            if after is None:
                return _still_draining(scope, self._drain_timeout_s)
            self._observer.emit(ScopeReset(scope, before, after, reason))
            self._fences.apply(scope, Told(after))
            try:
                await self._fences.carry(scope, after)
            except CarryFailed as failed:
                return _not_carried(scope, after, failed)
            row = await self.scope(scope)
            if row is None or row.mark.era <= after.era:
                return after
            # A store knew a later era, of which the registry had no memory: go beyond that.
            before, era = row.mark, row.mark.era

    async def _next_era(self, scope: Scope, era: Era, reason: str, ends_s: float) -> Mark | None:
        """Close the era, wait until nothing is registered in it, begin the next; None: too late."""
        pause_s, longest_s = _POLL_S
        while True:
            if await self._sees_all(scope, era):
                done = await self._fences.calls.reset(scope, era, reason)
                if done is not None:
                    return done
                row = await self.scope(scope)
                if row is not None and row.mark.era > era:  # somebody else has reset it meanwhile
                    return row.mark
            if self._clock.boottime_s() >= ends_s:
                return None
            await self._clock.sleep_s(pause_s)
            pause_s = min(2 * pause_s, longest_s)

    async def _sees_all(self, scope: Scope, era: Era) -> bool:
        """Whether what the registry shows is all there is: not before a grace is over (rule 9)."""
        membership = self._fences.membership
        generation = membership.generation
        if generation is None or membership.here().in_grace:
            return False
        top = Mark(era, MAX_TOKEN, burnt=True)
        if await self._fences.calls.pending(scope, top, generation) is None:
            membership.lapse(generation)
            return False
        return True


def _still_draining(scope: Scope, waited_s: float) -> Problem:
    return Problem(
        Code.NOT_DRAINED,
        f"writes in scope {scope} are still under way after {waited_s:g} s; the scope is closed to"
        " every token until it is reset: send the same request again",
        retry_after_s=1,
    )


def _not_carried(scope: Scope, after: Mark, failed: CarryFailed) -> Problem:
    return Problem(
        Code.BUSY,
        f"era {after.era} of scope {scope} has begun, but a store could not be told of it:"
        f" {failed}; an older write may still be under way there: send the same request again",
        retry_after_s=1,
    )
