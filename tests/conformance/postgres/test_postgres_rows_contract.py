"""The rows contract on real PostgreSQL."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.model.operation import Operation
from gateway.ports.body import Body
from gateway.ports.store import WriteFence, WriteResult
from gateway.stores.postgres.store import PostgresStore
from gateway.testing.rows_contract import KIT_SETTINGS, KIT_TABLES, ROWS_LAWS, RowsLaw
from tests.conformance.postgres.conftest import OpenStore
from tests.conformance.postgres.journal import CommitJournal

STALL_S = 0.012
SET_UP = f"""
ALTER TABLE effects REPLICA IDENTITY FULL;
CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF random() < 0.25 AND current_setting('application_name') LIKE 'fencegate%' THEN
        PERFORM pg_sleep(random() * {STALL_S});
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER stall_before BEFORE INSERT OR UPDATE OR DELETE ON effects
    FOR EACH STATEMENT EXECUTE FUNCTION stall();
CREATE TRIGGER stall_after AFTER INSERT OR UPDATE OR DELETE ON effects
    FOR EACH ROW EXECUTE FUNCTION stall();
"""


class StallingStore(PostgresStore):
    """The store, on a machine that is late now and then: between admission and statement."""

    chance: random.Random | None = None

    async def write(self, operation: Operation, body: Body, fence: WriteFence) -> WriteResult:
        """Write, sometimes a little later."""
        if self.chance is not None and self.chance.random() < 0.3:
            await asyncio.sleep(self.chance.random() * STALL_S)
        return await super().write(operation, body, fence)


@dataclass(slots=True)
class Harness:
    """One database with the kit's tables."""

    dsn: str
    raw: Any
    journal: CommitJournal
    stores: list[StallingStore]

    async def open(self) -> PostgresStore:
        """Another replica."""
        store = StallingStore("db", self.dsn, tables=KIT_SETTINGS)
        self.stores.append(store)
        await store.migrate()
        await store.probe()
        return store

    async def execute(self, sql: str) -> None:
        """As another client."""
        await self.raw.execute(sql)

    async def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """As another client."""
        return [tuple(row) for row in await self.raw.fetch(sql)]

    async def effects(self) -> list[int]:
        """Owners of changed rows in the order of the write-ahead log."""
        owners = [
            change.integer("owner")
            for transaction in await self.journal.transactions()
            for change in transaction.changes
            if change.table == "public.effects"
        ]
        assert None not in owners
        return [owner for owner in owners if owner is not None]

    def stall(self, seed: int) -> None:
        """The table's triggers stall writes of stores anyway; now the stores themselves do too."""
        for number, store in enumerate(self.stores):
            store.chance = random.Random(seed + number)


@pytest.fixture
async def harness(postgres_dsn: str, raw: Any, journal: CommitJournal) -> AsyncIterator[Harness]:
    """A new database for each law."""
    for sql in (*KIT_TABLES.values(), SET_UP):
        await raw.execute(sql)
    made = Harness(postgres_dsn, raw, journal, [])
    yield made
    for store in made.stores:
        await store.aclose()


@pytest.mark.parametrize("law", ROWS_LAWS, ids=lambda law: law.__name__)
async def test_the_store_keeps(law: RowsLaw, harness: Harness) -> None:
    """Every law that holds for the other engines holds here."""
    await law(harness)


def test_laws_are_not_lost() -> None:
    """The kit has not shrunk unnoticed, and commit order is in it."""
    assert len(ROWS_LAWS) >= 30
    assert "check_commit_order" in {law.__name__ for law in ROWS_LAWS}


def test_stores_are_opened_alike(open_store: OpenStore) -> None:
    """The store under the kit differs from the shipped one by its stalls alone."""
    assert set(vars(StallingStore)) <= {
        "__doc__",
        "__module__",
        "__annotations__",
        "__firstlineno__",
        "__static_attributes__",
        "chance",
        "write",
    }
