"""Several waiting jobs in one transaction: one fsync for all of them (group commit).

Each job has a savepoint, so that one that fails undoes itself alone. Runs on the writer's thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.dialects.rows.problems import RequestError
from gateway.model.mark import Mark
from gateway.model.problem import Code, Problem
from gateway.ports.store import MaybeWritten, NotWritten, WriteResult, Written
from gateway.stores.sqlite import witness
from gateway.stores.sqlite.errors import is_interrupt, name_of, problem_of
from gateway.stores.sqlite.transaction import CarryJob, WriteJob

# A COMMIT that fails like this has certainly not happened. After an I/O error or a full disk the
# commit may be in the log all the same, and come back when the log is recovered.
_CERTAIN: Final = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CONSTRAINT", "SQLITE_INTERRUPT")


@dataclass(frozen=True, slots=True)
class Carried:
    """The fence row stands at the mark, or above it: then `above` is the row's mark."""

    above: Mark | None


@dataclass(frozen=True, slots=True)
class NotCarried:
    """The fence row may not have been raised."""

    problem: Problem


Job = WriteJob | CarryJob
JobResult = WriteResult | Carried | NotCarried | Exception
RunWrite = Callable[[sqlite3.Connection, WriteJob], WriteResult]


class _BatchLostError(Exception):
    """The whole transaction is gone because of one job; nothing of it was committed."""


def run_batch(
    connection: sqlite3.Connection, jobs: Sequence[Job], write: RunWrite
) -> list[JobResult]:
    """Run all jobs, in order, and commit. A result that is an exception is a bug's."""
    if len(jobs) > 1:
        try:
            return _transact(connection, jobs, write, shared=True)
        except _BatchLostError:
            pass  # one job took the others down: each gets a transaction of its own
    return [_transact(connection, [job], write, shared=False)[0] for job in jobs]


def _transact(
    connection: sqlite3.Connection, jobs: Sequence[Job], write: RunWrite, *, shared: bool
) -> list[JobResult]:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        return [_refused(job, problem_of(error)) for job in jobs]
    try:
        return _run_begun(connection, jobs, write, shared=shared)
    except BaseException:
        # Whatever went wrong, the next batch must find no transaction open.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _run_begun(
    connection: sqlite3.Connection, jobs: Sequence[Job], write: RunWrite, *, shared: bool
) -> list[JobResult]:
    results: list[JobResult] = []
    for job in jobs:
        connection.execute("SAVEPOINT job")
        result = _run(connection, job, write)
        if not connection.in_transaction:
            # An interrupt or a trigger's RAISE(ROLLBACK) ends the transaction, not the job alone.
            if shared:
                raise _BatchLostError
            return [result]
        if isinstance(result, Exception | NotWritten | NotCarried):
            connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        results.append(result)
    return _commit(connection, jobs, results, shared=shared)


def _run(connection: sqlite3.Connection, job: Job, write: RunWrite) -> JobResult:
    try:
        if isinstance(job, CarryJob):
            return Carried(witness.carry(connection, job.scope, job.mark))
        return write(connection, job)
    except RequestError as error:
        return NotWritten(error.problem)
    except sqlite3.Error as error:
        return _refused(job, problem_of(error))
    except Exception as error:
        return error


def _commit(
    connection: sqlite3.Connection,
    jobs: Sequence[Job],
    results: list[JobResult],
    *,
    shared: bool,
) -> list[JobResult]:
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if not name_of(error).startswith(_CERTAIN):
            return [_lost(job, result) for job, result in zip(jobs, results, strict=True)]
        if shared and not is_interrupt(error):
            raise _BatchLostError from None
        problem = problem_of(error)
        return [
            _refused(job, problem) if _took_effect(result) else result
            for job, result in zip(jobs, results, strict=True)
        ]
    return results


def _took_effect(result: JobResult) -> bool:
    return isinstance(result, Written | Carried)


def _refused(job: Job, problem: Problem) -> JobResult:
    return NotCarried(problem) if isinstance(job, CarryJob) else NotWritten(problem)


def _lost(job: Job, result: JobResult) -> JobResult:
    if not _took_effect(result):
        return result
    message = "the database failed while it committed; the change may be there or not"
    problem = Problem(Code.OUTCOME_UNKNOWN, message)
    return NotCarried(problem) if isinstance(job, CarryJob) else MaybeWritten(problem)
