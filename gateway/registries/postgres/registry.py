"""The `postgres` registry: marks, registrations and members in one schema of a database."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import Any, Final

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
from gateway.model.token import Holder
from gateway.ports.registry import RegistryUnavailable
from gateway.registries.postgres.database import Database
from gateway.registries.postgres.inbox import Inbox

_CHANNEL: Final = "fencegate"
_RECONNECT_S: Final = 0.1


class PostgresRegistry:
    """Marks, registrations and members in PostgreSQL, shared by all replicas.

    The incarnation is an id made with the schema, the cluster's system identifier and its
    timeline: an emptied database, a promoted standby and a restored backup change it. `url` must
    lead to the primary itself, or to a pooler in session mode: LISTEN needs a session (without
    one, notices are found by looking).
    """

    shared = True

    def __init__(self, url: str, *, schema: str = "fencegate", timeout_s: float = 1.5) -> None:
        self._database = Database(url, schema=schema, timeout_s=timeout_s)
        self._inboxes: dict[Generation, Inbox] = {}
        self._listening: asyncio.Task[None] | None = None

    async def join(self, replica: ReplicaId) -> Generation:
        """See `Registry.join`."""
        generation = Generation(secrets.token_urlsafe(9))
        await self._database.rows(
            "INSERT INTO @.members (generation, replica, incarnation)"
            " VALUES ($1, $2, @.incarnation())",
            generation,
            replica,
        )
        return generation

    async def agree(self, generation: Generation, rules: str) -> bool:
        """See `Registry.agree`."""
        return bool(await self._database.value("SELECT @.agree($1, $2)", generation, rules))

    async def beat(self, replica: ReplicaId, generation: Generation) -> bool:
        """See `Registry.beat`."""
        beaten = await self._database.value(
            "UPDATE @.members SET beat = beat + 1 WHERE generation = $1 AND replica = $2"
            " AND incarnation = @.incarnation() RETURNING (SELECT @.durably()) IS NULL",
            generation,
            replica,
        )
        return beaten is not None

    async def members(self) -> tuple[Member, ...]:
        """See `Registry.members`."""
        rows = await self._database.rows("SELECT replica, generation, beat FROM @.members")
        return tuple(Member(ReplicaId(r), Generation(g), beat) for r, g, beat in rows)

    async def leave(self, replica: ReplicaId, generation: Generation) -> None:
        """See `Registry.leave`."""
        await self._database.value("SELECT @.finish($1, $2, NULL)", replica, generation)
        self._inboxes.pop(generation, None)

    async def evict(self, replica: ReplicaId, generation: Generation, beat_seen: int) -> bool:
        """See `Registry.evict`."""
        return bool(
            await self._database.value(
                "SELECT @.finish($1, $2, $3)", replica, generation, beat_seen
            )
        )

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `Registry.claim`."""
        row = await self._database.row(
            "SELECT * FROM @.claim($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            claim.scope,
            claim.era,
            claim.token,
            claim.holder,
            claim.replica,
            claim.generation,
            claim.registration,
            claim.max_jump,
            claim.gives_up,
        )
        return _claim_answer(row)

    async def pending(
        self, scope: Scope, mark: Mark, generation: Generation
    ) -> tuple[Registration, ...] | None:
        """See `Registry.pending`."""
        rows = await self._database.rows(
            "SELECT * FROM @.pending($1, $2, $3, $4, $5)", scope, *mark.rank, generation
        )
        if rows and rows[0][0] is None:
            return None
        return tuple(_registration(*row) for row in rows)

    async def yield_(
        self, scope: Scope, replica: ReplicaId, generation: Generation, mark: Mark
    ) -> None:
        """See `Registry.yield_`."""
        del replica
        await self._database.rows(
            "DELETE FROM @.registrations WHERE scope = $1 AND generation = $2"
            " AND (era, token, false) < ($3::bigint, $4::bigint, $5::boolean)",
            scope,
            generation,
            *mark.rank,
        )

    async def forget(self, scope: Scope, registration: RegistrationId) -> None:
        """See `Registry.forget`."""
        await self._database.rows(
            "DELETE FROM @.registrations WHERE scope = $1 AND id = $2", scope, registration
        )

    async def inbox(
        self, replica: ReplicaId, generation: Generation, seen: int
    ) -> tuple[Notice, ...]:
        """See `Registry.inbox`."""
        del replica
        return await self._inbox(generation).read(seen)

    async def wait(self, replica: ReplicaId, generation: Generation, timeout_s: float) -> None:
        """See `Registry.wait`: one connection listens for all generations of this process."""
        del replica
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())
        await self._inbox(generation).wait(timeout_s)

    def _inbox(self, generation: Generation) -> Inbox:
        if generation not in self._inboxes:
            self._inboxes[generation] = Inbox(self._database, generation)
        return self._inboxes[generation]

    def _heard(self, generation: str) -> None:
        inbox = self._inboxes.get(Generation(generation))
        if inbox is not None:
            inbox.ring()

    async def _listen(self) -> None:
        while True:
            with suppress(RegistryUnavailable):
                lost = asyncio.Event()
                connection = await self._database.listener(_CHANNEL, self._heard)
                try:
                    connection.add_termination_listener(lambda _, lost=lost: lost.set())
                    for inbox in self._inboxes.values():  # what came while nobody listened
                        inbox.ring()
                    await lost.wait()
                finally:
                    connection.terminate()
            await asyncio.sleep(_RECONNECT_S)

    async def scope(self, scope: Scope) -> ScopeRow | None:
        """See `Registry.scope`."""
        row = await self._database.row(f"{_ROWS} WHERE m.scope = $1", scope)
        return None if row is None else _scope_row(row)

    async def scopes(self, after: str | None, limit: int) -> ScopePage:
        """See `Registry.scopes`."""
        found = await self._database.rows(
            f"{_ROWS} WHERE $1::text IS NULL OR m.scope > $1 ORDER BY m.scope LIMIT $2",
            after,
            limit,
        )
        rows = tuple(map(_scope_row, found))
        return ScopePage(rows, rows[-1].scope if len(rows) == limit else None)

    async def reset(self, scope: Scope, era: Era, reason: str) -> Mark | None:
        """See `Registry.reset`."""
        following = await self._database.value("SELECT @.reset($1, $2, $3)", scope, era, reason)
        return None if following is None else Mark(Era(following), 0)

    async def recall(self, scope: Scope, mark: Mark) -> Mark:
        """See `Registry.recall`."""
        row = await self._database.row(
            "SELECT era, token, burnt, holder FROM @.recall($1, $2, $3, $4, $5)",
            scope,
            *mark.rank,
            mark.holder,
        )
        return _mark(*row)

    async def identity(self) -> Identity:
        """See `Registry.identity`."""
        incarnation, vouched = await self._database.row(
            "SELECT @.incarnation(), (SELECT value FROM @.meta WHERE name = 'vouched')"
        )
        return Identity(incarnation, vouched == incarnation)

    async def vouch(self, incarnation: str) -> None:
        """See `Registry.vouch`."""
        await self._database.rows(
            "INSERT INTO @.meta SELECT 'vouched', $1 WHERE @.incarnation() = $1"
            " ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value",
            incarnation,
        )

    async def probe(self) -> tuple[str, ...]:
        """See `Registry.probe`."""
        fsync, standbys = await self._database.row(
            "SELECT current_setting('fsync'), current_setting('synchronous_standby_names')"
            " FROM @.meta"
        )
        risks = []
        if fsync != "on":
            risks.append(
                "the registry's PostgreSQL may lose raises in a crash, and a stale holder could "
                "then write: set fsync = on there"
            )
        if not standbys:
            risks.append(
                "the registry's PostgreSQL has no synchronous standby: a fail-over to another "
                "server could lose raises; set synchronous_standby_names, if there is one"
            )
        return tuple(risks)

    async def aclose(self) -> None:
        """See `Registry.aclose`."""
        if self._listening is not None:
            self._listening.cancel()
            with suppress(asyncio.CancelledError):
                await self._listening
        await self._database.aclose()


