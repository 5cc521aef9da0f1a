"""SQLSTATEs and PostgREST's codes as problems."""

from __future__ import annotations

import pytest

from gateway.dialects.rows import problems
from gateway.model.problem import Code


@pytest.mark.parametrize(
    "state,status",
    [
        ("23503", 409),
        ("23505", 409),
        ("23502", 400),
        ("23514", 400),
        ("22P02", 400),
        ("22001", 400),
        ("42703", 400),
        ("428C9", 400),
        ("P0001", 400),
        ("99999", 400),
        ("42P01", 404),
        ("42883", 404),
        ("42501", 403),
        ("25006", 405),
        ("08006", 503),
        ("53300", 503),
        ("57P01", 503),
        ("53400", 500),
        ("21000", 500),
        ("42P17", 500),
        ("25001", 500),
        ("58030", 500),
        ("P0004", 500),
        ("XX000", 500),
        ("PT418", 418),
        ("PT503", 503),
        ("PT999", 400),
    ],
)
def test_status_of_a_sqlstate(state: str, status: int) -> None:
    """Each SQLSTATE has the status that PostgREST gives it, and keeps its code and texts."""
    problem = problems.from_sqlstate(state, "m", "d", "h")
    assert problem.status == status
    assert (problem.native, problem.message, problem.details, problem.hint) == (
        state,
        "m",
        "d",
        "h",
    )


@pytest.mark.parametrize("state", ["55P03", "57014", "40001", "40P01"])
def test_waits_are_busy(state: str) -> None:
    """Lock waits, time-outs and failed serialisation are the gateway's own 503, to be retried."""
    problem = problems.from_sqlstate(state, "m")
    assert (problem.code, problem.status, problem.native) == (Code.BUSY, 503, None)
    assert problem.retry_after_s is not None


def test_left_out_features() -> None:
    """A mutation with an unknown feature is operation_not_fenced, a read PGRST127; both name it."""
    written = problems.unsupported("the thing", mutates=True)
    assert (written.status, written.code) == (501, Code.NOT_FENCED)
    read = problems.unsupported("the thing", mutates=False)
    assert (read.status, read.native) == (400, "PGRST127")
    assert "the thing" in written.message
    assert "the thing" in (read.details or "")
