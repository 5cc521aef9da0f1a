"""The record of writes in the database: how one ended, and how long that is remembered.

To find out is to claim the write's id for oneself. The write inserts its id in its own
transaction, so one of the two inserts loses: either its row is there, and it has committed, or it
can never commit. That holds with the write still running, or still on its way to the server.
"""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.engine.bulkhead import LanesBusy
from gateway.model.reply import Rows
from gateway.ports.store import NotWritten, Written
from gateway.stores.mariadb import fence, sql
from gateway.stores.mariadb.failures import Unreachable, is_driver_error
from gateway.stores.mariadb.lanes import Lanes
from gateway.stores.mariadb.sql import compose

PRUNE_EVERY_WRITES: Final = 1_000
PRUNE_AT_MOST: Final = 5_000
KEEP_S: Final = 1_800
"""Longer than retries are recognised (decisions, "Replays": 10 minutes)."""
KEEP_VOID_S: Final = 7 * 86_400
"""Void rows are few. Longer than any packet of a write may still be on its way."""

_PAUSE_S: Final = 0.1
_PRUNE: Final = (
    "DELETE FROM fencegate_request WHERE at < CURRENT_TIMESTAMP - INTERVAL {keep} SECOND "
    "AND (affected IS NOT NULL OR at < CURRENT_TIMESTAMP - INTERVAL {void} SECOND) LIMIT {limit}"
)


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

    async def settle(self, write_id: str) -> Rows | None:
        """What a write answered, or that it never took effect, made to stay so.

        Raises `NotFoundOut`.
        """
        try:
            async with asyncio.timeout(self._find_out_s):
                while True:
                    try:
                        claimed = await self._lanes.run(
                            fence.settle(write_id), deadline_s=self._deadline_s
                        )
                        return fence.reply_in(claimed[1].rows)
                    except (Unreachable, LanesBusy):
                        pass
                    except Exception as error:
                        if not is_driver_error(error):
                            raise
                    await asyncio.sleep(_PAUSE_S)
        except TimeoutError:
            raise NotFoundOut(write_id) from None

    async def recall(self, retry: str, content: str) -> Written | NotWritten | None:
        """What was written under a client's key, if anything."""
        try:
            found = await self._lanes.run([fence.recall(retry)], deadline_s=self._deadline_s)
        except (Unreachable, LanesBusy):
            return None
        except Exception as error:
            if not is_driver_error(error):
                raise
            return None
        return fence.prior(found[0].rows, content)

    def count_write(self) -> None:
        """Count a write; every so often, forget old ones in the background."""
        self._written += 1
        if self._written % PRUNE_EVERY_WRITES == 0 and self._pruning is None:
            self._pruning = asyncio.create_task(self._prune())
            self._pruning.add_done_callback(self._pruned)

    async def prune(self) -> int:
        """Forget what is older than anybody asks for, a bounded number of rows at a time."""
        statement = compose(
            _PRUNE,
            keep=sql.number(KEEP_S),
            void=sql.number(KEEP_VOID_S),
            limit=sql.number(PRUNE_AT_MOST),
        )
        return (await self._lanes.run([statement], deadline_s=self._deadline_s))[0].count

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
