"""Calls to the registry, each with a time-out, counted and timed (decisions, "Defaults")."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from gateway.model.claim import (
    Claim,
    ClaimAnswer,
    Generation,
    Identity,
    Member,
    Notice,
    Registration,
    RegistrationId,
    ReplicaId,
    ScopePage,
    ScopeRow,
)
from gateway.model.event import RegistryCalled
from gateway.model.mark import Era, Mark, Scope
from gateway.ports.clock import Clock
from gateway.ports.observer import Observer
from gateway.ports.registry import Registry, RegistryUnavailable

T = TypeVar("T")


class RegistryCalls:
    """The registry as the engine calls it. Every call raises `RegistryUnavailable` when late."""

    def __init__(
        self, registry: Registry, clock: Clock, observer: Observer, timeout_s: float
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._observer = observer
        self._timeout_s = timeout_s

    async def _call(self, op: str, work: Coroutine[Any, Any, T]) -> T:
        """The answer. Late work is cancelled and left behind: its end may be late as well."""
        began_s = self._clock.boottime_s()
        ok, why = False, "it was given up"
        step = asyncio.get_running_loop().create_task(work)
        try:
            await asyncio.wait((step,), timeout=self._timeout_s)
            if not step.done():
                why = f"the registry did not answer {op} within {self._timeout_s:g} s"
                raise RegistryUnavailable(why)
            answer = step.result()
            ok, why = True, ""
        except Exception as error:
            why = str(error) or type(error).__name__
            raise
        finally:
            if not step.done():
                step.add_done_callback(_look_at)
                step.cancel()
            self._observer.emit(RegistryCalled(op, self._clock.boottime_s() - began_s, ok, why))
        return answer

    async def join(self, replica: ReplicaId) -> Generation:
        """See `Registry.join`."""
        return await self._call("join", self._registry.join(replica))

    async def agree(self, generation: Generation, rules: str) -> bool:
        """See `Registry.agree`."""
        return await self._call("agree", self._registry.agree(generation, rules))

    async def beat(self, replica: ReplicaId, generation: Generation) -> bool:
        """See `Registry.beat`."""
        return await self._call("beat", self._registry.beat(replica, generation))

    async def identity(self) -> Identity:
        """See `Registry.identity`."""
        return await self._call("identity", self._registry.identity())

    async def vouch(self, incarnation: str) -> None:
        """See `Registry.vouch`."""
        await self._call("vouch", self._registry.vouch(incarnation))

    async def inbox(
        self, replica: ReplicaId, generation: Generation, seen: int
    ) -> tuple[Notice, ...]:
        """See `Registry.inbox`."""
        return await self._call("inbox", self._registry.inbox(replica, generation, seen))

    async def wait(self, replica: ReplicaId, generation: Generation, timeout_s: float) -> None:
        """See `Registry.wait`; not counted, because it mostly waits."""
        await self._registry.wait(replica, generation, timeout_s)

    async def members(self) -> tuple[Member, ...]:
        """See `Registry.members`."""
        return await self._call("members", self._registry.members())

    async def leave(self, replica: ReplicaId, generation: Generation) -> None:
        """See `Registry.leave`."""
        await self._call("leave", self._registry.leave(replica, generation))

    async def evict(self, replica: ReplicaId, generation: Generation, beat_seen: int) -> bool:
        """See `Registry.evict`."""
        return await self._call("evict", self._registry.evict(replica, generation, beat_seen))

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `Registry.claim`."""
        return await self._call("claim", self._registry.claim(claim))

    async def pending(
        self, scope: Scope, mark: Mark, generation: Generation
    ) -> tuple[Registration, ...] | None:
        """See `Registry.pending`."""
        return await self._call("pending", self._registry.pending(scope, mark, generation))

    async def yield_(
        self, scope: Scope, replica: ReplicaId, generation: Generation, mark: Mark
    ) -> None:
        """See `Registry.yield_`."""
        await self._call("yield", self._registry.yield_(scope, replica, generation, mark))

    async def forget(self, scope: Scope, registration: RegistrationId) -> None:
        """See `Registry.forget`."""
        await self._call("forget", self._registry.forget(scope, registration))

    async def scope(self, scope: Scope) -> ScopeRow | None:
        """See `Registry.scope`."""
        return await self._call("scope", self._registry.scope(scope))

    async def scopes(self, after: str | None, limit: int) -> ScopePage:
        """See `Registry.scopes`."""
        return await self._call("scopes", self._registry.scopes(after, limit))

    async def reset(self, scope: Scope, era: Era, reason: str) -> Mark | None:
        """See `Registry.reset`."""
        return await self._call("reset", self._registry.reset(scope, era, reason))

    async def recall(self, scope: Scope, mark: Mark) -> Mark:
        """See `Registry.recall`."""
        return await self._call("recall", self._registry.recall(scope, mark))


def _look_at(step: asyncio.Task[Any]) -> None:
    """Take note of how work that was given up ended; nobody waits for it any more."""
    if not step.cancelled():
        step.exception()
