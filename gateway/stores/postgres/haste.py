"""Owns the hurrying of a write that a higher mark waits for (protocol, rule 4).

The server is asked to cancel the statement, and the write's own connection then tells how it
ended: cancelled, or committed a moment earlier. So haste makes no outcome unknown.
"""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.engine.bulkhead import LanesBusy
from gateway.stores.postgres.failures import Unreachable, is_driver_error
from gateway.stores.postgres.lanes import Lane, Lanes
from gateway.stores.postgres.sql import Arguments, compose

_CANCEL: Final = "SELECT pg_cancel_backend({pid}::integer)"


class Haste:
    """Cancels what runs on one lane, once, when it is called."""

    def __init__(self, lane: Lane, through: Lanes, *, deadline_s: float) -> None:
        self._lane = lane
        self._through = through
        self._deadline_s = deadline_s
        self._cancelling: asyncio.Task[None] | None = None

    def __call__(self) -> None:
        """Start cancelling. Does not wait, and does nothing the second time."""
        if self._cancelling is None:
            self._cancelling = asyncio.create_task(self._cancel())

    async def _cancel(self) -> None:
        arguments = Arguments()
        text = compose(_CANCEL, pid=arguments.number(self._lane.backend_pid))
        try:
            await self._through.run(arguments.statement(text), deadline_s=self._deadline_s)
        except (LanesBusy, Unreachable):
            return  # the server's statement time-out ends the write all the same
        except Exception as error:
            if not is_driver_error(error):
                raise

    async def over(self) -> None:
        """Wait until no cancelling is under way, which must not hit the lane's next statement."""
        if self._cancelling is not None:
            await asyncio.wait([self._cancelling])
