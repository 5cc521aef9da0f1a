"""Stores on fresh databases of a real MariaDB."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import asyncmy
import pytest
import uvloop

from gateway.policy.document import TableSettings
from gateway.stores.mariadb.store import MariadbStore
from tests.conformance.mariadb.harness import MariadbHarness
from tests.services.mariadb import MariadbServer

OpenStore = Callable[..., Awaitable[MariadbStore]]


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the product is served with."""
    return {"uvloop": uvloop.new_event_loop}


async def connect(dsn: str, **more: Any) -> Any:
    """A plain connection: another client, which knows of no gateway."""
    parts = urlsplit(dsn)
    return await asyncmy.connect(
        host=parts.hostname,
        port=parts.port,
        user=parts.username,
        password=parts.password,
        database=parts.path[1:],
        autocommit=True,
        **more,
    )


@pytest.fixture
async def raw(mariadb_dsn: str) -> AsyncIterator[Any]:
    """A plain connection to the test's database."""
    connection = await connect(mariadb_dsn)
    yield connection
    connection.close()


@pytest.fixture
async def open_store(mariadb_dsn: str) -> AsyncIterator[OpenStore]:
    """Makes stores on the test's database: `await open_store({"jobs": "version"})`."""
    opened: list[MariadbStore] = []

    async def make(
        tables: dict[str, str | None], *, dsn: str = mariadb_dsn, probe: bool = True, **more: Any
    ) -> MariadbStore:
        rules = {table: TableSettings(version_column=v) for table, v in tables.items()}
        store = MariadbStore("db", dsn, tables=rules, **more)
        opened.append(store)
        if probe:
            await store.migrate()
            await store.probe()
        return store

    yield make
    for store in opened:
        await store.aclose()


@pytest.fixture
async def harness(
    mariadb_dsn: str, mariadb_server: MariadbServer, raw: Any
) -> AsyncIterator[MariadbHarness]:
    """A new database with the kit's tables for each law."""
    made = MariadbHarness(mariadb_dsn, mariadb_server, raw)
    await made.set_up()
    yield made
    await made.aclose()
