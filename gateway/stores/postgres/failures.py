"""Owns what an exception of the driver means for a statement: which way on, by SQLSTATE.

Sorted by SQLSTATE and severity, not by Python class: codes raised by triggers have no class of
their own (PostgreSQL manual, appendix A; protocol flow 54.2.9 for FATAL).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

import asyncpg

from gateway.dialects.rows import problems
from gateway.engine.bulkhead import LanesBusy
from gateway.model.problem import Problem

FENCE_SCHEMA = "fencegate"

_CONFLICTS = frozenset({"40001", "40P01"})
_CATALOGUE_MOVED = frozenset({"42P01", "42703", "42704", "42804", "42883", "3F000"})
_STATEMENT_GONE = frozenset({"26000", "0A000"})
"""A prepared statement that the server has dropped, or whose result type a DDL has changed."""

_DRIVER_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # raised when the server said goodbye while nobody listened
    OSError,
    TimeoutError,
)


class Way(Enum):
    """What to do about a failed statement."""

    ANSWER = auto()  # rolled back for a reason of its own: answer the problem
    AGAIN = auto()  # rolled back as one of several that were in each other's way
    REPREPARE = auto()  # not executed: the prepared statement is no longer any good
    RELOAD = auto()  # not executed: the tables may have changed since the catalogue was read
    LOST = auto()  # the connection is gone; only the database can tell how the statement ended


class Unreachable(Exception):
    """No connection could be opened. Nothing was sent. The text carries no credentials."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed statement, understood."""

    way: Way
    problem: Problem


def is_driver_error(error: BaseException) -> bool:
    """True for what a connection or a statement raises, False for mistakes of ours."""
    return isinstance(error, _DRIVER_ERRORS)


def understand(error: BaseException) -> Failure:
    """Sort an exception of a statement that may have been sent."""
    if not isinstance(error, asyncpg.PostgresError):
        return Failure(Way.LOST, lost_problem())
    state: str = error.sqlstate or "XX000"
    severity = getattr(error, "severity_en", None) or getattr(error, "severity", None)
    if severity in ("FATAL", "PANIC") or state.startswith("08"):
        return Failure(Way.LOST, lost_problem())
    return Failure(_way_of(state, error), _problem_of(state, error))


def _way_of(state: str, error: asyncpg.PostgresError) -> Way:
    if state in _CONFLICTS or _is_retry_twin(error):
        return Way.AGAIN
    if state in _STATEMENT_GONE:
        return Way.REPREPARE
    if state in _CATALOGUE_MOVED:
        return Way.RELOAD
    return Way.ANSWER


def _is_retry_twin(error: asyncpg.PostgresError) -> bool:
    """Another attempt at the same request committed first; the next look finds its answer."""
    name: str | None = error.constraint_name
    return error.schema_name == FENCE_SCHEMA and name == "request_retry"


def _problem_of(state: str, error: asyncpg.PostgresError) -> Problem:
    message = str(error.message or "")
    if error.schema_name == FENCE_SCHEMA:
        if state == "PT406":
            return problems.not_one_row(int(message))
        if state == "PT400":
            return problems.too_many_affected(int(message))
        if state == "23505":
            return problems.busy("this attempt was given up on before it could commit; try again")
    return problems.from_sqlstate(state, message, error.detail, error.hint)


def lost_problem() -> Problem:
    """The connection broke, and nothing was changed."""
    return problems.from_sqlstate("08006", "the connection to the database was lost")


def unreachable_problem(error: Unreachable | LanesBusy) -> Problem:
    """Nothing was sent, for want of a connection."""
    if isinstance(error, LanesBusy):
        return problems.busy(str(error))
    return problems.from_sqlstate("08001", str(error))
