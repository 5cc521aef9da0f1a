"""Owns one write from its gate to a certain end: applied, refused, or honestly unknown.

Once sent, a write is never abandoned: a cancelled caller waits for the answer, the server bounds
it by its statement time-out, and when the answer is lost the database is asked.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from gateway.dialects.rows import problems
from gateway.engine.bulkhead import Bulkhead, LanesBusy
from gateway.model.operation import Operation
from gateway.model.problem import Code, Problem
from gateway.model.row_action import DeleteRows, InsertRows, RowWrite, UpdateRows
from gateway.model.write_id import request_name
from gateway.ports.store import MaybeWritten, NotWritten, WriteFence, WriteResult, Written
from gateway.stores.postgres.answers import Asked, judge_write, rows_reply
from gateway.stores.postgres.failures import (
    Unreachable,
    Way,
    is_driver_error,
    understand,
    unreachable_problem,
)
from gateway.stores.postgres.haste import Haste
from gateway.stores.postgres.lanes import Lane, Lanes
from gateway.stores.postgres.predicates import UnknownColumn
from gateway.stores.postgres.requests import Committed, NotFoundOut, Requests
from gateway.stores.postgres.tables import Tables
from gateway.stores.postgres.writes import (
    WriteContext,
    WriteStatement,
    build_write,
    retry_digest,
)

MAX_TRIES: Final = 4
"""How often one write is sent when it was rolled back through no fault of its own."""


def row_write(operation: Operation) -> RowWrite:
    """The action of a mutation. Raises TypeError for another store's."""
    action = operation.action
    if not isinstance(action, InsertRows | UpdateRows | DeleteRows):
        raise TypeError(f"not a change of rows: {type(action).__name__}")
    return action


class _GateOnce:
    """Asks the fence's gate before the first send, and not again for a repetition of it.

    A repetition runs while its ticket is still committing, and the fence row is checked anew in
    its own transaction, which is what decides.
    """

    def __init__(self, fence: WriteFence) -> None:
        self._gate = fence.gate
        self.passed = False

    def __call__(self) -> Problem | None:
        if self.passed:
            return None
        problem = self._gate()
        self.passed = problem is None
        return problem


class Writer:
    """Carries writes out on the connections kept for them."""

    def __init__(
        self,
        lanes: Lanes,
        bulkhead: Bulkhead,
        tables: Tables,
        requests: Requests,
        keeping: Lanes,
        *,
        deadline_s: float,
    ) -> None:
        self._lanes = lanes
        self._bulkhead = bulkhead
        self._tables = tables
        self._requests = requests
        self._keeping = keeping
        self._deadline_s = deadline_s

    async def write(self, operation: Operation, fence: WriteFence) -> WriteResult:
        """Carry a write out. Cancelling it before it was sent stops it, afterwards it goes on."""
        action = row_write(operation)
        if fence.previous_write_id is not None:
            earlier = await self.find_out(action, fence.previous_write_id)
            if isinstance(earlier, Written):
                return replace(earlier, earlier=True)
            if not isinstance(earlier, NotWritten):
                return earlier
        try:
            await self._bulkhead.enter(fence.scope)
            try:
                lane = await self._lanes.acquire()
            except BaseException:
                self._bulkhead.leave(fence.scope)
                raise
        except (LanesBusy, Unreachable) as error:
            return NotWritten(unreachable_problem(error))
        return await _outlast(asyncio.create_task(self._run(lane, operation, fence)))

    async def _run(self, lane: Lane, operation: Operation, fence: WriteFence) -> WriteResult:
        attempt = _Attempt(self._tables, operation, fence)
        haste = Haste(lane, self._keeping, deadline_s=self._deadline_s)
        fence.on_haste(haste)
        try:
            ended = await self._try(lane, attempt)
            await haste.over()
        except BaseException:
            lane.break_off()
            raise
        finally:
            self._lanes.release(lane)
            self._bulkhead.leave(fence.scope)
        if ended is not None:
            self._requests.count_write()
            return ended
        if not attempt.gate.passed:  # an idle connection had died: nothing was sent
            return NotWritten(problems.busy("the connection to the database was lost; try again"))
        return await self.find_out(attempt.action, fence.write_id)

    async def _try(self, lane: Lane, attempt: _Attempt) -> WriteResult | None:
        """Send until it is certain how it ended. None: the connection was lost."""
        problem = problems.busy("the write was in the way of others")
        for _ in range(MAX_TRIES):
            built = attempt.build()
            if isinstance(built, Problem):
                return NotWritten(built)
            text = built.statement.text
            try:
                answer = await lane.run(
                    built.statement, deadline_s=self._deadline_s, gate=attempt.gate
                )
            except Exception as error:
                if not is_driver_error(error):
                    raise
                failure = understand(error)
                problem = failure.problem
                lane.forget(text)
            else:
                if isinstance(answer, Problem):
                    return NotWritten(answer)
                return judge_write(answer[0], attempt.asked(built))
            match failure.way:
                case Way.LOST:
                    lane.break_off()
                    return None
                case Way.ANSWER:
                    break
                case Way.RELOAD if not await self._tables.reload():
                    break
        return NotWritten(problem)

    async def find_out(self, action: RowWrite, write_id: str) -> WriteResult:
        """How a write ended, from the database; what has not committed by now never will."""
        try:
            ended = await self._requests.settle(write_id)
        except NotFoundOut:
            return MaybeWritten(
                Problem(
                    Code.OUTCOME_UNKNOWN,
                    "the database was lost after the write was sent, and could not be asked how "
                    "it ended; read the row before writing again",
                )
            )
        if isinstance(ended, Committed):
            return Written(rows_reply(action, ended.rows, ended.body, ended.etag, ended.made))
        return NotWritten(
            problems.busy("the connection to the database was lost; nothing was changed, try again")
        )


class _Attempt:
    """One write as it is sent, once or more often."""

    def __init__(self, tables: Tables, operation: Operation, fence: WriteFence) -> None:
        self.action = row_write(operation)
        self.gate = _GateOnce(fence)
        self._tables = tables
        self._operation = operation
        self._name = request_name(operation, fence.scope)
        retry = retry_digest(self._name, fence.mark.era)
        self._context = WriteContext(fence.scope, fence.mark, fence.write_id, retry)

    def build(self) -> WriteStatement | Problem:
        """The statement, by the tables as they are known now."""
        shape = self._tables.shape(self.action.table)
        if isinstance(shape, Problem):
            return shape
        try:
            return build_write(
                shape,
                self.action,
                self._operation.conditions,
                self._context,
                exact=self._operation.resource.exact,
            )
        except UnknownColumn as unknown:
            return problems.no_column(unknown.column, self.action.table)

    def asked(self, built: WriteStatement) -> Asked:
        """What the answer is judged by."""
        content = None if self._name is None else self._name.content
        conditions, mark = self._operation.conditions, self._context.mark
        return Asked(self.action, conditions, mark, built.probes_only, content)


async def _outlast(task: asyncio.Task[WriteResult]) -> WriteResult:
    """Wait for a task to its end, however often the waiter is cancelled meanwhile.

    The wait is bounded by the server's statement time-out. The answer is returned rather than the
    cancellation raised, because a lost answer would turn a certain end into an unknown one.
    """
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.done():
                return task.result()
