"""The hurrying of a write that a higher mark waits for (protocol, rule 4).

The server is asked to stop the statement, and the write's own connection then tells how it ended:
stopped, or done a moment earlier. So haste makes no outcome unknown.
"""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.engine.bulkhead import LanesBusy
from gateway.stores.mariadb import sql
from gateway.stores.mariadb.failures import Unreachable, is_driver_error
from gateway.stores.mariadb.lanes import Lane, Lanes
from gateway.stores.mariadb.sql import compose

_STOP: Final = "KILL QUERY {thread}"


class Haste:
    """Stops what runs on one lane, once, when it is called."""

    def __init__(self, lane: Lane, through: Lanes, *, deadline_s: float) -> None:
        self._lane = lane
        self._through = through
        self._deadline_s = deadline_s
        self._stopping: asyncio.Task[None] | None = None

    def __call__(self) -> None:
        """Start stopping. Does not wait, and does nothing the second time."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())

    async def _stop(self) -> None:
        statement = compose(_STOP, thread=sql.number(self._lane.thread_id))
        try:
            await self._through.run([statement], deadline_s=self._deadline_s)
        except (LanesBusy, Unreachable):
            return  # the server's statement time-out ends the write all the same
        except Exception as error:
            if not is_driver_error(error):
                raise

    async def over(self) -> None:
        """Wait until no stopping is under way, which must not hit the lane's next statement."""
        if self._stopping is not None:
            await asyncio.wait([self._stopping])
