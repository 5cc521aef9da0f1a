"""How the servers could lose a raise that was answered: what an operator is told at the start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from redis.asyncio import RedisCluster

from gateway.registries.redis.shards import FAILURES, Client, Fence

_DURABLE: Final = ("yes", "always")
_Facts = Mapping[Any, Any]


async def risks(client: Client, fence: Fence) -> tuple[str, ...]:
    """Each way once, whichever primary has it. What a managed service hides is not told."""
    found: dict[str, None] = {}
    cluster = isinstance(client, RedisCluster)
    for at in await _primaries(client):
        config: _Facts = {}
        state: _Facts = {}
        with suppress(*FAILURES):
            config = await client.config_get("append*", **at)
        with suppress(*FAILURES):
            state = await client.info("replication", **at)
        found |= dict.fromkeys(_risks(config, state, fence, cluster=cluster))
    return tuple(found)


async def _primaries(client: Client) -> list[dict[str, Any]]:
    """What to add to a command so that it goes to each of them."""
    if not isinstance(client, RedisCluster):
        return [{}]
    return [{"target_nodes": node} for node in client.get_primaries()]


def _risks(config: _Facts, state: _Facts, fence: Fence, *, cluster: bool) -> Iterator[str]:
    log = config.get("appendonly"), config.get("appendfsync")
    if config and not fence.waits and log != _DURABLE:
        instead = "" if cluster else ", or registry.aof, or registry.replicas"
        yield (
            "the registry's Redis may lose raises in a crash, and a stale holder could then "
            f'write: set "appendonly yes" and "appendfsync always" there{instead}'
        )
    if not state or fence.replicas:
        return
    if not int(state.get("connected_slaves", 0)):
        wait = "" if cluster else ", and registry.replicas = 1"
        yield (
            "the registry's Redis has no replica: with its disk all marks are lost, and stale "
            f"holders could then write to stores that keep none: give it one{wait}"
        )
    elif cluster:
        yield (
            "a fail-over of the registry's Redis Cluster may lose the last raises, which do not "
            "wait for replicas there; one server with registry.replicas = 1 waits"
        )
    else:
        yield (
            "a fail-over of the registry's Redis may lose the last raises, which do not wait for "
            "its replicas: set registry.replicas = 1"
        )
