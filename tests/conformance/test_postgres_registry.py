"""What only the `postgres` registry promises: durability over weak defaults, and clear errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import asyncpg
import pytest

from gateway.model.claim import Claim, Claimed, RegistrationId, ReplicaId
from gateway.model.mark import Era, Scope
from gateway.model.token import Token
from gateway.ports.registry import RegistryUnavailable
from gateway.registries.postgres import PostgresRegistry
from tests.services.postgres import PostgresServer
from tests.services.registries import SharedPostgres

REPLICA = ReplicaId("r")


async def raise_to(registry: PostgresRegistry, token: int) -> Claimed:
    """Claim a token, and see it raised."""
    generation = await registry.join(REPLICA)
    registration = RegistrationId(str(token))
    claim = Claim(Scope("s"), Era(1), Token(token), None, REPLICA, generation, registration)
    answer = await registry.claim(claim)
    assert isinstance(answer, Claimed)
    return answer


async def test_a_raise_is_durable_where_the_default_is_not(postgres_dsn: str) -> None:
    """The role commits without waiting; the steps that must last do not (rule 10)."""
    registry = PostgresRegistry(postgres_dsn, timeout_s=5)
    await registry.probe()
    connection = await asyncpg.connect(postgres_dsn)
    await connection.execute("SET synchronous_commit = off")
    steps = {
        "claim('s', 1, 5, NULL, 'r', 'g', 'id', NULL)": True,
        "recall('s', 1, 7, false, NULL)": True,
        "reset('s', 1, 'test')": True,
        "finish('r', 'g', NULL)": True,
        "incarnation()": False,
    }
    await connection.execute(
        "INSERT INTO fencegate.members SELECT 'g', 'r', 0, fencegate.incarnation()"
    )
    for step, lasts in steps.items():
        async with connection.transaction():
            await connection.fetch(f"SELECT fencegate.{step}")
            found = await connection.fetchval("SHOW synchronous_commit")
        assert (found == "on") is lasts, step
    await connection.close()
    await registry.aclose()


async def test_a_raise_outlives_a_crash(new_postgres: Callable[[], PostgresServer]) -> None:
    """An immediate shut-down behind an answered raise: the mark stands, the incarnation stays."""
    server = new_postgres()
    server.psql("ALTER ROLE postgres SET synchronous_commit = off")
    registry = PostgresRegistry(server.dsn(), timeout_s=5)
    for token in range(1, 20):
        await raise_to(registry, token)
    before = await registry.identity()
    server.crash()
    server.restart()
    with suppress(RegistryUnavailable):  # the connections of before
        await registry.probe()
    row = await registry.scope(Scope("s"))
    assert row is not None
    assert row.mark.token == 19
    assert await registry.identity() == before
    await registry.aclose()


async def test_an_emptied_database_is_another_incarnation(postgres_dsn: str) -> None:
    """Rule 9: what was dropped is made again, and nobody takes it for what was there before."""
    registry = PostgresRegistry(postgres_dsn, timeout_s=5)
    generation = await registry.join(REPLICA)
    before = await registry.identity()
    await registry.vouch(before.id)
    connection = await asyncpg.connect(postgres_dsn)
    await connection.execute("DROP SCHEMA fencegate CASCADE")
    await connection.close()
    with pytest.raises(RegistryUnavailable):
        await registry.beat(REPLICA, generation)
    after = await registry.identity()
    assert after.id != before.id
    assert not after.vouched
    assert not await registry.beat(REPLICA, generation)
    await registry.aclose()


async def test_two_schemas_share_a_database(postgres_dsn: str) -> None:
    """Gateways with different schemas know nothing of each other."""
    one = PostgresRegistry(postgres_dsn, timeout_s=5)
    two = PostgresRegistry(postgres_dsn, schema="Other_1", timeout_s=5)
    await raise_to(one, 9)
    assert await two.scope(Scope("s")) is None
    assert (await raise_to(two, 1)).mark.token == 1
    await one.aclose()
    await two.aclose()


async def test_a_later_schema_is_left_alone(postgres_dsn: str) -> None:
    """Tables of a later release are refused with both versions, and not touched."""
    registry = PostgresRegistry(postgres_dsn, timeout_s=5)
    await registry.probe()
    await registry.aclose()
    connection = await asyncpg.connect(postgres_dsn)
    await connection.execute("UPDATE fencegate.meta SET value = '99' WHERE name = 'schema'")
    await connection.close()
    again = PostgresRegistry(postgres_dsn, timeout_s=5)
    with pytest.raises(RegistryUnavailable, match="has version 99, this release knows 2"):
        await again.probe()
    await again.aclose()


@pytest.mark.parametrize(
    "change, match",
    [
        ((":5", ":1"), "127.0.0.1"),
        (("/t_", "/nowhere_"), "does not exist"),
    ],
)
async def test_an_unusable_address_is_named_without_its_password(
    change: tuple[str, str], match: str, postgres_dsn: str
) -> None:
    """Where, and what the server said; the secret is not repeated."""
    url = postgres_dsn.replace("postgres@", "postgres:s3cret@")
    if change[0] == ":5":
        host, _, rest = url.rpartition(":")
        url = f"{host}:1/{rest.partition('/')[2]}"
    else:
        url = url.replace(*change)
    registry = PostgresRegistry(url, timeout_s=5)
    with pytest.raises(RegistryUnavailable, match=match) as failed:
        await registry.probe()
    assert "s3cret" not in str(failed.value)
    await registry.aclose()


async def test_a_silent_server_keeps_no_connection(
    new_postgres: Callable[[], PostgresServer],
) -> None:
    """Steps on connections that were in use before are late in time, again and again."""
    server = SharedPostgres(postgres := new_postgres())
    registry = PostgresRegistry(postgres.dsn(), timeout_s=0.5)
    generation = await registry.join(REPLICA)
    await asyncio.gather(*(registry.identity() for _ in range(8)))  # all connections are open
    server.pause()
    try:
        for _ in range(6):  # more often than there are connections
            with pytest.raises(RegistryUnavailable, match=r"no answer within 0\.5 s"):
                async with asyncio.timeout(30):
                    await registry.beat(REPLICA, generation)
    finally:
        server.resume()
    assert await registry.beat(REPLICA, generation)
    await registry.aclose()
