"""Readiness: whether the gateway can do its work now, told part by part for health checks.

A part is looked at when somebody asks, never on the road of a request: at most once in a while,
one look at a time, and all parts at once. A look that does not end counts as a failure and goes on;
no second one is begun behind it, so a store that hangs is not piled upon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from gateway.ports.clock import Clock
from gateway.ports.registry import Registry, RegistryUnavailable
from gateway.ports.store import Store

TIMEOUT_S: Final = 2.0
FRESH_S: Final = 1.0
_CLOSE_S: Final = 1.0

Look = Callable[[], Awaitable[str | None]]
"""Tells what is wrong with a part, or None."""


class Readiness:
    """The parts a gateway stands on: the registry, its stores, and that it is not about to stop."""

    def __init__(
        self,
        registry: Registry,
        stores: Mapping[str, Store],
        clock: Clock,
        timeout_s: float = TIMEOUT_S,
        *,
        membership: Look | None = None,
    ) -> None:
        self.leaving = False
        looks = {"registry": _registry_look(registry)}
        if membership is not None:
            looks["membership"] = membership
        looks.update((f"store {name}", store.check) for name, store in stores.items())
        self._parts = {name: _Part(look, clock, timeout_s) for name, look in looks.items()}

    async def ready(self) -> Mapping[str, str | None]:
        """Each part with what is wrong with it, or None."""
        if self.leaving:
            return {"server": "is stopping"}
        found = await asyncio.gather(*(part.wrong() for part in self._parts.values()))
        return dict(zip(self._parts, found, strict=True))

    async def aclose(self) -> None:
        """Give up the looks that are under way."""
        await asyncio.gather(*(part.aclose() for part in self._parts.values()))


class _Part:
    """One part, and what the last look at it has found."""

    def __init__(self, look: Look, clock: Clock, timeout_s: float) -> None:
        self._look = look
        self._clock = clock
        self._timeout_s = timeout_s
        self._looking: asyncio.Task[None] | None = None
        self._began_s = 0.0
        self._found: str | None = None
        self._found_s: float | None = None

    async def wrong(self) -> str | None:
        """What is wrong with it: from a look that is at most `FRESH_S` old."""
        now_s = self._clock.boottime_s()
        if self._found_s is not None and now_s - self._found_s < FRESH_S:
            return self._found
        if self._looking is None:
            self._began_s = now_s
            self._looking = asyncio.create_task(self._found_now())
        looking = self._looking
        await asyncio.wait({looking}, timeout=max(0.0, self._began_s + self._timeout_s - now_s))
        if looking.done():
            return self._found
        return f"has not answered for {self._clock.boottime_s() - self._began_s:.1f} s"

    async def _found_now(self) -> None:
        try:
            self._found = await self._look()
        except Exception as error:  # nobody foresaw it: not ready, and its text may hold anything
            self._found = f"could not be looked at ({type(error).__name__})"
        finally:
            self._found_s = self._clock.boottime_s()
            self._looking = None

    async def aclose(self) -> None:
        looking = self._looking
        if looking is not None:
            looking.cancel()
            await asyncio.wait({looking}, timeout=_CLOSE_S)


def _registry_look(registry: Registry) -> Look:
    async def look() -> str | None:
        try:
            await registry.probe()
        except RegistryUnavailable as failed:
            return str(failed)
        return None

    return look
