"""A write, from its connection to an end that is certain: one transaction, two round trips.

The first packet begins the transaction, locks and reads the fence row, and writes under it; the
second keeps the answer and commits. What was sent is waited for, whoever has gone away meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from gateway.dialects.rows import problems
from gateway.dialects.rows.etags import etag_of
from gateway.dialects.rows.problems import RequestError
from gateway.engine.bulkhead import Bulkhead, LanesBusy
from gateway.model.operation import Operation
from gateway.model.problem import Code, Problem
from gateway.model.reply import Rows
from gateway.model.row_action import DeleteRows, InsertRows, RowWrite, UpdateRows
from gateway.model.write_id import request_name
from gateway.ports.store import MaybeWritten, NotWritten, WriteFence, WriteResult, Written
from gateway.stores.mariadb import fence as witness
from gateway.stores.mariadb.changes import Effect, Result, Steps, change
from gateway.stores.mariadb.failures import (
    DUPLICATE,
    Failure,
    Unreachable,
    Way,
    understand,
    unreachable_problem,
)
from gateway.stores.mariadb.haste import Haste
from gateway.stores.mariadb.lanes import Gate, Lane, Lanes, Ran
from gateway.stores.mariadb.requests import NotFoundOut, Requests
from gateway.stores.mariadb.sql import Sql
from gateway.stores.mariadb.tables import Tables

MAX_TRIES: Final = 6
"""How often one write is sent when it was rolled back through no fault of its own."""

MAX_PACKET_CHARS: Final = 1_048_576
MAX_STATEMENT_CHARS: Final = 15_000_000
"""Below the server's default max_allowed_packet, 16 MiB."""

_BEGIN: Final = Sql("START TRANSACTION")
_COMMIT: Final = Sql("COMMIT")
_ROLLBACK: Final = Sql("ROLLBACK")
_RETRY_KEY: Final = "request_retry"


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


@dataclass(frozen=True, slots=True)
class _Undone:
    """The transaction was rolled back, and may be tried again."""

    failure: Failure


class _Lost(Exception):
    """The connection broke: only the database can tell how the transaction ended."""


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
        if fence.previous_write_id is not None:
            earlier = await self.find_out(fence.previous_write_id)
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
        gate = _GateOnce(fence)
        haste = Haste(lane, self._keeping, deadline_s=self._deadline_s)
        fence.on_haste(haste)
        try:
            ended = await self._try(lane, operation, fence, gate)
            await haste.over()
        except _Lost:
            lane.break_off()
            ended = None
        except BaseException:
            lane.break_off()
            raise
        finally:
            self._lanes.release(lane)
            self._bulkhead.leave(fence.scope)
        if ended is not None:
            self._requests.count_write()
            return ended
        return await self.find_out(fence.write_id)

    async def _try(
        self, lane: Lane, operation: Operation, fence: WriteFence, gate: Gate
    ) -> WriteResult:
        """Send until it is certain how it ended. Raises _Lost."""
        problem = problems.busy("the write was in the way of others; nothing was changed: retry")
        for _ in range(MAX_TRIES):
            shape = self._tables.shape(operation_table(operation))
            if isinstance(shape, Problem):
                return NotWritten(shape)
            admits = witness.admits(fence.scope, fence.mark)
            steps = change(shape, row_write(operation), operation.conditions, admits)
            transaction = _Transaction(lane, operation, fence, self._deadline_s)
            ended = await transaction.run(steps, gate)
            if not isinstance(ended, _Undone):
                return ended
            problem = ended.failure.problem
            match ended.failure.way:
                case Way.ANSWER:
                    break
                case Way.RELOAD if not await self._tables.reload():
                    break
        return NotWritten(problem)

    async def find_out(self, write_id: str) -> WriteResult:
        """How a write ended, from the database; what has not committed by now never will."""
        try:
            reply = await self._requests.settle(write_id)
        except NotFoundOut:
            return MaybeWritten(
                Problem(
                    Code.OUTCOME_UNKNOWN,
                    "the database was lost after the write was sent, and could not be asked how "
                    "it ended; read the row before writing again",
                )
            )
        if reply is not None:
            return Written(reply)
        return NotWritten(
            problems.busy("the connection to the database was lost; nothing was changed, try again")
        )


