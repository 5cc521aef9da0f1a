"""The redis registry over several real servers: replicas that are waited for, cluster, Sentinel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from gateway.model.claim import Claim, Claimed, Identity, RegistrationId, ReplicaId
from gateway.model.mark import Era, Scope
from gateway.model.token import Token
from gateway.ports.registry import RegistryUnavailable
from gateway.registries.redis import RedisRegistry, redis_client
from gateway.registries.redis.shards import Fence, Shards
from gateway.testing.registry_contract import REGISTRY_LAWS, Law
from tests.services.server_process import wait_until
from tests.services.valkey import Sentinel, Valkey, form_cluster, until_told

SCOPE, REPLICA = Scope("s"), ReplicaId("r")
LOGGED = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
Serve = Callable[..., Valkey]


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Starts servers, and kills those that are left."""
    started: list[Valkey] = []

    def start(*arguments: str) -> Valkey:
        server = Valkey(tmp_path_factory.mktemp("valkey"), *arguments)
        server.process.start()
        started.append(server)
        return server

    yield start
    for server in started:
        if server.process.running():
            server.process.kill()


@pytest.fixture
def primary(serve: Serve) -> Valkey:
    return serve(*LOGGED)


@pytest.fixture
def replica(serve: Serve, primary: Valkey) -> Valkey:
    """It keeps a log too, and is in step with the primary."""
    made = serve(*LOGGED, "--replicaof", "127.0.0.1", str(primary.port))
    until_told(primary, "replication", "state=online")
    return made


def registry_of(url: str, fence: Fence | None = None, *, timeout_s: float = 20) -> RedisRegistry:
    return RedisRegistry(redis_client(url, timeout_s=timeout_s), prefix="fg", fence=fence)


def waits(*, aof: bool = True, replicas: int = 1, timeout_ms: int = 15_000) -> Fence:
    return Fence(aof=aof, replicas=replicas, timeout_ms=timeout_ms)


def claim(generation: str, token: int) -> Claim:
    registration = RegistrationId(f"{generation}.{token}")
    return Claim(SCOPE, Era(1), Token(token), None, REPLICA, generation, registration)  # type: ignore[arg-type]


def mark_at(server: Valkey) -> str:
    """The token of the scope's mark in that very server."""
    shard = Shards(Redis(), "fg").of(SCOPE)
    raw = server.command("HGET", f"{{fg:{shard}}}:marks", SCOPE)
    return raw.split()[1] if " " in raw else ""


async def until(condition: Callable[[], bool], what: str, deadline_s: float = 20) -> None:
    """Wait in a thread, so that what is to be seen can happen here."""
    await asyncio.to_thread(wait_until, condition, deadline_s, what)


@pytest.mark.parametrize("aof", [True, False])
async def test_a_raise_is_answered_when_the_replica_has_it(
    primary: Valkey, replica: Valkey, aof: bool
) -> None:
    """Rule 10: the primary has it, the paused replica not: no answer, until it goes on."""
    registry = registry_of(primary.url, waits(aof=aof))
    generation = await registry.join(REPLICA)
    assert isinstance(await registry.claim(claim(generation, 1)), Claimed)
    assert mark_at(replica) == "1"
    replica.process.pause()
    raising = asyncio.create_task(registry.claim(claim(generation, 2)))
    await until(lambda: mark_at(primary) == "2", "the primary has it")
    assert not raising.done()
    replica.process.resume()
    assert isinstance(await raising, Claimed)
    assert mark_at(replica) == "2"
    await registry.aclose()


@pytest.mark.parametrize(
    "aof, missing", [(True, "0 of 1 replicas have it in their logs"), (False, "0 of 1 replicas")]
)
async def test_a_raise_that_is_not_held_says_what_is_missing(
    primary: Valkey, replica: Valkey, aof: bool, missing: str
) -> None:
    """Fail closed: no claim while the replica is away; then the same one is answered.

    The control: a registry that does not wait answers all the same.
    """
    registry = registry_of(primary.url, waits(aof=aof, timeout_ms=300))
    generation = await registry.join(REPLICA)
    replica.process.pause()
    for _ in range(2):
        with pytest.raises(RegistryUnavailable, match=f"{missing}.*registry.replicas"):
            await registry.claim(claim(generation, 1))
    careless = registry_of(primary.url)
    assert isinstance(await careless.claim(claim(generation, 1)), Claimed)
    replica.process.resume()
    patient = registry_of(primary.url, waits(aof=aof))
    assert isinstance(await patient.claim(claim(generation, 1)), Claimed)
    for one in (registry, careless, patient):
        await one.aclose()


