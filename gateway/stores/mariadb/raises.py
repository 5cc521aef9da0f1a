"""A raise of the fence row: alone with it, once all older writes ended (protocol, rule 11)."""

from __future__ import annotations

from typing import Final

from gateway.engine.bulkhead import LanesBusy
from gateway.machines.witness import carried
from gateway.model.mark import Mark, Scope
from gateway.ports.store import CarryFailed
from gateway.stores.mariadb import fence
from gateway.stores.mariadb.failures import (
    DUPLICATE,
    Unreachable,
    Way,
    understand,
)
from gateway.stores.mariadb.lanes import Lane, Lanes, Ran
from gateway.stores.mariadb.sql import Sql

MAX_TRIES: Final = 4
_BEGIN: Final = Sql("START TRANSACTION")
_COMMIT: Final = Sql("COMMIT")
_ROLLBACK: Final = Sql("ROLLBACK")


class FenceRows:
    """Raises fence rows on the connections kept for it."""

    def __init__(self, store: str, lanes: Lanes, *, deadline_s: float) -> None:
        self._store = store
        self._lanes = lanes
        self._deadline_s = deadline_s

    async def raise_mark(self, scope: Scope, mark: Mark) -> Mark:
        """Commit the mark, and answer the row's mark afterwards. Raises CarryFailed."""
        reason = "others were raising it at the same time"
        for _ in range(MAX_TRIES):
            try:
                lane = await self._lanes.acquire()
            except (LanesBusy, Unreachable) as error:
                reason = str(error)
                break
            clean = False
            try:
                after, failed = await self._try(lane, scope, mark)
                clean = failed is None
            finally:
                if not clean:
                    lane.break_off()
                self._lanes.release(lane)
            if after is not None:
                return after
            assert failed is not None
            failure = understand(failed)
            reason = failure.problem.message
            if failure.way is not Way.AGAIN and failure.number != DUPLICATE:
                break
        raise CarryFailed(f'store "{self._store}": the mark was not raised: {reason}')

    async def _try(
        self, lane: Lane, scope: Scope, mark: Mark
    ) -> tuple[Mark | None, BaseException | None]:
        """One transaction. Answers the mark afterwards, or what went wrong."""
        looked = await self._run(lane, fence.seen(scope))
        if looked.error is not None:
            return None, looked.error
        standing = fence.mark_in(looked.results[0].rows)
        if standing is not None and carried(standing, mark) == standing:
            # A mark that is seen has committed, and so had waited already.
            return standing, None
        begun = await self._run(lane, _BEGIN, fence.alone(scope))
        if begun.error is not None:
            return None, begun.error
        standing = fence.mark_in(begun.results[1].rows)
        after = carried(standing, mark)
        if after == standing:
            ended = await self._run(lane, _ROLLBACK)
        else:
            ended = await self._run(lane, fence.raised(scope, after, new=standing is None), _COMMIT)
        return (after, None) if ended.error is None else (None, ended.error)

    async def _run(self, lane: Lane, *batch: Sql) -> Ran:
        ran = await lane.run(batch, deadline_s=self._deadline_s)
        assert isinstance(ran, Ran)
        return ran
