"""The membership of this replica: beats, the watch over others, the inbox, joining anew.

The loops here await and hold no rule: deadlines and silences are judged in `machines.heartbeat`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Protocol
from uuid import uuid4

from gateway.engine.calls import RegistryCalls
from gateway.machines import heartbeat
from gateway.machines.fence_state import Here
from gateway.machines.heartbeat import Incarnation, Pulse
from gateway.model.claim import Generation, Member, ReplicaId
from gateway.model.event import Evicted, Faulted, Joined, Lapsed, RulesDiffer
from gateway.model.mark import Mark, Scope
from gateway.ports.clock import Clock
from gateway.ports.observer import Observer
from gateway.ports.registry import RegistryUnavailable

_RETRY_S: Final = 0.05
_DIFFERS_S: Final = 0.5
_FOREVER_S: Final = float("inf")


class Listener(Protocol):
    """Who has to know what happens to the membership."""

    def lapsed(self, generation: Generation) -> None:
        """The generation is over: nothing is ready in it, nothing new passes the gate."""
        ...

    def told(self, scope: Scope, mark: Mark) -> None:
        """The inbox tells of a higher mark."""
        ...

    def moved(self) -> None:
        """Registrations of others are gone: whoever waits for a drain may look again."""
        ...


class Membership:
    """Keeps this replica a member of the registry, and ends those that have fallen silent."""

    def __init__(
        self,
        calls: RegistryCalls,
        clock: Clock,
        observer: Observer,
        ttl_s: float,
        listener: Listener,
        rules: Callable[[], str],
        *,
        shared: bool,
    ) -> None:
        """`rules` is the digest of what derives scopes now; all members must go by the same."""
        self.replica = ReplicaId(uuid4().hex[:12])
        self._calls = calls
        self._clock = clock
        self._observer = observer
        self._shared = shared
        self._ttl_s = ttl_s
        self._listener = listener
        self._rules = rules
        self._agreed: str | None = None
        self._differs = False
        self._settle_s = 0.0
        self._own: heartbeat.Membership | None = None
        self._incarnation: Incarnation | None = None
        self._pulses: dict[Generation, Pulse] = {}
        self._joined = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def generation(self) -> Generation | None:
        """The current generation; None between a lapse and the next join."""
        return self._own.generation if self._own is not None else None

    def here(self, *, carries: bool = False) -> Here:
        """The membership at this moment, as the fence machine takes it."""
        own = self._own
        if own is None or self._incarnation is None:
            return Here(None)
        if not self._shared:
            return Here(own.generation, carries=carries)
        now_s = self._clock.boottime_s()
        grace = now_s < heartbeat.grace_ends_s(self._incarnation, self._ttl_s, self._settle_s)
        return Here(own.generation, grace, heartbeat.has_lapsed(own, now_s), carries)

    # --- life -----------------------------------------------------------------------------------
    async def start(self, settle_s: float) -> None:
        """Join, and begin to beat, watch and listen. Raises `RegistryUnavailable`.

        `settle_s` is the longest settle time of all stores: 0 when each of them is exact.
        """
        self._settle_s = settle_s
        left = () if self._shared else await self._calls.members()
        if not await self._join():
            self._spawn(self._rejoin())
        for member in left:  # of an unclean stop of the one process that there is
            await self._end_left(member)
        self._spawn(self._listen())
        if self._shared:
            self._spawn(self._beat())

    async def _end_left(self, member: Member) -> None:
        if self._settle_s <= 0:
            await self._calls.evict(member.replica, member.generation, member.beat)
        else:
            self._spawn(self._end_later(member))

    async def _end_later(self, member: Member) -> None:
        await self._clock.sleep_s(self._settle_s)
        while True:
            try:
                await self._calls.evict(member.replica, member.generation, member.beat)
            except Exception as error:
                await self._again("evict", error)
            else:
                self._listener.moved()
                return

    async def _again(self, where: str, error: Exception) -> None:
        """Pause before another try, and report what nobody foresaw."""
        if not isinstance(error, RegistryUnavailable):
            self._observer.emit(Faulted(where, repr(error)))
        await self._clock.sleep_s(_RETRY_S)

    async def stop(self, *, quiet: bool) -> None:
        """Leave in good order when no write is on its way; else the others wait it out (rule 8)."""
        own, self._own = self._own, None
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if own is not None and quiet:
            with suppress(RegistryUnavailable):
                await self._calls.leave(self.replica, own.generation)

    def lapse(self, generation: Generation) -> None:
        """The membership is over, by its deadline or by the registry's word: join anew (rule 7)."""
        if self._own is None or self._own.generation != generation:
            return
        self._own = None
        self._joined.clear()
        self._observer.emit(Lapsed(generation))
        self._listener.lapsed(generation)
        self._spawn(self._rejoin())

    async def follow_rules(self) -> None:
        """The rules were exchanged: where they derive other scopes, join anew under them."""
        own = self._own
        if own is not None and self._shared and self._agreed != self._terms():
            self.lapse(own.generation)

    async def wrong(self) -> str | None:
        """Why this replica cannot claim now, or None: for readiness."""
        if self._own is not None:
            return None
        if self._differs:
            return (
                "another replica derives other scopes, or has another member_ttl_ms, settle_ms or"
                " stamp_key: give all the same policy; this one joins when the others have left"
            )
        return "not a member of the registry: joining anew"

    async def _rejoin(self) -> None:
        while self._own is None:
            try:
                if not await self._join():
                    await self._watch()  # if all others are gone, nobody else ends them
                    await self._clock.sleep_s(_DIFFERS_S)
            except Exception as error:
                await self._again("join", error)

    async def _join(self) -> bool:
        """Join in one incarnation: when it changes meanwhile, the membership is of neither.

        False: the other members go by other rules.
        """
        while True:
            sent_s = self._clock.boottime_s()
            identity = await self._calls.identity()
            generation = await self._calls.join(self.replica)
            if (await self._calls.identity()).id == identity.id:
                break
        if self._shared and not await self._agree(generation):
            return False
        self._meet(identity.id, vouched=identity.vouched)
        ttl_s = self._ttl_s if self._shared else _FOREVER_S
        self._own = heartbeat.joined(generation, sent_s, ttl_s)
        self._pulses.clear()
        self._joined.set()
        return True

    async def _agree(self, generation: Generation) -> bool:
        terms = self._terms()
        if await self._calls.agree(generation, terms):
            self._agreed, self._differs = terms, False
            return True
        await self._calls.leave(self.replica, generation)
        if not self._differs:
            self._differs = True
            self._observer.emit(RulesDiffer(terms))
        return False

    def _terms(self) -> str:
        """What all members must have in common: scopes, and how long a silent one is waited for."""
        return f"{self._rules()} {self._ttl_s:g} s {self._settle_s:g} s"

    def _meet(self, identity: str, *, vouched: bool) -> None:
        before = self._incarnation
        now_s = self._clock.boottime_s()
        self._incarnation = heartbeat.met(before, identity, now_s, vouched=vouched)
        if before is not None and before.id == identity:
            return
        ends_s = heartbeat.grace_ends_s(self._incarnation, self._ttl_s, self._settle_s)
        grace_s = max(0.0, ends_s - now_s) if self._shared else 0.0
        self._observer.emit(Joined(identity, grace_s))
        if grace_s > 0:
            self._spawn(self._vouch(identity, grace_s))

    async def _vouch(self, identity: str, grace_s: float) -> None:
        await self._clock.sleep_s(grace_s)
        while self._incarnation is not None and self._incarnation.id == identity:
            try:
                await self._calls.vouch(identity)
            except Exception as error:
                await self._again("vouch", error)
            else:
                return

    # --- loops that await -----------------------------------------------------------------------
    async def _beat(self) -> None:
        pause_s = self._ttl_s / heartbeat.BEATS_PER_TTL
        next_s = self._clock.boottime_s() + pause_s
        while True:
            await self._clock.sleep_s(max(0.0, next_s - self._clock.boottime_s()))
            await self._joined.wait()
            own = self._own
            if own is None:
                continue
            sent_s = self._clock.boottime_s()
            try:
                alive = await self._calls.beat(self.replica, own.generation)
                self._beaten(own, sent_s, alive=alive)
                await self._watch()
                next_s = sent_s + pause_s
            except RegistryUnavailable:
                next_s = self._clock.boottime_s() + _RETRY_S
            except Exception as error:
                self._observer.emit(Faulted("beat", repr(error)))
                next_s = self._clock.boottime_s() + _RETRY_S
            if heartbeat.has_lapsed(own, self._clock.boottime_s()) and self._own is own:
                self.lapse(own.generation)

    def _beaten(self, own: heartbeat.Membership, sent_s: float, *, alive: bool) -> None:
        if self._own is not own:
            return
        if not alive:
            self.lapse(own.generation)
            return
        self._own = heartbeat.renewed(own, sent_s, self._clock.boottime_s(), self._ttl_s)

    async def _watch(self) -> None:
        members = await self._calls.members()
        now_s = self._clock.boottime_s()
        self._pulses = heartbeat.watched(self._pulses, members, now_s)
        silence_s = heartbeat.silence_s(self._ttl_s, self._settle_s)
        for member in heartbeat.silent(self._pulses, self.generation, now_s, silence_s):
            if await self._calls.evict(member.replica, member.generation, member.beat):
                self._observer.emit(Evicted(member.replica, member.generation))
                self._listener.moved()

    async def _listen(self) -> None:
        heard: tuple[Generation | None, int] = (None, 0)
        while True:
            await self._joined.wait()
            generation = self.generation
            if generation is None:
                continue
            if heard[0] != generation:
                heard = (generation, 0)
            try:
                for notice in await self._calls.inbox(self.replica, generation, heard[1]):
                    heard = (generation, notice.number)
                    self._listener.told(notice.scope, notice.mark)
                await self._calls.wait(self.replica, generation, self._ttl_s)
            except Exception as error:
                await self._again("inbox", error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
