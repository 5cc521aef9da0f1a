"""The connections to one store: kept open while in use, bounded in number.

A connection goes back only after an exchange that ended exactly; everything else is reset. The
last one used is the first one taken, so that idle ones age and are closed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from dataclasses import dataclass

from gateway.upstream.link import Link, connect


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long each phase of an exchange may take, in seconds.

    `keep_s` is how long an idle connection is kept: below the 5 s after which common servers
    close theirs, because a request that crosses such a close has an unknown outcome.
    """

    connect_s: float = 2.0
    first_byte_s: float = 60.0
    idle_s: float = 30.0
    keep_s: float = 4.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the store listens. `authority` is the Host field, port included as configured."""

    host: str
    port: int
    authority: str
    tls: ssl.SSLContext | None = None


class PoolFull(Exception):
    """All connections were in use for too long: nothing was sent."""


class Pool:
    """Hands out connections, at most `limit` at once; waits for one at most `connect_s`."""

    def __init__(self, endpoint: Endpoint, timeouts: Timeouts, limit: int) -> None:
        self.endpoint = endpoint
        self.timeouts = timeouts
        self._limit = limit
        self._slots = asyncio.Semaphore(limit)
        self._idle: deque[tuple[Link, float]] = deque()
        self._in_use: set[Link] = set()
        self._closed = False

    @property
    def idle(self) -> int:
        """Connections that are open and unused."""
        return len(self._idle)

    @property
    def in_use(self) -> int:
        """Connections that carry an exchange."""
        return len(self._in_use)

    async def take(self) -> Link:
        """A connection that is open and quiet. Raises `PoolFull`, `LinkLost`, `LinkTimeout`."""
        await self._slot()
        try:
            link = self._take_idle() or await connect(
                self.endpoint.host,
                self.endpoint.port,
                self.endpoint.tls,
                self.timeouts.connect_s,
            )
        except BaseException:
            self._slots.release()
            raise
        self._in_use.add(link)
        return link

    async def _slot(self) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(self.timeouts.connect_s):
                await self._slots.acquire()
        except TimeoutError as error:
            raise PoolFull(f"all {self._limit} connections to the store are in use") from error

    def _take_idle(self) -> Link | None:
        now = asyncio.get_running_loop().time()
        while self._idle and now - self._idle[0][1] > self.timeouts.keep_s:
            self._idle.popleft()[0].close()
        while self._idle:
            link, _ = self._idle.pop()
            if link.quiet():
                return link
            link.close()
        return None

    def give_back(self, link: Link) -> None:
        """Keep the connection for the next exchange."""
        self._leave(link)
        if self._closed:
            link.close()
            return
        link.used += 1
        self._idle.append((link, asyncio.get_running_loop().time()))

    def drop(self, link: Link) -> None:
        """Reset the connection; it will carry nothing more. Idempotent."""
        self._leave(link)
        link.abort()

    def _leave(self, link: Link) -> None:
        if link in self._in_use:
            self._in_use.discard(link)
            self._slots.release()

    def close(self) -> None:
        """Close the idle connections and reset those in use."""
        self._closed = True
        while self._idle:
            self._idle.pop()[0].close()
        for link in list(self._in_use):
            self.drop(link)
