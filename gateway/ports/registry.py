"""The port of a registry: where marks, registrations and memberships live (protocol, "State").

Every operation is one atomic step. A raise is durable before it is answered (rule 10).
"""

from __future__ import annotations

from typing import Protocol

from gateway.model.claim import (
    Claim,
    ClaimAnswer,
    Generation,
    Member,
    Notice,
    Registration,
    RegistrationId,
    ReplicaId,
    ScopeRow,
)
from gateway.model.mark import Era, Mark, Scope


class RegistryUnavailable(Exception):
    """The registry did not answer in time, or answered with an error. Fail closed.

    Whether the operation took effect is not known.
    """


class Registry(Protocol):
    """Marks and registrations, shared by all replicas."""

    async def join(self, replica: ReplicaId) -> Generation:
        """Start a new generation of this replica. Registrations of its older ones stay."""
        ...

    async def beat(self, replica: ReplicaId, generation: Generation) -> bool:
        """Advance the heartbeat counter. False: the generation has ended, rejoin."""
        ...

    async def members(self) -> tuple[Member, ...]:
        """All generations that have not ended, with their beat counters, for the watchers."""
        ...

    async def leave(self, replica: ReplicaId, generation: Generation) -> None:
        """End the generation in good order and drop its registrations."""
        ...

    async def evict(self, replica: ReplicaId, generation: Generation, beat_seen: int) -> bool:
        """End a generation and drop its registrations, only if its beat is still `beat_seen`."""
        ...

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """Claim a token on a scope (rule 2), and tell all replicas with lower registrations."""
        ...

    async def pending(self, scope: Scope, mark: Mark) -> tuple[Registration, ...]:
        """The registrations below `mark` that still stand; empty means drained (rule 3)."""
        ...

    async def yield_(
        self, scope: Scope, replica: ReplicaId, generation: Generation, mark: Mark
    ) -> None:
        """Remove all registrations of that generation below `mark` (rule 4)."""
        ...

    async def forget(self, scope: Scope, registration: RegistrationId) -> None:
        """Remove one registration by its id (rule 14). Unknown ids are ignored."""
        ...

    async def inbox(self, replica: ReplicaId, generation: Generation) -> tuple[Notice, ...]:
        """Take the notices written to this generation since the last call, oldest first."""
        ...

    async def scope(self, scope: Scope) -> ScopeRow | None:
        """One scope, or None when nobody has claimed it."""
        ...

    async def scopes(self, after: Scope | None, limit: int) -> tuple[ScopeRow, ...]:
        """A page of scopes in name order, starting behind `after`."""
        ...

    async def reset(self, scope: Scope, era: Era, reason: str) -> Mark | None:
        """Start era + 1 with an empty mark (rule 15), if `era` is current and nothing stands.

        While registrations still stand, the era is closed instead (no token can claim in it any
        more) and their replicas are told; the answer is None: call again when they are gone.
        None too when the era differs. `reason` goes to the audit trail.
        """
        ...

    async def recall(self, scope: Scope, mark: Mark) -> Mark:
        """Raise the mark to a witness the registry has forgotten (rule 9). Returns the mark."""
        ...

    async def identity(self) -> str:
        """The incarnation id, bound to the engine's own identity (rule 9)."""
        ...

    async def probe(self) -> None:
        """Prove that the registry is reachable and durable. Raises `RegistryUnavailable`."""
        ...

    async def aclose(self) -> None:
        """Release connections, threads and locks."""
        ...
