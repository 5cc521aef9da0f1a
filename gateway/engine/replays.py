"""The replays: what became of a logical request, so that its retry is recognised.

Source: decisions, "Replays". Kept in memory, per replica, for a bounded time and number.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from gateway.engine.refusals import key_reused
from gateway.model.mark import Era
from gateway.model.outcome import Applied, Outcome, Refused, Unknown
from gateway.model.problem import Problem
from gateway.model.reply import Relay, Rows
from gateway.model.write_id import RequestName, name_in
from gateway.ports.clock import Clock

Key = RequestName
MOST_BYTES: Final = 67_108_864
"""Of bodies of answers; beyond it the oldest answers are forgotten first."""


@dataclass(slots=True)
class Attempt:
    """The last attempt of one logical request. `outcome` is None while it is under way.

    `before` is the attempt it repeats, whose outcome is not known. `era` is that of its scope, as
    far as it was known when the attempt ended: a reset makes the tokens start afresh. `done` is
    there until it ends; `kept_bytes` is what it adds to the sum. `sha256` is that of its body, if
    that was seen whole and the content does not tell it.
    """

    write_id: str
    content: str
    expires_s: float
    outcome: Outcome | None = None
    before: Attempt | None = None
    era: Era | None = None
    sha256: bytes | None = None
    kept_bytes: int = 0
    done: asyncio.Event | None = field(default_factory=asyncio.Event)


class Replays:
    """Remembers attempts by their lease (scope, token, holder) and the client's retry key.

    The same key with another method, resource or content is refused, not taken for a retry.
    """

    def __init__(
        self, clock: Clock, ttl_s: float = 600.0, most: int = 100_000, most_bytes: int = MOST_BYTES
    ) -> None:
        self._clock = clock
        self.ttl_s = ttl_s
        self._most = most
        self._most_bytes = most_bytes
        self._kept_bytes = 0
        self._attempts: OrderedDict[str, Attempt] = OrderedDict()

    async def earlier(self, key: Key) -> Attempt | Problem | None:
        """The attempt before this one, once it has ended; None when there was none that counts.

        A `Problem` when that attempt asked for something else.
        """
        while (attempt := self._attempts.get(key.digest)) is not None:
            if attempt.outcome is not None and attempt.expires_s <= self._clock.boottime_s():
                return None
            if attempt.content != key.content:
                return key_reused()
            if attempt.done is None:
                return attempt
            await attempt.done.wait()
        return None

    def begin(self, key: Key, write_id: str) -> Attempt:
        """Remember that an attempt is under way; a retry that comes meanwhile waits for it."""
        attempt = Attempt(write_id, key.content, self._clock.boottime_s() + self.ttl_s)
        attempt.before = self._attempts.get(key.digest)
        if attempt.before is not None:
            self._weigh(attempt.before, 0)
        self._attempts[key.digest] = attempt
        self._attempts.move_to_end(key.digest)
        self._trim()
        return attempt

    def end(self, key: Key, attempt: Attempt, outcome: Outcome | None) -> None:
        """Keep what was applied or is unknown; what was refused is forgotten.

        A refused retry leaves the attempt before it where it was: it may have been applied.
        """
        before, attempt.before = attempt.before, None
        attempt.outcome = outcome if isinstance(outcome, Applied | Unknown) else None
        _release(attempt)
        if self._attempts.get(key.digest) is not attempt:
            return
        if attempt.outcome is not None:
            self._weigh(attempt, _size_bytes(attempt))
        elif before is not None and isinstance(before.outcome, Applied | Unknown):
            self._attempts[key.digest] = before
            self._weigh(before, _size_bytes(before))
        else:
            del self._attempts[key.digest]

    def settled(self, write_id: str, outcome: Applied | Refused) -> None:
        """An attempt that had ended as unknown has turned out to be this."""
        name = name_in(write_id)
        attempt = None if name is None else self._attempts.get(name.digest)
        if name is None or attempt is None:
            return
        if attempt.before is not None and attempt.before.write_id == write_id:
            attempt.before.outcome = outcome  # its retry is under way, and sees to it when it ends
        elif attempt.write_id == write_id and isinstance(attempt.outcome, Unknown):
            if isinstance(outcome, Applied):
                attempt.outcome = outcome
                self._weigh(attempt, _size_bytes(attempt))
            else:
                del self._attempts[name.digest]

    def _trim(self) -> None:
        now_s = self._clock.boottime_s()
        while self._attempts:
            key, oldest = next(iter(self._attempts.items()))
            full = len(self._attempts) > self._most or self._kept_bytes > self._most_bytes
            if not full and oldest.expires_s > now_s:
                return
            if oldest.outcome is None and len(self._attempts) <= 2 * self._most:
                return
            del self._attempts[key]
            self._weigh(oldest, 0)
            _release(oldest)

    def _weigh(self, attempt: Attempt, size_bytes: int) -> None:
        self._kept_bytes += size_bytes - attempt.kept_bytes
        attempt.kept_bytes = size_bytes


def _release(attempt: Attempt) -> None:
    """Wake whoever waits for the attempt; an event that nobody needs is no small thing to keep."""
    if attempt.done is not None:
        attempt.done.set()
        attempt.done = None


def _size_bytes(attempt: Attempt) -> int:
    """What an answer weighs beyond its entry."""
    if not isinstance(attempt.outcome, Applied):
        return 0
    match attempt.outcome.reply:
        case Rows(json=text):
            return 0 if text is None else len(text)
        case Relay(body=body):
            return len(body)
        case _:
            return 0
