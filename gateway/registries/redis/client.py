"""The client: one that fails early, because the engine retries with a deadline of its own."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster, Sentinel
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from gateway.ports.registry import RegistryUnavailable
from gateway.registries.redis.shards import Client

_CONNECTIONS: Final = 32
"""Steps beyond so many wait for each other: a burst of claims is no burst of connections."""


def redis_client(
    url: str, *, cluster: bool = False, sentinel_service: str | None = None, timeout_s: float = 1.5
) -> Client:
    """A client for one server, a cluster, or the primary that a Sentinel names.

    Connects when first used. Raises `RegistryUnavailable` for a URL that cannot be read.
    """
    options: dict[str, Any] = {
        "socket_connect_timeout": timeout_s,
        "socket_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
    }
    try:
        if cluster:
            # 0: a moved slot is learnt alone; else the fifth one cuts off the steps under way
            return RedisCluster.from_url(url, reinitialize_steps=0, **options)
        if sentinel_service is not None:
            return _primary(url, sentinel_service, options)
        pool = BlockingConnectionPool.from_url(
            url, max_connections=_CONNECTIONS, timeout=timeout_s, **options
        )
        return Redis.from_pool(pool)
    except (ValueError, RedisError) as error:
        raise RegistryUnavailable(f"registry.url is not usable: {error}") from error


async def close_client(client: Client) -> None:
    """Close its connections, and those to the Sentinel, which the library leaves open."""
    await client.aclose()
    pool = None if isinstance(client, RedisCluster) else client.connection_pool
    if isinstance(pool, SentinelConnectionPool):
        await pool.sentinel_manager.aclose()


def _primary(url: str, service: str, options: dict[str, Any]) -> Client:
    parts = urlsplit(url)
    options |= {"username": parts.username, "password": parts.password}
    options |= {"db": int(parts.path.strip("/") or 0), "ssl": parts.scheme == "rediss"}
    at = [(parts.hostname or "127.0.0.1", parts.port or 26379)]
    sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]
        at, sentinel_kwargs={"socket_timeout": options["socket_timeout"]}
    )
    found: Client = sentinel.master_for(service, **options)
    return found
