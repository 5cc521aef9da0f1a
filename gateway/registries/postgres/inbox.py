"""One generation's inbox, numbered here: rows are not committed in the order they are made in."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from gateway.model.claim import Generation, Notice
from gateway.model.mark import Era, Mark, Scope
from gateway.model.token import Holder
from gateway.registries.postgres.database import Database


class Inbox:
    """Gives each row a number of its own when it is first seen, and deletes by row."""

    def __init__(self, database: Database, generation: Generation) -> None:
        self._database = database
        self._generation = generation
        self._given: dict[int, Notice] = {}
        self._number = 0
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """There may be something new."""
        self._rung.set()

    async def read(self, seen: int) -> tuple[Notice, ...]:
        """Acknowledge up to `seen`, and give what is left and what is new."""
        self._rung.clear()
        gone = [row for row, notice in self._given.items() if notice.number <= seen]
        rows = await self._database.rows(
            "WITH gone AS (DELETE FROM @.inbox WHERE number = ANY($2))"
            " SELECT number, scope, era, token, burnt, holder FROM @.inbox"
            " WHERE generation = $1 AND number <> ALL($2) ORDER BY number",
            self._generation,
            gone,
        )
        for row in gone:
            del self._given[row]
        for number, scope, era, token, burnt, holder in rows:
            if number not in self._given:
                mark = Mark(Era(era), token, burnt, Holder(holder) if holder is not None else None)
                self._number += 1
                self._given[number] = Notice(self._number, Scope(scope), mark)
        return tuple(sorted(self._given.values()))

    async def wait(self, timeout_s: float) -> None:
        """Until it rings, or has rung since the last `read`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), timeout_s)