_ROWS: Final = (
    "SELECT m.scope, m.era, m.token, m.burnt, m.holder,"
    " (SELECT count(*) FROM @.registrations r WHERE r.scope = m.scope) FROM @.marks m"
)


def _mark(era: int, token: int, burnt: bool, holder: str | None) -> Mark:
    return Mark(Era(era), token, burnt, Holder(holder) if holder is not None else None)


def _registration(id_: str, replica: str, generation: str, era: int, token: int) -> Registration:
    return Registration(
        RegistrationId(id_), ReplicaId(replica), Generation(generation), Era(era), token
    )


def _scope_row(row: Any) -> ScopeRow:
    scope, era, token, burnt, holder, registrations = row
    return ScopeRow(Scope(scope), _mark(era, token, burnt, holder), registrations)


def _claim_answer(row: Any) -> ClaimAnswer:
    if row["verdict"] == "ended":
        return GenerationEnded()
    mark = _mark(row["era"], row["token"], row["burnt"], row["holder"])
    match row["verdict"]:
        case "era":
            return EraDiffers(mark.era)
        case "stale":
            return ClaimStale(mark)
        case "implausible":
            return ClaimImplausible(mark)
        case "burnt" | "burns" as verdict:
            return ClaimBurnt(mark, first=verdict == "burns")
        case "claimed" | "raised" as verdict:
            before = _mark(row["old_era"], row["old_token"], row["old_burnt"], row["old_holder"])
            fields = [row[name] or () for name in ("ids", "replicas", "generations")]
            numbers = [row[name] or () for name in ("eras", "tokens")]
            lower = tuple(_registration(*one) for one in zip(*fields, *numbers, strict=True))
            return Claimed(mark, lower, before if verdict == "raised" else None)
        case other:
            raise ValueError(f"the claim function answered {other!r}")
