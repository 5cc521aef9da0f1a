"""The `memory` registry: marks and registrations of one process, gone with it.

Runs the ledger as it stands. For tests, and for work whose marks need not outlive the process.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from uuid import uuid4

from gateway.machines import ledger
from gateway.machines.ledger import EMPTY, Record
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
from gateway.model.mark import Era, Mark, Scope


class MemoryRegistry:
    """A registry in this process's memory. Each step runs to its end without an await."""

    shared = False

    def __init__(self) -> None:
        self._records: dict[Scope, Record] = {}
        self._members: dict[Generation, Member] = {}
        self._inboxes: dict[Generation, list[Notice]] = {}
        self._rings: dict[Generation, asyncio.Event] = {}
        self._rules: dict[Generation, str] = {}
        self._numbers = itertools.count(1)
        self._incarnation = uuid4().hex

    async def join(self, replica: ReplicaId) -> Generation:
        """See `Registry.join`."""
        generation = Generation(uuid4().hex)
        self._members[generation] = Member(replica, generation, 0)
        self._inboxes[generation] = []
        self._rings[generation] = asyncio.Event()
        return generation

    async def agree(self, generation: Generation, rules: str) -> bool:
        """See `Registry.agree`."""
        others = {r for g, r in self._rules.items() if g != generation}
        if generation not in self._members or others - {rules}:
            return False
        self._rules[generation] = rules
        return True

    async def beat(self, replica: ReplicaId, generation: Generation) -> bool:
        """See `Registry.beat`."""
        member = self._members.get(generation)
        if member is None or member.replica != replica:
            return False
        self._members[generation] = member._replace(beat=member.beat + 1)
        return True

    async def members(self) -> tuple[Member, ...]:
        """See `Registry.members`."""
        return tuple(self._members.values())

    async def leave(self, replica: ReplicaId, generation: Generation) -> None:
        """See `Registry.leave`."""
        del replica
        self._end(generation)

    async def evict(self, replica: ReplicaId, generation: Generation, beat_seen: int) -> bool:
        """See `Registry.evict`."""
        if self._members.get(generation) != Member(replica, generation, beat_seen):
            return False
        self._end(generation)
        return True

    def _end(self, generation: Generation) -> None:
        self._members.pop(generation, None)
        self._rules.pop(generation, None)
        self._inboxes.pop(generation, None)
        if generation in self._rings:
            self._rings.pop(generation).set()
        for scope, record in self._records.items():
            self._records[scope] = ledger.ended(record, generation)

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `Registry.claim`."""
        record = self._records.get(claim.scope, EMPTY)
        ruling = ledger.claim(record, claim, member=claim.generation in self._members)
        if ruling.record is not record:
            self._records[claim.scope] = ruling.record
        self._tell(claim.scope, ruling.record.mark, ruling.told)
        return ruling.answer

    def _tell(
        self, scope: Scope, mark: Mark, told: tuple[tuple[ReplicaId, Generation], ...]
    ) -> None:
        for _, generation in told:
            if generation in self._inboxes:
                self._inboxes[generation].append(Notice(next(self._numbers), scope, mark))
                self._rings[generation].set()

    async def pending(
        self, scope: Scope, mark: Mark, generation: Generation
    ) -> tuple[Registration, ...] | None:
        """See `Registry.pending`."""
        if generation not in self._members:
            return None
        return ledger.below(self._records.get(scope, EMPTY), mark)

    async def yield_(
        self, scope: Scope, replica: ReplicaId, generation: Generation, mark: Mark
    ) -> None:
        """See `Registry.yield_`."""
        del replica
        if scope in self._records:
            self._records[scope] = ledger.yielded(self._records[scope], generation, mark)

    async def forget(self, scope: Scope, registration: RegistrationId) -> None:
        """See `Registry.forget`."""
        if scope in self._records:
            self._records[scope] = ledger.forgotten(self._records[scope], registration)

    async def inbox(
        self, replica: ReplicaId, generation: Generation, seen: int
    ) -> tuple[Notice, ...]:
        """See `Registry.inbox`."""
        del replica
        if generation not in self._inboxes:
            return ()
        kept = [notice for notice in self._inboxes[generation] if notice.number > seen]
        self._inboxes[generation] = kept
        self._rings[generation].clear()
        return tuple(kept)

    async def wait(self, replica: ReplicaId, generation: Generation, timeout_s: float) -> None:
        """See `Registry.wait`."""
        del replica
        ring = self._rings.get(generation)
        with suppress(TimeoutError):
            await asyncio.wait_for(ring.wait() if ring else asyncio.sleep(timeout_s), timeout_s)

    async def scope(self, scope: Scope) -> ScopeRow | None:
        """See `Registry.scope`."""
        record = self._records.get(scope)
        return None if record is None else _row(scope, record)

    async def scopes(self, after: str | None, limit: int) -> ScopePage:
        """See `Registry.scopes`."""
        names = sorted(name for name in self._records if after is None or name > after)
        rows = tuple(_row(name, self._records[name]) for name in names[:limit])
        return ScopePage(rows, rows[-1].scope if len(names) > limit else None)

    async def reset(self, scope: Scope, era: Era, reason: str) -> Mark | None:
        """See `Registry.reset`. The audit trail of this registry is the gateway's log alone."""
        del reason
        step = ledger.reset(self._records.get(scope, EMPTY), era)
        self._records[scope] = step.record
        self._tell(scope, step.record.mark, step.told)
        return step.done

    async def recall(self, scope: Scope, mark: Mark) -> Mark:
        """See `Registry.recall`."""
        record = ledger.recalled(self._records.get(scope, EMPTY), mark)
        self._records[scope] = record
        return record.mark

    async def identity(self) -> Identity:
        """See `Registry.identity`: this process's own id; what it has lost died with it."""
        return Identity(self._incarnation, vouched=True)

    async def vouch(self, incarnation: str) -> None:
        """See `Registry.vouch`: nobody needs to."""

    async def probe(self) -> tuple[str, ...]:
        """See `Registry.probe`: memory is always there."""
        return ()

    async def aclose(self) -> None:
        """See `Registry.aclose`: nothing is held."""


def _row(scope: Scope, record: Record) -> ScopeRow:
    return ScopeRow(scope, record.mark, len(record.registrations))
