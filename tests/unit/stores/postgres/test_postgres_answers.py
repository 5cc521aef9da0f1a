"""What a statement's answer means: one table, every combination that can come."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.mark import Era, Mark
from gateway.model.problem import Code
from gateway.model.reply import NotModified, Rows
from gateway.model.row_action import DeleteRows, InsertRows, RowWrite, SelectRows, UpdateRows
from gateway.model.token import Holder
from gateway.ports.store import (
    BehindRegistry,
    FencedByStore,
    NotWritten,
    ReadDone,
    ReadRefused,
    WriteResult,
    Written,
)
from gateway.stores.postgres.answers import Asked, judge_fence, judge_read_rows, judge_write

UPDATE = UpdateRows("t", (), (), returning=())
MARK = Mark(Era(2), 5)
MATCH = Conditions(('"1"',), None)
NONE_MATCH = Conditions(None, ("*",))


def record(**values: Any) -> dict[str, Any]:
    """A statement's answer: by default one row written."""
    return {
        "ok": True,
        "era": 2,
        "token": 5,
        "burnt": False,
        "holder": None,
        "rows": 1,
        "body": "[{}]",
        "etag": "3",
        "made": 1,
        "matched": None,
        **values,
    }


@pytest.mark.parametrize(
    "store, expected",
    [
        (None, BehindRegistry(None)),
        (Mark(Era(1), 99), BehindRegistry(Mark(Era(1), 99))),
        (Mark(Era(2), 4, True), BehindRegistry(Mark(Era(2), 4, True))),
        (Mark(Era(2), 6), FencedByStore(Mark(Era(2), 6))),
        (Mark(Era(3), 0), FencedByStore(Mark(Era(3), 0))),
        (Mark(Era(2), 5, True), FencedByStore(Mark(Era(2), 5, True))),
        (Mark(Era(2), 5, False, Holder("x")), FencedByStore(Mark(Era(2), 5, True, Holder("x")))),
    ],
)
def test_a_fence_that_does_not_admit_is_above_or_behind(
    store: Mark | None, expected: WriteResult
) -> None:
    """Era first, then token, then burnt; the same rank with another holder is a burnt token."""
    assert judge_fence(store, MARK) == expected


@pytest.mark.parametrize("rows", [0, 1])
def test_the_fence_comes_before_everything_else(rows: int) -> None:
    """A stale writer learns that it is stale, whatever its condition or its rows would say."""
    stale = record(ok=False, token=6, rows=rows, matched=1)
    for conditions in (NO_CONDITIONS, MATCH, NONE_MATCH):
        result = judge_write(stale, Asked(UPDATE, conditions, MARK))
        assert result == FencedByStore(Mark(Era(2), 6))


@pytest.mark.parametrize(
    "action, conditions, answer, details",
    [
        (UPDATE, MATCH, {"matched": 1}, "another version"),
        (UPDATE, MATCH, {"matched": 0}, "no such row"),
        (UPDATE, Conditions(("*",), None), {"matched": 0}, "no such row"),
        (UPDATE, NONE_MATCH, {"matched": 1}, "there is such a row"),
        (UPDATE, Conditions(None, ('"1"',)), {"matched": 1}, "another version"),
        (InsertRows("t", ()), NONE_MATCH, {}, "a row with this key"),
    ],
)
def test_a_condition_that_did_not_hold_is_412(
    action: RowWrite, conditions: Conditions, answer: dict[str, Any], details: str
) -> None:
    """No row was changed and there was a condition: why it failed is told apart."""
    result = judge_write(record(rows=0, **answer), Asked(action, conditions, MARK))
    assert isinstance(result, NotWritten)
    assert result.problem.code is Code.PRECONDITION_FAILED
    assert details in (result.problem.details or "")


