"""What an exception of the driver means, by SQLSTATE and severity."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from gateway.engine.bulkhead import LanesBusy
from gateway.model.problem import Code
from gateway.stores.postgres.failures import (
    Unreachable,
    Way,
    is_driver_error,
    understand,
    unreachable_problem,
)


def server_error(state: str, severity: str = "ERROR", message: str = "m", **more: str) -> Exception:
    """An error as the server sends it: field letters are those of the protocol."""
    letters = {"schema": "s", "table": "t", "constraint": "n", "detail": "D", "hint": "H"}
    fields = {letters[name]: value for name, value in more.items()}
    error: Exception = asyncpg.PostgresError.new(
        {"S": severity, "V": severity, "C": state, "M": message, **fields}
    )
    return error


@pytest.mark.parametrize(
    "state, way, status",
    [
        ("23505", Way.ANSWER, 409),
        ("23503", Way.ANSWER, 409),
        ("23514", Way.ANSWER, 400),
        ("22P02", Way.ANSWER, 400),
        ("42501", Way.ANSWER, 403),
        ("25006", Way.ANSWER, 405),
        ("54000", Way.ANSWER, 500),
        ("53100", Way.ANSWER, 503),
        ("PT418", Way.ANSWER, 418),
        ("55P03", Way.ANSWER, 503),
        ("57014", Way.ANSWER, 503),
        ("40001", Way.AGAIN, 503),
        ("40P01", Way.AGAIN, 503),
        ("26000", Way.REPREPARE, 400),
        ("0A000", Way.REPREPARE, 400),
        ("42P01", Way.RELOAD, 404),
        ("42703", Way.RELOAD, 400),
        ("42804", Way.RELOAD, 400),
        ("08006", Way.LOST, 503),
    ],
)
def test_the_way_on_goes_by_sqlstate(state: str, way: Way, status: int) -> None:
    """One table decides, whatever Python class the driver has for a code, also for none."""
    failure = understand(server_error(state))
    assert (failure.way, failure.problem.status) == (way, status)


@pytest.mark.parametrize("state", ["55P03", "57014", "40001", "40P01"])
def test_waiting_too_long_is_busy_with_a_time_to_come_back(state: str) -> None:
    """Such a write was rolled back, so the client may send it again."""
    problem = understand(server_error(state)).problem
    assert (problem.code, problem.retry_after_s) == (Code.BUSY, 1)


@pytest.mark.parametrize("severity", ["FATAL", "PANIC"])
@pytest.mark.parametrize("state", ["57P01", "57P02", "XX000", "23505"])
def test_a_fatal_error_is_a_lost_connection(state: str, severity: str) -> None:
    """The session ends with it, and how its transaction ended is not said."""
    assert understand(server_error(state, severity)).way is Way.LOST


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.InternalClientError("cannot switch to state 12"),
        ConnectionResetError(),
        TimeoutError(),
        asyncpg.ConnectionDoesNotExistError("closed in the middle"),
    ],
)
def test_whatever_is_no_answer_of_the_server_is_lost(error: Exception) -> None:
    """No answer: only the database can tell how the statement ended."""
    assert is_driver_error(error)
    assert understand(error).way is Way.LOST


def test_mistakes_of_ours_are_not_taken_for_the_databases() -> None:
    """A TypeError is a bug: it surfaces instead of being answered."""
    assert not is_driver_error(TypeError("x"))
    assert not is_driver_error(KeyError("x"))


@pytest.mark.parametrize(
    "state, message, native", [("PT406", "3", "PGRST116"), ("PT400", "7", "PGRST124")]
)
def test_row_limits_speak_the_dialects_words(state: str, message: str, native: str) -> None:
    """The fence's own errors are told from a user trigger's by their schema."""
    ours = understand(server_error(state, message=message, schema="fencegate")).problem
    assert (ours.native, message in (ours.details or "")) == (native, True)
    theirs = understand(server_error(state, message="no")).problem
    assert (theirs.native, theirs.message) == (state, "no")


def test_twins_and_voids_are_told_apart() -> None:
    """Another attempt at the same request: look again. A voided id: given up on, for good."""
    common: dict[str, Any] = {"schema": "fencegate", "table": "request"}
    twin = understand(server_error("23505", constraint="request_retry", **common))
    void = understand(server_error("23505", constraint="request_pkey", **common))
    assert (twin.way, void.way) == (Way.AGAIN, Way.ANSWER)
    assert void.problem.code is Code.BUSY


def test_words_of_the_server_are_passed_on() -> None:
    """Message, detail and hint are the database's own."""
    problem = understand(server_error("23514", message="m", detail="d", hint="h")).problem
    assert (problem.message, problem.details, problem.hint) == ("m", "d", "h")


def test_without_a_connection_nothing_was_sent() -> None:
    """No free connection is busy; none at all is the dialect's 503."""
    assert unreachable_problem(LanesBusy("b")).code is Code.BUSY
    assert unreachable_problem(Unreachable("u")).status == 503
