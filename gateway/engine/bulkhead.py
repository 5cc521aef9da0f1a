"""Owns how many writes of one scope may be under way, so that a stalled scope starves no other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gateway.model.mark import Scope


class LanesBusy(Exception):
    """No slot or connection became free in time. Nothing was sent."""


@dataclass(slots=True)
class _Slots:
    free: asyncio.Semaphore
    users: int = 0


class Bulkhead:
    """At most `limit` writes per scope; the others wait in line, without a connection."""

    def __init__(self, limit: int, wait_s: float) -> None:
        self._limit = limit
        self._wait_s = wait_s
        self._scopes: dict[Scope, _Slots] = {}

    async def enter(self, scope: Scope) -> None:
        """Take a slot. Raises `LanesBusy` when none becomes free in time."""
        slots = self._scopes.setdefault(scope, _Slots(asyncio.Semaphore(self._limit)))
        slots.users += 1
        try:
            async with asyncio.timeout(self._wait_s):
                await slots.free.acquire()
        except TimeoutError:
            self._leave(scope, slots)
            raise LanesBusy(
                f"{self._limit} writes of this scope are under way, and none ended within "
                f"{self._wait_s:g} s"
            ) from None
        except BaseException:
            self._leave(scope, slots)
            raise

    def leave(self, scope: Scope) -> None:
        """Give the slot back."""
        slots = self._scopes[scope]
        slots.free.release()
        self._leave(scope, slots)

    def _leave(self, scope: Scope, slots: _Slots) -> None:
        slots.users -= 1
        if slots.users == 0:
            del self._scopes[scope]

    def __len__(self) -> int:
        """How many scopes have writes under way or waiting."""
        return len(self._scopes)
