"""The shards: sixteen sets of keys, each on one slot, each stepped by one script (rule 13)."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from importlib import resources
from typing import Any, Final

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import NoScriptError, RedisClusterException, RedisError

from gateway.ports.registry import RegistryUnavailable
from gateway.registries.redis.answers import Answer

SHARDS: Final = 16
Client = Redis | RedisCluster
FAILURES: Final = (RedisError, RedisClusterException, OSError)

_LUA: Final = resources.files(__package__).joinpath("ledger.lua").read_text("utf-8")
_SHA: Final = hashlib.sha1(_LUA.encode(), usedforsecurity=False).hexdigest()


class Shards:
    """Runs the ledger's steps on the shard that owns a scope, or on all of them."""

    def __init__(self, client: Client, prefix: str) -> None:
        self.client = client
        self._keys = tuple(
            tuple(f"{{{prefix}:{n}}}:{name}" for name in _NAMES) for n in range(SHARDS)
        )

    def inbox(self, shard: int, generation: str) -> str:
        """The key of a generation's inbox on a shard; also the channel that rings for it."""
        return self._keys[shard][_NAMES.index("inbox:")] + generation

    def of(self, scope: str) -> int:
        """The shard that owns a scope."""
        return zlib.crc32(scope.encode()) % SHARDS

    async def step(self, shard: int, name: str, *arguments: str | int) -> Answer:
        """Run one step. Raises `RegistryUnavailable`."""
        return await self._run(self.client, shard, name, arguments)

    async def everywhere(self, name: str, *arguments: str | int) -> list[Answer]:
        """Run one step on every shard; one round trip where one server has them all."""
        if isinstance(self.client, RedisCluster):
            steps = (self.step(shard, name, *arguments) for shard in range(SHARDS))
            return list(await asyncio.gather(*steps))
        try:
            async with self.client.pipeline(transaction=False) as pipe:
                for keys in self._keys:
                    pipe.evalsha(_SHA, len(keys), *keys, name, *arguments)
                return list(await pipe.execute())
        except NoScriptError:
            await self.step(0, name, *arguments)
            return await self.everywhere(name, *arguments)
        except FAILURES as error:
            raise unavailable(name, error) from error

    async def durably(self, shard: int, name: str, *arguments: str | int, fence: Fence) -> Answer:
        """Run one step, and what makes its write durable behind it, on one connection."""
        if not fence.waits or isinstance(self.client, RedisCluster):
            return await self.step(shard, name, *arguments)
        async with self.client.client() as single:
            answer = await self._run(single, shard, name, arguments)
            try:
                await fence.hold(single)
            except FAILURES as error:
                raise unavailable(name, error) from error
            return answer

    async def _run(
        self, client: Client, shard: int, name: str, arguments: tuple[str | int, ...]
    ) -> Answer:
        keys = self._keys[shard]
        run: Any = client.evalsha
        source = _SHA
        try:
            if isinstance(client, RedisCluster):
                await client.initialize()  # before that it does not send scripts by their keys
            try:
                answer = await run(source, len(keys), *keys, name, *arguments)
            except NoScriptError:
                run = client.eval
                answer = await run(_LUA, len(keys), *keys, name, *arguments)
        except FAILURES as error:
            raise unavailable(name, error) from error
        return list(answer)


_NAMES: Final = ("marks", "members", "vouched", "inbox:", "audit", "rules")


class Fence:
    """What a raise waits for after its script: the log on disk, and copies elsewhere (rule 10).

    `aof`: WAITAOF (Redis 7.2): the local append-only file is synced. `replicas`: so many replicas
    have it, in their logs by WAITAOF or in memory by WAIT (redis.io, "WAITAOF" and "WAIT").
    `timeout_ms` is shorter than that of the client, which would hide what was missing.
    """

    def __init__(self, *, aof: bool, replicas: int, timeout_ms: int) -> None:
        self._aof = aof
        self.replicas = replicas
        self._timeout_ms = timeout_ms

    @property
    def waits(self) -> bool:
        """True when there is anything to wait for."""
        return self._aof or self.replicas > 0

    async def hold(self, single: Redis) -> None:
        """Wait on the connection that wrote. Raises `RegistryUnavailable` when it is not held."""
        if self._aof:
            local, copies = await single.waitaof(1, self.replicas, self._timeout_ms)
        else:
            local = 1
            copies = await single.wait(self.replicas, self._timeout_ms)
        if local < 1 or copies < self.replicas:
            log = f"its log was {'synced' if local else 'not synced'}, " if self._aof else ""
            have = "have it in their logs" if self._aof else "have it"
            raise RegistryUnavailable(
                f"the raise was not made durable in {self._timeout_ms} ms: {log}{copies} of "
                f"{self.replicas} replicas {have}; look after them, or change registry.replicas"
            )


def unavailable(step: str, error: BaseException) -> RegistryUnavailable:
    """Tell what failed, without what the client library may repeat of a URL."""
    text = str(error).partition("\n")[0] or type(error).__name__
    return RegistryUnavailable(f"Redis did not do {step}: {text}")
