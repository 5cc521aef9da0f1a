"""Stores on fresh databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest
import uvloop

from gateway.model.mark import Scope
from gateway.stores.postgres.store import PostgresStore
from tests.conformance.postgres.journal import CommitJournal
from tests.conformance.postgres.requests import mark_at
from tests.conformance.postgres.wire import Wire

STANDARD_LOOP = {"asyncio": asyncio.new_event_loop}
SERVED_LOOP = {"uvloop": uvloop.new_event_loop}
ON_BOTH_LOOPS = {"test_postgres_commit_order", "test_postgres_lost_answers"}


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the product is served with; where the order of events is the law, both."""
    if "step" in item.name:  # looks into a transport, which uvloop does not allow
        return STANDARD_LOOP
    both = item.path.stem in ON_BOTH_LOOPS
    return {**STANDARD_LOOP, **SERVED_LOOP} if both else SERVED_LOOP


@dataclass(frozen=True, slots=True)
class Rules:
    """A table's settings."""

    version_column: str | None = None


OpenStore = Callable[..., Awaitable[PostgresStore]]


@pytest.fixture
async def open_store(postgres_dsn: str) -> AsyncIterator[OpenStore]:
    """Makes stores on the test's database: `await open_store({"jobs": "version"})`."""
    opened: list[PostgresStore] = []

    async def make(
        tables: dict[str, str | None], *, dsn: str = postgres_dsn, probe: bool = True, **more: Any
    ) -> PostgresStore:
        rules = {table: Rules(version) for table, version in tables.items()}
        store = PostgresStore("db", dsn, tables=rules, **more)
        opened.append(store)
        if probe:
            await store.migrate()
            await store.probe()
        return store

    yield make
    for store in opened:
        await store.aclose()


@pytest.fixture
async def journal(postgres_dsn: str) -> AsyncIterator[CommitJournal]:
    """Records the commits of the test's database from here on."""
    started = await CommitJournal.start(postgres_dsn)
    yield started
    await started.aclose()


@pytest.fixture
async def wire(postgres_dsn: str) -> AsyncIterator[tuple[Wire, str]]:
    """A wire to the test's database, and the DSN through it."""
    started, dsn = await Wire.start(postgres_dsn)
    yield started, dsn
    await started.aclose()


@pytest.fixture
async def raw(postgres_dsn: str) -> AsyncIterator[Any]:
    """A plain connection to the test's database: another client, which knows of no gateway."""
    connection = await asyncpg.connect(postgres_dsn)
    yield connection
    await connection.close()


JOBS = """
CREATE TABLE jobs (
    id integer PRIMARY KEY, name text NOT NULL DEFAULT '', state text, version integer NOT NULL
);
INSERT INTO jobs SELECT g, 'job ' || g, 'new', 1 FROM generate_series(1, 5) AS g;
"""


@pytest.fixture
async def jobs(raw: Any, open_store: OpenStore) -> PostgresStore:
    """A store with five jobs, whose scope `jobs` is at token 1."""
    await raw.execute(JOBS)
    store = await open_store({"jobs": "version"})
    await store.carry(Scope("jobs"), mark_at(1))
    return store