@pytest.mark.parametrize("conditions", [NO_CONDITIONS, NONE_MATCH, Conditions(None, ('"1"',))])
def test_no_such_row_is_no_error(conditions: Conditions) -> None:
    """Zero rows keep the dialect's own answer, also when If-None-Match has nothing to match."""
    answer = record(rows=0, body="[]", etag=None, matched=0)
    result = judge_write(answer, Asked(UPDATE, conditions, MARK))
    assert result == Written(Rows("[]", 0))


@pytest.mark.parametrize("count, passes", [(0, False), (1, True)])
def test_a_singular_answer_needs_its_row(count: int, passes: bool) -> None:
    """None is 406, one passes; more than one never comes here: the database rolled it back."""
    single = UpdateRows("t", (), (), single=True)
    result = judge_write(record(rows=count), Asked(single, NO_CONDITIONS, MARK))
    assert isinstance(result, Written) is passes
    if isinstance(result, NotWritten):
        assert (result.problem.native, result.problem.status) == ("PGRST116", 406)


def test_replies_carry_what_was_asked_for() -> None:
    """Representation only on demand, POST as inserted, the version as an ETag."""
    cases: list[tuple[RowWrite, Rows]] = [
        (UPDATE, Rows("[{}]", 1, etag='"3"')),
        (UpdateRows("t", (), ()), Rows(None, 1, etag='"3"')),
        (InsertRows("t", ()), Rows(None, 1, etag='"3"', inserted=True)),
        (DeleteRows("t", (), ()), Rows("[{}]", 1, etag='"3"')),
    ]
    for action, reply in cases:
        assert judge_write(record(), Asked(action, NO_CONDITIONS, MARK)) == Written(reply)


def test_a_probe_for_conditions_counts_nothing() -> None:
    """An update of no columns found its row, and changed none."""
    result = judge_write(record(body="[]"), Asked(UPDATE, MATCH, MARK, probes_only=True))
    assert isinstance(result, Written)
    assert isinstance(result.reply, Rows)
    assert result.reply.count == 0


def test_an_earlier_attempts_answer_is_given_again() -> None:
    """What was applied stays applied, also when the fence has moved on since."""
    prior = {
        "prior_rows": 2,
        "prior_body": "[1]",
        "prior_etag": "9",
        "prior_id": "w1",
        "prior_made": 0,
    }
    answer = record(ok=False, token=6, rows=0, **prior)
    result = judge_write(answer, Asked(UPDATE, NO_CONDITIONS, MARK))
    assert result == Written(Rows("[1]", 2, etag='"9"'), earlier=True)
    nothing = record(prior_rows=None, prior_body=None, prior_etag=None)
    assert judge_write(nothing, Asked(UPDATE, NO_CONDITIONS, MARK)) == Written(
        Rows("[{}]", 1, etag='"3"')
    )


def read(count: int, version: int | None, **more: Any) -> Any:
    """Judge a read that answered this."""
    answer = {"rows": count, "body": "[]", "version": version, "total": more.pop("total", None)}
    conditions = more.pop("conditions", NO_CONDITIONS)
    exact = more.pop("exact", True)
    return judge_read_rows(answer, SelectRows("t", **more), conditions, exact=exact)


def test_a_reads_etag_is_that_of_one_row_known_by_its_key() -> None:
    """Not of a list that happens to have one row, not of several rows, not without a version."""
    assert read(1, 4).reply.etag == '"4"'
    assert read(1, 4, exact=False, single=True).reply.etag == '"4"'
    assert read(1, 4, exact=False).reply.etag is None
    assert read(2, 4).reply.etag is None
    assert read(1, None).reply.etag is None


def test_conditions_of_a_read() -> None:
    """304 for what the client has, 412 for what it wrongly expects, 406 for not one row."""
    assert read(1, 4, conditions=Conditions(None, ('"4"',))) == ReadDone(NotModified('"4"'))
    failed = read(1, 4, conditions=Conditions(('"5"',), None))
    assert isinstance(failed, ReadRefused)
    assert failed.problem.code is Code.PRECONDITION_FAILED
    assert read(0, None, single=True).problem.native == "PGRST116"
    assert read(2, 4, single=True).problem.native == "PGRST116"
