"""The replays: what became of a logical request, so that its retry is recognised.

Source: decisions, "Replays". Kept in memory, per replica, for a bounded time and number.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from gateway.model.mark import Scope
from gateway.model.operation import Operation
from gateway.model.outcome import Applied, Outcome, Unknown
from gateway.ports.clock import Clock

Key = tuple[Scope, int, str | None, str, str, str]


@dataclass(slots=True)
class Attempt:
    """The last attempt of one logical request. `outcome` is None while it is under way.

    `before` is the attempt it repeats, whose outcome is not known.
    """

    write_id: str
    expires_s: float
    outcome: Outcome | None = None
    before: Attempt | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Replays:
    """Remembers attempts by scope, token, holder, resource, method and the client's retry key."""

    def __init__(self, clock: Clock, ttl_s: float = 600.0, most: int = 100_000) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._most = most
        self._attempts: OrderedDict[Key, Attempt] = OrderedDict()

    def key(self, operation: Operation, scope: Scope) -> Key | None:
        """The key of a retry, or None when the client names no logical request."""
        if operation.retry_key is None or operation.token is None:
            return None
        return (
            scope,
            operation.token,
            operation.holder,
            f"{operation.resource.store}:{operation.resource.path}",
            operation.method,
            operation.retry_key,
        )

    async def earlier(self, key: Key) -> Attempt | None:
        """The attempt before this one, once it has ended; None when there was none that counts."""
        while (attempt := self._attempts.get(key)) is not None:
            if attempt.outcome is not None:
                return attempt if attempt.expires_s > self._clock.boottime_s() else None
            await attempt.done.wait()
        return None

    def begin(self, key: Key, write_id: str) -> Attempt:
        """Remember that an attempt is under way; a retry that comes meanwhile waits for it."""
        attempt = Attempt(write_id, self._clock.boottime_s() + self._ttl_s)
        attempt.before = self._attempts.get(key)
        self._attempts[key] = attempt
        self._attempts.move_to_end(key)
        self._trim()
        return attempt

    def end(self, key: Key, attempt: Attempt, outcome: Outcome | None) -> None:
        """Keep what was applied or is unknown; what was refused is forgotten.

        A refused retry leaves the unknown attempt before it where it was: it may have been applied.
        """
        before, attempt.before = attempt.before, None
        attempt.outcome = outcome if isinstance(outcome, Applied | Unknown) else None
        attempt.done.set()
        if attempt.outcome is not None or self._attempts.get(key) is not attempt:
            return
        if before is not None and isinstance(before.outcome, Unknown):
            self._attempts[key] = before
        else:
            del self._attempts[key]

    def _trim(self) -> None:
        now_s = self._clock.boottime_s()
        while self._attempts:
            key, oldest = next(iter(self._attempts.items()))
            if len(self._attempts) <= self._most and oldest.expires_s > now_s:
                return
            if oldest.outcome is None and len(self._attempts) <= 2 * self._most:
                return
            del self._attempts[key]
            oldest.done.set()
