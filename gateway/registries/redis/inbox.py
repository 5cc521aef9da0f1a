"""One generation's inbox: lists on every shard, and the channel that rings when one grows."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from redis.asyncio import Redis, RedisCluster

from gateway.model.claim import Generation, Notice
from gateway.model.mark import Scope
from gateway.registries.redis import answers
from gateway.registries.redis.shards import FAILURES, SHARDS, Shards, unavailable

_RECONNECT_S: Final = 0.1


class Inbox:
    """Numbers the entries of sixteen lists, and drops from each what was acknowledged.

    Only this object removes entries, so that a place in a list is known by counting.
    """

    def __init__(self, shards: Shards, generation: Generation) -> None:
        self._shards = shards
        self._generation = generation
        self._given: list[list[Notice]] = [[] for _ in range(SHARDS)]
        self._number = 0
        self._rung = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    async def read(self, seen: int) -> tuple[Notice, ...]:
        """Acknowledge up to `seen`, and give what is left and what is new."""
        self._rung.clear()
        keys = [self._shards.inbox(shard, self._generation) for shard in range(SHARDS)]
        drop = [sum(n.number <= seen for n in given) for given in self._given]
        lists = await self._trimmed(keys, drop)
        for shard, entries in enumerate(lists):
            kept = self._given[shard][drop[shard] :]
            for text in entries[len(kept) :]:
                scope, mark = answers.notice(text)
                self._number += 1
                kept.append(Notice(self._number, Scope(scope), mark))
            self._given[shard] = kept
        return tuple(sorted(n for given in self._given for n in given))

    async def _trimmed(self, keys: list[str], drop: list[int]) -> list[list[bytes]]:
        client = self._shards.client
        try:
            async with client.pipeline(transaction=False) as pipe:
                for key, count in zip(keys, drop, strict=True):
                    if count:
                        pipe.ltrim(key, count, -1)
                    pipe.lrange(key, 0, -1)
                done: list[Any] = await pipe.execute()
        except FAILURES as error:
            raise unavailable("inbox", error) from error
        return [answer for answer in done if isinstance(answer, list)]

    async def wait(self, timeout_s: float) -> None:
        """Until the channel rings. Nothing is lost before the subscription stands: it rings too."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), timeout_s)

    async def _listen(self) -> None:
        while True:
            with suppress(*FAILURES):
                await self._subscribe()
            self._rung.set()  # what came while nobody listened
            await asyncio.sleep(_RECONNECT_S)

    async def _subscribe(self) -> None:
        client = self._shards.client
        names = [self._shards.inbox(shard, self._generation) for shard in range(SHARDS)]
        own = _one_node(client) if isinstance(client, RedisCluster) else None
        listener = (own or client).pubsub()
        try:
            await listener.subscribe(*names)
            while True:
                await listener.get_message(timeout=None)
                self._rung.set()
        finally:
            await listener.aclose()  # type: ignore[no-untyped-call]
            if own is not None:
                await own.aclose()

    async def aclose(self) -> None:
        """Stop to listen."""
        if self._listening is not None:
            self._listening.cancel()
            with suppress(asyncio.CancelledError):
                await self._listening


def _one_node(cluster: RedisCluster) -> Redis:
    """A client of one node: a message published anywhere reaches subscribers on all of them."""
    node = cluster.get_random_node()
    return Redis(host=node.host, port=int(node.port), **_plain(node.connection_kwargs))


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    keep = ("username", "password", "ssl", "ssl_ca_certs", "socket_connect_timeout")
    return {name: options[name] for name in keep if options.get(name) is not None}
