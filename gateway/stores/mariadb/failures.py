"""What an exception of the driver means for a statement: which way on, by the server's number.

Sorted by number, since MariaDB gives most errors the SQLSTATE HY000 (MariaDB, "Error Codes").
The answer carries the SQLSTATE that PostgreSQL would give (its manual, appendix A).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from asyncmy import errors

from gateway.dialects.rows import problems
from gateway.engine.bulkhead import LanesBusy
from gateway.model.problem import Problem

_DRIVER_ERRORS: Final = (errors.MySQLError, OSError, TimeoutError, EOFError)

DEADLOCK: Final = 1213
DUPLICATE: Final = 1062
_CHANGED_SINCE_READ: Final = 1020
_GONE: Final = frozenset({1053, 1077, 1078, 1079, 1080, 1152, 1153, 1158, 1159, 1160, 1161})
_KILLED: Final = frozenset({1927, 4031})
_CLIENT_SIDE: Final = range(2000, 3000)
_CATALOGUE_MOVED: Final = frozenset({1054, 1136, 1146, 1364, 1412})

_STATES: Final[Mapping[int, str]] = MappingProxyType(
    {
        1040: "53300",
        1044: "42501",
        1045: "28000",
        1048: "23502",
        1054: "42703",
        DUPLICATE: "23505",
        1114: "53100",
        1142: "42501",
        1143: "42501",
        1146: "42P01",
        1169: "23505",
        1205: "55P03",
        DEADLOCK: "40P01",
        _CHANGED_SINCE_READ: "40001",
        1216: "23503",
        1217: "23503",
        1227: "42501",
        1264: "22003",
        1265: "22P02",
        1290: "25006",
        1292: "22007",
        1317: "57014",
        1364: "23502",
        1366: "22P02",
        1367: "22P02",
        1370: "42501",
        1406: "22001",
        1411: "22007",
        1451: "23503",
        1452: "23503",
        1557: "23505",
        1586: "23505",
        1690: "22003",
        1792: "25006",
        1836: "25006",
        1906: "428C9",
        1969: "57014",
        4025: "23514",
        4078: "42804",
    }
)
_MESSAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "23505": "duplicate key value violates unique constraint",
        "23502": "null value violates not-null constraint",
        "23514": "new row violates check constraint",
        "23503": "insert, update or delete violates foreign key constraint",
        "57014": "the statement ran into its time-out, or a newer token waits; nothing was changed",
        "55P03": "another transaction holds a row for too long; nothing was changed: retry",
        "40P01": "the write was in the way of others; nothing was changed: retry",
    }
)


class Way(Enum):
    """What to do about a failed statement."""

    ANSWER = auto()  # undone for a reason of its own: answer the problem
    AGAIN = auto()  # undone as one of several that were in each other's way
    RELOAD = auto()  # not executed: the tables may have changed since the catalogue was read
    LOST = auto()  # the connection is gone; only the database can tell how the statement ended


class Unreachable(Exception):
    """No connection could be opened. Nothing was sent. The text carries no credentials."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed statement, understood. `number` is the server's, 0 where it said nothing."""

    way: Way
    problem: Problem
    number: int = 0
    text: str = ""


def is_driver_error(error: BaseException) -> bool:
    """True for what a connection or a statement raises, False for mistakes of ours."""
    return isinstance(error, _DRIVER_ERRORS)


def understand(error: BaseException) -> Failure:
    """Sort an exception of a statement that may have been sent."""
    number, text = _said(error)
    if number == 0 or number in _GONE | _KILLED or number in _CLIENT_SIDE:
        return Failure(Way.LOST, lost_problem(), number, text)
    return Failure(_way_of(number), _problem_of(number, text, error), number, text)


def _said(error: BaseException) -> tuple[int, str]:
    """The server's number and words; the driver's own complaints have no number of a server's."""
    if not isinstance(error, errors.MySQLError) or len(error.args) < 2:
        return 0, ""
    number, text = error.args[0], error.args[1]
    return (number, str(text)) if isinstance(number, int) else (0, "")


def _way_of(number: int) -> Way:
    if number in (DEADLOCK, _CHANGED_SINCE_READ):
        return Way.AGAIN
    return Way.RELOAD if number in _CATALOGUE_MOVED else Way.ANSWER


def _problem_of(number: int, text: str, error: BaseException) -> Problem:
    signalled: str | None = getattr(error, "sqlstate", None)
    state = _STATES.get(number)
    if state is None and number == 1644:  # SIGNAL of a trigger
        state = "P0001" if signalled in (None, "45000") else signalled
    state = state or "XX000"
    if state in _MESSAGES:
        return problems.from_sqlstate(state, _MESSAGES[state], details=text)
    return problems.from_sqlstate(state, text)


def lost_problem() -> Problem:
    """The connection broke, and nothing was changed."""
    return problems.from_sqlstate("08006", "the connection to the database was lost")


def unreachable_problem(error: Unreachable | LanesBusy) -> Problem:
    """Nothing was sent, for want of a connection."""
    if isinstance(error, LanesBusy):
        return problems.busy(str(error))
    return problems.from_sqlstate("08001", str(error))
