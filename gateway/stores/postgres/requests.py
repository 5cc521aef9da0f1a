"""Owns the record of writes in the database: how one ended, and how long that is remembered.

To find out is to claim the write's id for oneself. The write inserts its id in its own
transaction, so one of the two inserts loses: either its row is there, and it has committed, or it
can never commit. That holds with the write still running, or still on its way to the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.engine.bulkhead import LanesBusy
from gateway.stores.postgres.failures import Unreachable, is_driver_error
from gateway.stores.postgres.lanes import Lanes
from gateway.stores.postgres.sql import Arguments, compose

PRUNE_EVERY_WRITES: Final = 1_000
PRUNE_AT_MOST: Final = 5_000
KEEP_S: Final = 1_800
"""Longer than retries are recognised (decisions, "Replays": 10 minutes)."""
KEEP_VOID_S: Final = 7 * 86_400
"""Void rows are few. Longer than any packet of a write may still be on its way."""

_PAUSE_S: Final = 0.1
_SETTLE: Final = "SELECT rows, body, etag, made FROM fencegate.settle({write_id})"
_RECALL: Final = (
    "SELECT rows AS prior_rows, body AS prior_body, etag AS prior_etag, made AS prior_made, "
    "write_id AS prior_id FROM fencegate.request WHERE retry = {retry}"
)
_PRUNE: Final = (
    "SELECT fencegate.prune(make_interval(secs => {keep}), make_interval(secs => {void}), "
    "{limit}::integer) AS rows"
)


@dataclass(frozen=True, slots=True)
class Committed:
    """The write took effect, with this answer."""

    rows: int
    body: str | None
    etag: str | None
    made: int | None


@dataclass(frozen=True, slots=True)
class NeverCommitted:
    """The write did not take effect, and cannot any more."""


class NotFoundOut(Exception):
    """The database could not be asked in time."""


class Requests:
    """The write ids that the database has seen."""

    def __init__(self, lanes: Lanes, *, deadline_s: float, find_out_s: float) -> None:
        self._lanes = lanes
        self._deadline_s = deadline_s
        self._find_out_s = find_out_s
        self._written = 0
        self._pruning: asyncio.Task[None] | None = None

    async def settle(self, write_id: str) -> Committed | NeverCommitted:
        """Find out how a write ended, and make it stay so. Raises `NotFoundOut`."""
        arguments = Arguments()
        text = compose(_SETTLE, write_id=arguments.text(write_id))
        statement = arguments.statement(text)
        try:
            async with asyncio.timeout(self._find_out_s):
                while True:
                    try:
                        rows = await self._lanes.run(statement, deadline_s=self._deadline_s)
                        return _read(rows[0])
                    except (Unreachable, LanesBusy):
                        pass
                    except Exception as error:
                        if not is_driver_error(error):
                            raise
                    await asyncio.sleep(_PAUSE_S)
        except TimeoutError:
            raise NotFoundOut(write_id) from None

    async def recall(self, retry: str) -> Mapping[str, Any] | None:
        """What was written under a client's key, as a write's statement tells it, if anything."""
        arguments = Arguments()
        statement = arguments.statement(compose(_RECALL, retry=arguments.text(retry)))
        try:
            rows = await self._lanes.run(statement, deadline_s=self._deadline_s)
        except (Unreachable, LanesBusy):
            return None
        except Exception as error:
            if not is_driver_error(error):
                raise
            return None
        return rows[0] if rows else None

    def count_write(self) -> None:
        """Count a write; every so often, forget old ones in the background."""
        self._written += 1
        if self._written % PRUNE_EVERY_WRITES == 0 and self._pruning is None:
            self._pruning = asyncio.create_task(self._prune())
            self._pruning.add_done_callback(self._pruned)

    async def prune(self) -> int:
        """Forget what is older than anybody asks for, a bounded number of rows at a time."""
        arguments = Arguments()
        text = compose(
            _PRUNE,
            keep=arguments.number(KEEP_S),
            void=arguments.number(KEEP_VOID_S),
            limit=arguments.number(PRUNE_AT_MOST),
        )
        rows = await self._lanes.run(arguments.statement(text), deadline_s=self._deadline_s)
        return int(rows[0]["rows"])

    async def _prune(self) -> None:
        try:
            while await self.prune() == PRUNE_AT_MOST:
                pass
        except (Unreachable, LanesBusy):
            return  # the next thousand writes try again
        except Exception as error:
            if not is_driver_error(error):
                raise

    def _pruned(self, task: asyncio.Task[None]) -> None:
        self._pruning = None
        if not task.cancelled():
            task.exception()

    async def aclose(self) -> None:
        """Stop pruning."""
        if self._pruning is not None:
            self._pruning.cancel()
            await asyncio.wait([self._pruning])


def _read(record: Mapping[str, Any]) -> Committed | NeverCommitted:
    if record["rows"] is None:
        return NeverCommitted()
    return Committed(record["rows"], record["body"], record["etag"], record["made"])