class _Transaction:
    """One try of a write."""

    def __init__(
        self, lane: Lane, operation: Operation, fence: WriteFence, deadline_s: float
    ) -> None:
        self._lane = lane
        self._operation = operation
        self._fence = fence
        self._deadline_s = deadline_s
        self._name = request_name(operation, fence.scope)
        self._retry = witness.retry_of(self._name, fence.mark.era)

    async def run(self, steps: Steps, gate: Gate) -> WriteResult | _Undone:
        """Carry the change out and commit it, or leave everything as it was. Raises _Lost."""
        try:
            batch = next(steps)
        except StopIteration as nothing:
            batch, steps = [], _over(nothing.value)
            next(steps)
        except RequestError as unfit:
            return NotWritten(unfit.problem)
        head = [_BEGIN, witness.locked(self._fence.scope)]
        if self._retry is not None:
            head.append(witness.recall(self._retry))
        ran = await self._send([*head, *batch], gate)
        if isinstance(ran, Problem):
            return NotWritten(ran)
        refused = self._judge(ran.results, len(head))
        if refused is not None:
            await self._roll_back(ran)
            return refused
        return await self._follow(steps, ran, len(head))

    async def _send(self, batch: list[Sql], gate: Gate | None = None) -> Ran | Problem:
        """Send a batch, in several packets when it is large. What is too large is not sent."""
        if any(len(statement) > MAX_STATEMENT_CHARS for statement in batch):
            return problems.from_sqlstate("54000", "a value is too large for one statement")
        results = list[Result]()
        for packet in _packets(batch):
            ran = await self._lane.run(packet, deadline_s=self._deadline_s, gate=gate)
            if isinstance(ran, Problem):
                return ran
            gate = None
            results += ran.results
            if ran.error is not None:
                return Ran(results, ran.error)
        return Ran(results)

    def _judge(self, results: list[Result], head: int) -> WriteResult | None:
        """What the fence and earlier attempts say, as far as the server came to tell of them."""
        if len(results) < head:
            return None
        if self._retry is not None and self._name is not None:
            earlier = witness.prior(results[2].rows, self._name.content)
            if earlier is not None:
                return earlier
        return witness.judge(witness.mark_in(results[1].rows), self._fence.mark)

    async def _follow(self, steps: Steps, ran: Ran, head: int) -> WriteResult | _Undone:
        results = ran.results[head:]
        while True:
            if ran.error is not None:
                return await self._undo(ran)
            try:
                batch = steps.send(results)
            except StopIteration as done:
                return await self._commit(done.value)
            except RequestError as refused:
                await self._roll_back(ran)
                return NotWritten(refused.problem)
            further = await self._send(batch)
            if isinstance(further, Problem):
                await self._roll_back(ran)
                return NotWritten(further)
            ran, results = further, further.results

    async def _commit(self, effect: Effect) -> WriteResult | _Undone:
        reply = _reply(self._operation, effect)
        record = witness.record(self._fence.write_id, self._retry, reply)
        ran = await self._send([record, _COMMIT])
        assert isinstance(ran, Ran)
        if ran.error is None:
            return Written(reply)
        if ran.results:  # the record stood, and COMMIT was begun
            raise _Lost
        return await self._undo(ran)

    async def _undo(self, ran: Ran) -> _Undone:
        """Nothing was committed: the statement that failed stands before COMMIT."""
        assert ran.error is not None
        failure = understand(ran.error)
        await self._roll_back(ran)
        if failure.number == DUPLICATE:
            return _Undone(_duplicate(failure, self._operation))
        return _Undone(failure)

    async def _roll_back(self, ran: Ran) -> None:
        if ran.error is not None and understand(ran.error).way is Way.LOST:
            raise _Lost
        over = await self._lane.run([_ROLLBACK], deadline_s=self._deadline_s)
        if isinstance(over, Ran) and over.error is not None:
            raise _Lost


def operation_table(operation: Operation) -> str:
    """The table that a mutation is about."""
    return row_write(operation).table


def _packets(batch: list[Sql]) -> Iterator[list[Sql]]:
    """Cut a batch where a packet becomes long; at least one statement is in each."""
    packet, size = list[Sql](), 0
    for statement in batch:
        if packet and size + len(statement) > MAX_PACKET_CHARS:
            yield packet
            packet, size = [], 0
        packet.append(statement)
        size += len(statement)
    yield packet


def _over(effect: Effect) -> Steps:
    """A change that needs no statement."""
    yield []
    return effect


def _duplicate(failure: Failure, operation: Operation) -> Failure:
    """A key that stood there meanwhile: the same request's, a given-up attempt's, or a row's."""
    if _RETRY_KEY in failure.text:  # another attempt committed first; the next look finds it
        return replace(failure, way=Way.AGAIN)
    action = row_write(operation)
    merges = isinstance(action, InsertRows) and action.conflict is not None
    creates = bool(operation.conditions)
    # The row was made by somebody after this statement's snapshot: the next one sees it.
    return replace(failure, way=Way.AGAIN) if merges or creates else failure


def _reply(operation: Operation, effect: Effect) -> Rows:
    action = row_write(operation)
    etag = None
    if effect.count == 1 and effect.version is not None and not isinstance(action, DeleteRows):
        etag = etag_of(effect.version) if operation.resource.exact or action.single else None
    inserted = isinstance(action, InsertRows) and effect.made != 0
    return Rows(json=effect.text, count=effect.count, etag=etag, inserted=inserted)


async def _outlast(task: asyncio.Task[WriteResult]) -> WriteResult:
    """Wait for a task to its end, however often the waiter is cancelled meanwhile.

    The wait is bounded by the server's time-outs and the deadline of a packet. The answer is
    returned rather than the cancellation raised, because a lost answer would turn a certain end
    into an unknown one.
    """
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.done():
                return task.result()
