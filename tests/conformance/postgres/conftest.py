"""Stores on fresh databases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.stores.postgres.store import PostgresStore
from tests.conformance.postgres.journal import CommitJournal


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
