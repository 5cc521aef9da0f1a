"""One generation's inbox: a key for each notice, numbered by its revision."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from gateway.model.claim import Notice
from gateway.model.mark import Scope
from gateway.ports.registry import RegistryUnavailable
from gateway.registries.etcd import client
from gateway.registries.etcd.client import Etcd, Stored
from gateway.registries.etcd.records import read_mark

_RECONNECT_S: Final = 0.1
_MOST_IN_ONE: Final = 100  # a server takes 128 operations in a transaction


class Inbox:
    """Reads the keys below `prefix`, removes what was acknowledged, and watches for more."""

    def __init__(self, etcd: Etcd, prefix: str) -> None:
        self._etcd = etcd
        self._prefix = prefix
        self._given: dict[str, int] = {}
        self._rung = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    async def read(self, seen: int) -> tuple[Notice, ...]:
        """Acknowledge up to `seen`, and give what is left and what is new."""
        self._rung.clear()
        gone = [(key, revision) for key, revision in self._given.items() if revision <= seen]
        for start in range(0, len(gone), _MOST_IN_ONE):
            await self._etcd.txn(
                then=[
                    client.when([client.is_at(key, revision)], [client.delete(key)])
                    for key, revision in gone[start : start + _MOST_IN_ONE]
                ]
            )
        (found,) = (await self._etcd.txn(then=[client.get_all(self._prefix)])).found
        self._given = {one.key: one.revision for one in found}
        return tuple(sorted(map(self._notice, found)))

    def _notice(self, one: Stored) -> Notice:
        scope = one.key.removeprefix(self._prefix).partition("\0")[0]
        return Notice(one.revision, Scope(scope), read_mark(one.value))

    async def wait(self, timeout_s: float) -> None:
        """Until the watch tells of a change, or has told of one since the last `read`."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), timeout_s)

    async def _listen(self) -> None:
        while True:
            with suppress(RegistryUnavailable):
                async for _ in self._etcd.watch(self._prefix):
                    self._rung.set()  # at first: what came while nobody watched
            await asyncio.sleep(_RECONNECT_S)

    async def aclose(self) -> None:
        """Stop to watch."""
        if self._listening is not None:
            self._listening.cancel()
            with suppress(asyncio.CancelledError):
                await self._listening
