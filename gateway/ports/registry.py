"""The port of a registry: where marks, registrations and memberships live (protocol, "State").

Every operation is one atomic step. A raise is durable before it is answered (rule 10).
"""

from __future__ import annotations

from typing import Protocol

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


class RegistryUnavailable(Exception):
    """The registry did not answer in time, or answered with an error. Fail closed.

    Whether the operation took effect is not known.
    """


class Registry(Protocol):
    """Marks and registrations, shared by all replicas.

    A generation is bound to the incarnation of the engine in which it joined: on another one (after
    a fail-over, or a restart that may have lost something) its claims and beats are refused, and
    its `pending` is not answered, as if it had ended (rule 9).
    """

    shared: bool
    """False: one process has the registry for itself, so that no membership can be lost."""

    async def join(self, replica: ReplicaId) -> Generation:
        """Start a new generation of this replica. Registrations of its older ones stay."""
        ...

    async def agree(self, generation: Generation, rules: str) -> bool:
        """Work by rules of this digest, if no other member works by others (decisions, "Reload").

        False: another one does, or the generation has ended; nothing has changed then. What a
        generation agreed to ends with it.
        """
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

    async def pending(
        self, scope: Scope, mark: Mark, generation: Generation
    ) -> tuple[Registration, ...] | None:
        """The registrations below `mark` that still stand; empty means drained (rule 3).

        None: the asker's generation has ended, so that nothing can be concluded; rejoin.
        """
        ...

    async def yield_(
        self, scope: Scope, replica: ReplicaId, generation: Generation, mark: Mark
    ) -> None:
        """Remove all registrations of that generation below `mark` (rule 4)."""
        ...

    async def forget(self, scope: Scope, registration: RegistrationId) -> None:
        """Remove one registration by its id (rule 14). Unknown ids are ignored."""
        ...

    async def inbox(
        self, replica: ReplicaId, generation: Generation, seen: int
    ) -> tuple[Notice, ...]:
        """The notices of this generation behind number `seen`, oldest first.

        Those up to `seen` are acknowledged and forgotten; others stay, so that an answer that is
        lost loses no notice. 0 acknowledges nothing.
        """
        ...

    async def wait(self, replica: ReplicaId, generation: Generation, timeout_s: float) -> None:
        """Return when the inbox may have something new, and at the latest after `timeout_s`.

        A hint, to be followed by `inbox`. Raises `RegistryUnavailable`.
        """
        ...

    async def scope(self, scope: Scope) -> ScopeRow | None:
        """One scope, or None when nobody has claimed it."""
        ...

    async def scopes(self, after: str | None, limit: int) -> ScopePage:
        """A page of about `limit` scopes behind the cursor `after`, in name order within the page.

        Paging leaves out no scope that was there all the time; one may come twice.
        """
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

    async def identity(self) -> Identity:
        """The incarnation, bound to the engine's own identity (rule 9)."""
        ...

    async def vouch(self, incarnation: str) -> None:
        """Note that a grace on this incarnation is over; ignored when it is not the current one."""
        ...

    async def probe(self) -> tuple[str, ...]:
        """Prove that the registry is reachable. Raises `RegistryUnavailable`.

        Returns what a crash of it could lose, each in a sentence that says what to change.
        """
        ...

    async def aclose(self) -> None:
        """Release connections, threads and locks."""
        ...
