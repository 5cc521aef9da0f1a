"""The `redis` registry: the ledger in one script per step, sharded over sixteen slots."""

from __future__ import annotations

import hashlib
import secrets

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
from gateway.registries.redis import answers
from gateway.registries.redis.client import close_client
from gateway.registries.redis.inbox import Inbox
from gateway.registries.redis.risks import risks
from gateway.registries.redis.shards import SHARDS, Client, Fence, Shards


class RedisRegistry:
    """Marks, registrations and members in Redis or Valkey, shared by all replicas.

    The incarnation is the server's `run_id` with its `master_replid`: both change with a restart or
    a fail-over, whatever the data says (redis.io, "INFO"). A split brain of the servers themselves
    is theirs to prevent (`min-replicas-to-write`).
    """

    shared = True

    def __init__(self, client: Client, *, prefix: str = "fg", fence: Fence | None = None) -> None:
        self._shards = Shards(client, prefix)
        self._client = client
        self._fence = fence or Fence(aof=False, replicas=0, timeout_ms=0)
        self._inboxes: dict[Generation, Inbox] = {}
        self._beats: dict[Generation, int] = {}

    async def join(self, replica: ReplicaId) -> Generation:
        """See `Registry.join`."""
        generation = Generation(secrets.token_urlsafe(9).replace(".", "-"))
        await self._shards.everywhere("join", replica, generation)
        self._beats[generation] = 0
        return generation

    async def agree(self, generation: Generation, rules: str) -> bool:
        """See `Registry.agree`: on the first shard."""
        return (await self._shards.step(0, "agree", generation, rules))[0] == b"agreed"

    async def beat(self, replica: ReplicaId, generation: Generation) -> bool:
        """See `Registry.beat`: alive only if every shard says so (rule 13)."""
        beat = self._beats[generation] = self._beats.get(generation, 0) + 1
        done = await self._shards.everywhere("beat", replica, generation, beat)
        return all(answer[0] == b"beaten" for answer in done)

    async def members(self) -> tuple[Member, ...]:
        """See `Registry.members`: the beat is that of the shard that is furthest behind."""
        seen: dict[Generation, list[Member]] = {}
        for answer in await self._shards.everywhere("members"):
            for replica, generation, beat in answers.runs(answer, 3):
                member = Member(
                    ReplicaId(replica.decode()), Generation(generation.decode()), int(beat)
                )
                seen.setdefault(member.generation, []).append(member)
        return tuple(
            min(found, key=lambda m: m.beat)
            if len(found) == SHARDS
            else found[0]._replace(beat=-1)  # half ended, or joining: it never stood still at this
            for found in seen.values()
        )

    async def leave(self, replica: ReplicaId, generation: Generation) -> None:
        """See `Registry.leave`."""
        await self._shards.everywhere("finish", replica, generation, "")
        await self._forget_inbox(generation)

    async def evict(self, replica: ReplicaId, generation: Generation, beat_seen: int) -> bool:
        """See `Registry.evict`.

        First where the beat has stood still: there the step proves that no beat was acknowledged
        by every shard since. Then everywhere.
        """
        if beat_seen >= 0:
            first = await self._shards.everywhere("finish", replica, generation, beat_seen)
            if not any(answer[0] == b"ended" for answer in first):
                return False
        await self._shards.everywhere("finish", replica, generation, "")
        return True

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `Registry.claim`."""
        answer = await self._shards.durably(
            self._shards.of(claim.scope),
            "claim",
            claim.scope,
            claim.era,
            "" if claim.token is None else claim.token,
            claim.holder or "",
            claim.generation,
            claim.registration,
            "" if claim.max_jump is None else claim.max_jump,
            *claim.gives_up,
            fence=self._fence,
        )
        return answers.claim_answer(answer)

    async def pending(
        self, scope: Scope, mark: Mark, generation: Generation
    ) -> tuple[Registration, ...] | None:
        """See `Registry.pending`."""
        era, token, burnt = mark.rank
        answer = await self._on(scope, "pending", era, token, int(burnt), generation)
        return None if answer[0] == b"ended" else answers.registrations(answer[1:])

    async def yield_(
        self, scope: Scope, replica: ReplicaId, generation: Generation, mark: Mark
    ) -> None:
        """See `Registry.yield_`."""
        del replica
        era, token, burnt = mark.rank
        await self._on(scope, "yield", generation, era, token, int(burnt))

    async def forget(self, scope: Scope, registration: RegistrationId) -> None:
        """See `Registry.forget`."""
        await self._on(scope, "forget", registration)

    async def inbox(
        self, replica: ReplicaId, generation: Generation, seen: int
    ) -> tuple[Notice, ...]:
        """See `Registry.inbox`."""
        del replica
        return await self._inbox(generation).read(seen)

    async def wait(self, replica: ReplicaId, generation: Generation, timeout_s: float) -> None:
        """See `Registry.wait`: a channel rings for the inbox, one subscription a generation."""
        del replica
        await self._inbox(generation).wait(timeout_s)

    def _inbox(self, generation: Generation) -> Inbox:
        if generation not in self._inboxes:
            self._inboxes[generation] = Inbox(self._shards, generation)
        return self._inboxes[generation]

    async def _forget_inbox(self, generation: Generation) -> None:
        self._beats.pop(generation, None)
        inbox = self._inboxes.pop(generation, None)
        if inbox is not None:
            await inbox.aclose()

    async def scope(self, scope: Scope) -> ScopeRow | None:
        """See `Registry.scope`."""
        answer = await self._on(scope, "scope")
        return ScopeRow(scope, answers.mark(answer[:4]), int(answer[4])) if answer else None

    async def scopes(self, after: str | None, limit: int) -> ScopePage:
        """See `Registry.scopes`: shard by shard, each in the order of its own cursor."""
        shard, _, cursor = (after or "0:0").partition(":")
        rows: list[ScopeRow] = []
        at, where = int(shard), cursor
        while at < SHARDS and len(rows) < limit:
            answer = await self._shards.step(at, "scopes", where, max(1, limit - len(rows)))
            rows += (
                ScopeRow(Scope(name.decode()), answers.mark(mark), int(count))
                for name, *mark, count in answers.runs(answer[1:], 6)
            )
            where = answer[0].decode()
            if where == "0":
                at += 1
        following = f"{at}:{where}" if at < SHARDS else None
        return ScopePage(tuple(sorted(rows)), following)

    async def reset(self, scope: Scope, era: Era, reason: str) -> Mark | None:
        """See `Registry.reset`."""
        shard = self._shards.of(scope)
        answer = await self._shards.durably(shard, "reset", scope, era, reason, fence=self._fence)
        return answers.mark(answer[1:5]) if answer[0] == b"done" else None

    async def recall(self, scope: Scope, mark: Mark) -> Mark:
        """See `Registry.recall`."""
        era, token, burnt = mark.rank
        shard, holder = self._shards.of(scope), mark.holder or ""
        return answers.mark(
            await self._shards.durably(
                shard, "recall", scope, era, token, int(burnt), holder, fence=self._fence
            )
        )

    async def identity(self) -> Identity:
        """See `Registry.identity`: of all servers that hold a shard."""
        found = [(one.decode(), vouched.decode()) for one, vouched in await self._identities()]
        vouched = all(one == by for one, by in found)
        return Identity(_digest([one for one, _ in found]), vouched)

    async def _identities(self) -> list[answers.Answer]:
        return await self._shards.everywhere("identity")

    async def vouch(self, incarnation: str) -> None:
        """See `Registry.vouch`."""
        found = [one.decode() for one, _ in await self._identities()]
        if _digest(found) == incarnation:
            for shard, one in enumerate(found):
                await self._shards.step(shard, "vouch", one)

    async def probe(self) -> tuple[str, ...]:
        """See `Registry.probe`."""
        await self._identities()
        return await risks(self._client, self._fence)

    async def aclose(self) -> None:
        """See `Registry.aclose`."""
        for inbox in self._inboxes.values():
            await inbox.aclose()
        await close_client(self._client)

    async def _on(self, scope: Scope, step: str, *arguments: str | int) -> answers.Answer:
        return await self._shards.step(self._shards.of(scope), step, scope, *arguments)


def _digest(incarnations: list[str]) -> str:
    distinct = sorted(set(incarnations))
    if len(distinct) == 1:
        return distinct[0]
    return hashlib.sha256(" ".join(distinct).encode()).hexdigest()