async def test_a_log_that_is_not_kept_cannot_be_waited_for(serve: Serve) -> None:
    """aof = true on a server without an append-only file: no claim, and the reason."""
    server = serve("--appendonly", "no", "--save", "")
    registry = registry_of(server.url, waits(replicas=0))
    generation = await registry.join(REPLICA)
    with pytest.raises(RegistryUnavailable, match="appendonly"):
        await registry.claim(claim(generation, 1))
    await registry.aclose()


async def test_each_risk_of_the_servers_is_told(primary: Valkey, serve: Serve) -> None:
    """Weak log, no replica, a replica that is not waited for; nothing where raises wait for it."""

    async def told(fence: Fence | None = None) -> str:
        registry = registry_of(primary.url, fence)
        lines = await registry.probe()
        await registry.aclose()
        return "\n".join(lines)

    alone = await told()
    assert "appendfsync always" in alone
    assert "has no replica" in alone
    assert "has no replica" in await told(waits(replicas=0))
    assert "appendfsync" not in await told(waits(replicas=0))
    primary.command("CONFIG", "SET", "appendfsync", "always")
    assert "appendfsync" not in await told()
    serve("--replicaof", "127.0.0.1", str(primary.port))
    until_told(primary, "replication", "state=online")
    followed = await told()
    assert "has no replica" not in followed
    assert "registry.replicas = 1" in followed
    assert await told(waits()) == ""


@pytest.fixture(scope="module")
def cluster_url(serve: Serve) -> str:
    servers = [serve("--cluster-enabled", "yes", "--save", "") for _ in range(3)]
    form_cluster(servers)
    return servers[0].url


@pytest.fixture
async def cluster(cluster_url: str) -> AsyncIterator[RedisRegistry]:
    client = redis_client(cluster_url, cluster=True, timeout_s=5)
    made = RedisRegistry(client, prefix=uuid4().hex[:8])
    yield made
    await made.aclose()


@pytest.mark.parametrize("law", REGISTRY_LAWS, ids=lambda law: law.__name__)
async def test_a_cluster_keeps_the_contract(law: Law, cluster: RedisRegistry) -> None:
    """Three servers that share the shards: each law of the shipped contract holds."""
    await law(cluster)


async def test_the_risks_of_a_cluster_are_told(cluster: RedisRegistry) -> None:
    """Each once, for three servers of the same kind; nothing that a cluster does not take."""
    told = await cluster.probe()
    assert ["appendfsync" in told[0], "has no replica" in told[1]] == [True, True]
    assert len(told) == 2
    assert "registry." not in "".join(told)


async def identity_of(registry: RedisRegistry) -> Identity:
    """Once it can be reached."""
    async with asyncio.timeout(40):
        while True:
            with suppress(RegistryUnavailable):
                return await registry.identity()
            await asyncio.sleep(0.05)


async def test_a_fail_over_by_sentinel_is_another_incarnation(
    primary: Valkey, replica: Valkey, tmp_path: Path
) -> None:
    """SIGKILL of the primary: the registry finds the new one, whose identity is no more vouched.

    What a raise waited for is there, and the contract holds on.
    """
    sentinel = Sentinel(tmp_path, "fg", primary)
    sentinel.process.start()

    def found(prefix: str) -> RedisRegistry:
        client = redis_client(sentinel.url, sentinel_service="fg", timeout_s=5)
        return RedisRegistry(client, prefix=prefix, fence=waits() if prefix == "fg" else None)

    registry = found("fg")
    before = await registry.identity()
    await registry.vouch(before.id)
    generation = await registry.join(REPLICA)
    await registry.claim(claim(generation, 7))
    sentinel.until_it_knows(1)
    primary.process.kill()
    after = await identity_of(registry)
    assert after.id != before.id
    assert not after.vouched
    row = await registry.scope(SCOPE)
    assert row is not None
    assert row.mark.token == 7
    assert not await registry.beat(REPLICA, generation), "a member of the earlier incarnation"
    await registry.aclose()
    for law in REGISTRY_LAWS:
        fresh = found(uuid4().hex[:8])
        await law(fresh)
        await fresh.aclose()
    sentinel.process.kill()
