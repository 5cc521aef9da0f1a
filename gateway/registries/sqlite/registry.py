"""The `sqlite` registry: the ledger's steps, each in a durable transaction (protocol, rule 10)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Final
from uuid import uuid4

from gateway.machines import ledger
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
from gateway.ports.registry import RegistryUnavailable
from gateway.registries.process_lock import ProcessLock, opening
from gateway.registries.sqlite import records
from gateway.registries.sqlite.doorbell import Doorbell
from gateway.registries.sqlite.writer import Writer, connect

_SCHEMA_VERSION: Final = "1"
_LOOK_S: Final = 0.25  # a ring between processes is a hint


class SqliteRegistry:
    """Marks, registrations and members in one SQLite file.

    One process has it to itself, under an exclusive lock; or, `shared`, several processes of one
    machine have it together, each a replica of its own. Registrations are kept over a restart, so
    that a start after an unclean stop finds what may still be on its way and waits only for that.
    """

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        """Open or create the file. Raises `RegistryUnavailable` with what to change."""
        self._path = path
        self.shared = shared
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = ProcessLock(path.with_name(f"{path.name}.lock"), shared=shared)
        except OSError as error:
            raise RegistryUnavailable(f"cannot open the registry {path}: {error}") from error
        try:
            with opening(path):
                db = connect(path)
                self._identity = _prepare(db)
        except (sqlite3.Error, OSError) as error:
            self._lock.release()
            raise RegistryUnavailable(f"cannot open the registry {path}: {error}") from error
        self._writer = Writer(db, "registry-writer")
        self._bell = Doorbell()

    @property
    def commits(self) -> int:
        """How many durable commits there were: what group commit is measured by."""
        return self._writer.commits

    async def join(self, replica: ReplicaId) -> Generation:
        """See `Registry.join`."""
        generation = Generation(uuid4().hex)

        def step(db: sqlite3.Connection) -> Generation:
            db.execute("INSERT INTO members VALUES (?, ?, 0)", (generation, replica))
            return generation

        self._bell.hang(generation)
        return await self._writer.run(step)

    async def agree(self, generation: Generation, rules: str) -> bool:
        """See `Registry.agree`."""

        def step(db: sqlite3.Connection) -> bool:
            if not records.is_member(db, generation):
                return False
            other = db.execute(
                "SELECT 1 FROM agreed_rules WHERE generation <> ? AND rules <> ?",
                (generation, rules),
            ).fetchone()
            if other is None:
                db.execute("INSERT OR REPLACE INTO agreed_rules VALUES (?, ?)", (generation, rules))
            return other is None

        return await self._writer.run(step)

    async def beat(self, replica: ReplicaId, generation: Generation) -> bool:
        """See `Registry.beat`."""

        def step(db: sqlite3.Connection) -> bool:
            done = db.execute(
                "UPDATE members SET beat = beat + 1 WHERE generation = ? AND replica = ?",
                (generation, replica),
            )
            return done.rowcount == 1

        return await self._writer.run(step)

    async def members(self) -> tuple[Member, ...]:
        """See `Registry.members`."""

        def step(db: sqlite3.Connection) -> tuple[Member, ...]:
            rows = db.execute("SELECT replica, generation, beat FROM members")
            return tuple(Member(ReplicaId(r), Generation(g), beat) for r, g, beat in rows)

        return await self._writer.run(step)

    async def leave(self, replica: ReplicaId, generation: Generation) -> None:
        """See `Registry.leave`."""
        del replica
        await self._writer.run(lambda db: _end(db, generation))
        self._bell.take_down(generation)

    async def evict(self, replica: ReplicaId, generation: Generation, beat_seen: int) -> bool:
        """See `Registry.evict`."""

        def step(db: sqlite3.Connection) -> bool:
            found = db.execute(
                "SELECT 1 FROM members WHERE generation = ? AND replica = ? AND beat = ?",
                (generation, replica, beat_seen),
            ).fetchone()
            if found is not None:
                _end(db, generation)
            return found is not None

        return await self._writer.run(step)

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `Registry.claim`."""

        def step(db: sqlite3.Connection) -> ClaimAnswer:
            member = records.is_member(db, claim.generation)
            before = records.load(db, claim.scope)
            ruling = ledger.claim(before, claim, member=member)
            records.save(db, claim.scope, before, ruling.record)
            records.tell(db, claim.scope, ruling.record.mark, ruling.told)
            told.extend(generation for _, generation in ruling.told)
            return ruling.answer

        told: list[Generation] = []
        answer = await self._writer.run(step)
        self._ring(told)
        return answer

    def _ring(self, told: Iterable[Generation]) -> None:
        for generation in told:
            self._bell.ring(generation)

    async def pending(
        self, scope: Scope, mark: Mark, generation: Generation
    ) -> tuple[Registration, ...] | None:
        """See `Registry.pending`."""

        def step(db: sqlite3.Connection) -> tuple[Registration, ...] | None:
            if not records.is_member(db, generation):
                return None
            return ledger.below(records.load(db, scope), mark)

        return await self._writer.run(step)

    async def yield_(
        self, scope: Scope, replica: ReplicaId, generation: Generation, mark: Mark
    ) -> None:
        """See `Registry.yield_`."""
        del replica

        def step(db: sqlite3.Connection) -> None:
            before = records.load(db, scope)
            records.save(db, scope, before, ledger.yielded(before, generation, mark))

        await self._writer.run(step)

    async def forget(self, scope: Scope, registration: RegistrationId) -> None:
        """See `Registry.forget`."""

        def step(db: sqlite3.Connection) -> None:
            before = records.load(db, scope)
            records.save(db, scope, before, ledger.forgotten(before, registration))

        await self._writer.run(step)

    async def inbox(
        self, replica: ReplicaId, generation: Generation, seen: int
    ) -> tuple[Notice, ...]:
        """See `Registry.inbox`."""
        del replica
        self._bell.hush(generation)
        return await self._writer.run(lambda db: records.take_notices(db, generation, seen))

    async def wait(self, replica: ReplicaId, generation: Generation, timeout_s: float) -> None:
        """See `Registry.wait`: the process that writes a notice rings."""
        del replica
        await self._bell.heard(generation, min(timeout_s, _LOOK_S) if self.shared else timeout_s)

    async def scope(self, scope: Scope) -> ScopeRow | None:
        """See `Registry.scope`."""

        def step(db: sqlite3.Connection) -> ScopeRow | None:
            record = records.load(db, scope)
            if record is ledger.EMPTY:
                return None
            return ScopeRow(scope, record.mark, len(record.registrations))

        return await self._writer.run(step)

    async def scopes(self, after: str | None, limit: int) -> ScopePage:
        """See `Registry.scopes`."""
        rows = await self._writer.run(lambda db: records.page(db, after, limit))
        return ScopePage(rows, rows[-1].scope if len(rows) == limit else None)

    async def reset(self, scope: Scope, era: Era, reason: str) -> Mark | None:
        """See `Registry.reset`."""

        def step(db: sqlite3.Connection) -> Mark | None:
            before = records.load(db, scope)
            reset = ledger.reset(before, era)
            records.save(db, scope, before, reset.record)
            records.tell(db, scope, reset.record.mark, reset.told)
            told.extend(generation for _, generation in reset.told)
            if reset.done is not None:
                db.execute(
                    "INSERT INTO audit (scope, action, reason, before, after)"
                    " VALUES (?, 'reset', ?, ?, ?)",
                    (scope, reason, repr(before.mark.rank), repr(reset.done.rank)),
                )
            return reset.done

        told: list[Generation] = []
        done = await self._writer.run(step)
        self._ring(told)
        return done

    async def recall(self, scope: Scope, mark: Mark) -> Mark:
        """See `Registry.recall`."""

        def step(db: sqlite3.Connection) -> Mark:
            before = records.load(db, scope)
            after = ledger.recalled(before, mark)
            records.save(db, scope, before, after)
            return after.mark

        return await self._writer.run(step)

    async def identity(self) -> Identity:
        """See `Registry.identity`: an id stored in the file; one host, so no grace is needed."""
        return Identity(self._identity, vouched=True)

    async def vouch(self, incarnation: str) -> None:
        """See `Registry.vouch`: nobody needs to."""

    async def probe(self) -> tuple[str, ...]:
        """See `Registry.probe`: a durable commit goes through."""
        # A transaction that changes nothing writes nothing: a full disk would take it.
        await self._writer.run(
            lambda db: (
                db.execute(
                    "INSERT INTO meta VALUES ('probed', '1') ON CONFLICT (name)"
                    " DO UPDATE SET value = CAST(value AS INTEGER) + 1"
                ).rowcount
            )
        )
        return ()

    async def aclose(self) -> None:
        """See `Registry.aclose`."""
        self._bell.close()
        self._writer.close()
        self._lock.release()


def _end(db: sqlite3.Connection, generation: Generation) -> None:
    db.execute("DELETE FROM members WHERE generation = ?", (generation,))
    db.execute("DELETE FROM registrations WHERE generation = ?", (generation,))
    db.execute("DELETE FROM inbox WHERE generation = ?", (generation,))
    db.execute("DELETE FROM agreed_rules WHERE generation = ?", (generation,))


def _prepare(db: sqlite3.Connection) -> str:
    """Create the tables; refuse a file that a later release wrote. Returns the identity."""
    db.executescript(resources.files(__package__).joinpath("schema.sql").read_text())
    db.execute("INSERT OR IGNORE INTO meta VALUES ('identity', ?)", (uuid4().hex,))
    db.execute("INSERT OR IGNORE INTO meta VALUES ('schema', ?)", (_SCHEMA_VERSION,))
    found = dict(db.execute("SELECT name, value FROM meta").fetchall())
    if found["schema"] != _SCHEMA_VERSION:
        raise sqlite3.DatabaseError(
            f"it has schema {found['schema']}, this release knows {_SCHEMA_VERSION}:"
            " use the release that wrote it, or a later one"
        )
    return str(found["identity"])
