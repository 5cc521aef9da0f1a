"""Writers that race for scopes with rising tokens, while everything stalls at random.

The same race is run with the store and with forms of the fence that are known to fail, so that a
race in which nothing fails is not taken for a proof.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import asyncpg

from gateway.model.mark import Scope
from gateway.ports.store import CarryFailed, FencedByStore, NotWritten, Written
from gateway.stores.postgres.store import PostgresStore
from tests.conformance.postgres.journal import CommitJournal, Effect, Transaction
from tests.conformance.postgres.requests import (
    NoBody,
    delete,
    fence,
    insert,
    mark_at,
    operation,
    update,
)

SCOPES = ("red", "green", "blue")
ROWS_PER_SCOPE = 6
WORKERS = 16
STALL_S = 0.012
RAISE_TRIES = 20

TABLE = """
CREATE TABLE items (id bigint PRIMARY KEY, scope text NOT NULL, tok bigint NOT NULL);
"""
STALLS = f"""
CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF random() < 0.25 THEN PERFORM pg_sleep(random() * {STALL_S}); END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER stall_before BEFORE INSERT OR UPDATE OR DELETE ON items
    FOR EACH STATEMENT EXECUTE FUNCTION stall();
CREATE TRIGGER stall_after AFTER INSERT OR UPDATE OR DELETE ON items
    FOR EACH ROW EXECUTE FUNCTION stall();
"""
"""Stalls inside the statement: between the check and the change, and before the commit."""


@dataclass(frozen=True, slots=True)
class Job:
    """One change that a worker wants: `verb` insert, update or delete of the row `key`."""

    write_id: str
    scope: str
    token: int
    verb: str
    key: int


class Form(Protocol):
    """A way to fence."""

    async def raise_mark(self, scope: str, token: int) -> None:
        """Make this token the scope's mark."""
        ...

    async def write(self, job: Job) -> bool:
        """Do the job; False when it was refused as stale."""
        ...


class StoreForm:
    """The store itself: two of them, as two replicas would have."""

    def __init__(self, stores: list[PostgresStore]) -> None:
        self._stores = stores

    async def raise_mark(self, scope: str, token: int) -> None:
        """Carry the mark; again, as an engine would, where that failed."""
        for _ in range(RAISE_TRIES):
            with suppress(CarryFailed):
                await random.choice(self._stores).carry(Scope(scope), mark_at(token))
                return
        raise AssertionError(f"{scope} could not be raised to {token}")

    async def write(self, job: Job) -> bool:
        """One write, and what the store says of it."""
        actions = {
            "insert": insert("items", id=job.key, scope=job.scope, tok=job.token),
            "update": update("items", job.key, tok=job.token),
            "delete": delete("items", job.key),
        }
        result = await random.choice(self._stores).write(
            operation(actions[job.verb], token=job.token),
            NoBody(),
            fence(mark_at(job.token), scope=job.scope, write_id=job.write_id),
        )
        if isinstance(result, FencedByStore | NotWritten):
            assert not isinstance(result, NotWritten) or result.problem.code == "busy", result
            return False
        assert isinstance(result, Written), result
        return True


class SqlForm:
    """A form of the fence as plain SQL statements on a pool of connections."""

    def __init__(self, pool: Any, run: Callable[[Any, Job], Awaitable[bool]]) -> None:
        self._pool = pool
        self._run = run

    async def raise_mark(self, scope: str, token: int) -> None:
        """Raise the mark in a statement of its own."""
        await self._pool.execute(
            "INSERT INTO marks VALUES ($1, $2) ON CONFLICT (scope) DO UPDATE "
            "SET token = EXCLUDED.token WHERE marks.token < EXCLUDED.token",
            scope,
            token,
        )

    async def write(self, job: Job) -> bool:
        """Run the form. These forms know updates only."""
        async with self._pool.acquire() as connection:
            return await self._run(connection, job)


async def unlocked_subselect(connection: Any, job: Job) -> bool:
    """One UPDATE that reads the mark in a sub-select, without a lock."""
    done = await connection.execute(
        "UPDATE items SET tok = $2 WHERE id = $1 "
        "AND $2 >= (SELECT token FROM marks WHERE scope = $3)",
        job.key,
        job.token,
        job.scope,
    )
    return bool(done == "UPDATE 1")


async def check_then_write(connection: Any, job: Job) -> bool:
    """Read the mark, compare, then write: what a middleware in front of a database does."""
    token = await connection.fetchval("SELECT token FROM marks WHERE scope = $1", job.scope)
    if job.token < token:
        return False
    await stall()
    done = await connection.execute("UPDATE items SET tok = $2 WHERE id = $1", job.key, job.token)
    return bool(done == "UPDATE 1")


