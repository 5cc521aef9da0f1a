"""Owns the raises under way: one per scope at a time, shared by all who ask for the same mark.

A raise waits for the scope's older writes. If every request of a new token sent its own, a single
stalled writer would use up all connections (protocol, rule 11).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.model.mark import Mark, Scope

RaiseMark = Callable[[Scope, Mark], Awaitable[Mark]]
"""Raises the mark in the database and answers the mark afterwards. Raises `CarryFailed`."""


@dataclass(frozen=True, slots=True)
class _Flight:
    mark: Mark
    landing: asyncio.Task[Mark]


class Raises:
    """Runs raises, single file per scope."""

    def __init__(self, raise_mark: RaiseMark) -> None:
        self._raise_mark = raise_mark
        self._flights: dict[Scope, _Flight] = {}

    async def carry(self, scope: Scope, mark: Mark) -> Mark:
        """Raise, or join a raise of the same mark. Answers the database's mark afterwards.

        A caller that is cancelled leaves the raise going: others may be waiting for it.
        """
        while (flight := self._flights.get(scope)) is not None and flight.mark != mark:
            await asyncio.wait([flight.landing])
        if flight is None:
            flight = _Flight(mark, asyncio.create_task(self._raise(scope, mark)))
            self._flights[scope] = flight
            flight.landing.add_done_callback(lambda _: self._land(scope, flight))
        return await asyncio.shield(flight.landing)

    async def _raise(self, scope: Scope, mark: Mark) -> Mark:
        return await self._raise_mark(scope, mark)

    def _land(self, scope: Scope, flight: _Flight | None) -> None:
        if self._flights.get(scope) is flight:
            del self._flights[scope]
        if flight is not None and not flight.landing.cancelled():
            flight.landing.exception()  # seen: nobody may be left to await it

    async def aclose(self) -> None:
        """Wait for the raises under way; they are bounded by the server's time-outs."""
        landings = [flight.landing for flight in self._flights.values()]
        if landings:
            await asyncio.wait(landings)