async def stall() -> None:
    """Now and then, wait a little."""
    if random.random() < 0.3:
        await asyncio.sleep(random.random() * STALL_S)


@dataclass(slots=True)
class Race:
    """The workers, the tokens they hold, and what they were told."""

    form: Form
    verbs: tuple[str, ...] = ("update", "update", "insert", "delete")
    jobs: dict[str, Job] = field(default_factory=dict)
    accepted: int = 0
    refused: int = 0
    late_acknowledgements: int = 0
    _issued: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SCOPES, 1))
    _tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SCOPES, 1))
    _acknowledged: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SCOPES, 0))
    _extra: dict[str, list[int]] = field(default_factory=lambda: {scope: [] for scope in SCOPES})
    _next_key: int = 1_000

    async def run(self, until: Callable[[Race], bool], deadline_s: float) -> None:
        """Race until the condition holds, at most this long."""
        for scope in SCOPES:
            await self.form.raise_mark(scope, 1)
        async with asyncio.timeout(deadline_s):
            await asyncio.gather(*(self._work(until) for _ in range(WORKERS)))

    async def _work(self, until: Callable[[Race], bool]) -> None:
        while not until(self):
            scope = random.choice(SCOPES)
            token = self._tokens[scope]
            dice = random.random()
            if dice < 0.06:
                token = self._issued[scope] = self._issued[scope] + 1
                await self.form.raise_mark(scope, token)
                self._tokens[scope] = max(self._tokens[scope], token)
            elif dice < 0.40:
                token = max(1, token - random.choice((1, 1, 2)))
            await self._do(self._job(scope, token))

    def _job(self, scope: str, token: int) -> Job:
        verb, extra = random.choice(self.verbs), self._extra[scope]
        if verb == "insert":
            self._next_key += 1
            key = self._next_key
        elif verb == "delete" and extra:
            key = extra.pop(random.randrange(len(extra)))
        else:
            verb, key = "update", SCOPES.index(scope) * 100 + random.randrange(ROWS_PER_SCOPE)
        return Job(uuid.uuid4().hex, scope, token, verb, key)

    async def _do(self, job: Job) -> None:
        self.jobs[job.write_id] = job
        known = self._acknowledged[job.scope]
        await stall()
        if not await self.form.write(job):
            self.refused += 1
            return
        self.accepted += 1
        self.late_acknowledgements += job.token < known
        self._acknowledged[job.scope] = max(self._acknowledged[job.scope], job.token)
        if job.verb == "insert":
            self._extra[job.scope].append(job.key)


async def prepare(dsn: str, journal: CommitJournal) -> None:
    """The table with its rows and its stalls, and the marks of the plain forms."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(TABLE)
    await connection.execute("CREATE TABLE marks (scope text PRIMARY KEY, token bigint NOT NULL)")
    rows = [
        (index * 100 + row, scope, 0)
        for index, scope in enumerate(SCOPES)
        for row in range(ROWS_PER_SCOPE)
    ]
    await connection.executemany("INSERT INTO items VALUES ($1, $2, $3)", rows)
    await connection.execute(STALLS)
    await connection.close()
    await journal.transactions()  # the race begins behind the rows above


async def effects_by_row(journal: CommitJournal) -> list[Effect]:
    """Effects by the token that each row carries. Deletes show none, so they are left out."""
    found = []
    for transaction in await journal.transactions():
        for change in transaction.changes:
            scope, token = change.text("scope"), change.integer("tok")
            if change.table == "public.items" and scope is not None and token is not None:
                found.append(Effect(scope, token))
    return found


def effects_by_request(transactions: list[Transaction], jobs: dict[str, Job]) -> list[Effect]:
    """Effects by the write id that the store recorded in the same transaction.

    Every change of a row must have one, and a row that shows its token must show that job's.
    """
    found = []
    for transaction in transactions:
        items = [change for change in transaction.changes if change.table == "public.items"]
        ids = [
            change.text("write_id")
            for change in transaction.changes
            if change.table == "fencegate.request"
        ]
        if not items:
            continue
        assert len(items) == len(ids) == 1, transaction
        job = jobs[ids[0] or ""]
        assert items[0].verb == job.verb.upper(), transaction
        assert items[0].integer("tok") in (None, job.token), transaction
        found.append(Effect(job.scope, job.token))
    return found
