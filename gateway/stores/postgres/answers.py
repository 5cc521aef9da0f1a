"""Owns what a statement's answer means: stale, behind, refused, written (pure, no I/O).

Told apart in this order, all from one answer: an earlier attempt of the same request, the fence,
the number of rows, the client's condition. Zero rows are not a fence question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.dialects.rows import problems
from gateway.dialects.rows.etags import ANY, etag_of, judge_read
from gateway.engine.refusals import key_reused
from gateway.model.conditions import Conditions
from gateway.model.mark import Era, Mark
from gateway.model.problem import Problem
from gateway.model.reply import NotModified, Rows
from gateway.model.row_action import InsertRows, RowWrite, SelectRows
from gateway.model.token import Holder
from gateway.model.write_id import name_in
from gateway.ports.store import (
    BehindRegistry,
    FencedByStore,
    NotWritten,
    ReadDone,
    ReadRefused,
    ReadResult,
    WriteResult,
    Written,
)

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the client asked for, as far as its answer depends on it.

    `content` is that of the request's name, where the client gave it a key.
    """

    action: RowWrite
    conditions: Conditions
    mark: Mark
    probes_only: bool = False
    content: str | None = None


def mark_of(record: Record) -> Mark | None:
    """Read a fence row; None when the scope has none."""
    if record["era"] is None:
        return None
    holder = record["holder"]
    return Mark(
        Era(record["era"]),
        record["token"],
        record["burnt"],
        None if holder is None else Holder(holder),
    )


def judge_write(record: Record, asked: Asked) -> WriteResult:
    """Turn the answer of a write's statement into its result."""
    if record.get("prior_rows") is not None:
        return judge_prior(record, asked.action, asked.content)
    if not record["ok"]:
        return judge_fence(mark_of(record), asked.mark)
    count = record["rows"]
    if count == 0 and (refusal := _unmet(asked.conditions, asked.action, record["matched"])):
        return NotWritten(refusal)
    if asked.probes_only:
        count = 0
    if asked.action.single and count != 1:
        return NotWritten(problems.not_one_row(count))
    made = record["made"]
    return Written(rows_reply(asked.action, count, record["body"], record["etag"], made))


def judge_prior(record: Record, action: RowWrite, content: str | None) -> WriteResult:
    """An earlier attempt's answer; refused when the key was used for another request."""
    before = name_in(record["prior_id"])
    if before is not None and before.content != content:
        return NotWritten(key_reused())
    reply = rows_reply(
        action,
        record["prior_rows"],
        record["prior_body"],
        record["prior_etag"],
        record["prior_made"],
    )
    return Written(reply, earlier=True)


def judge_fence(store: Mark | None, ours: Mark) -> WriteResult:
    """Tell why the fence row did not admit a write under `ours`.

    A row of the same rank that does not admit it is burnt, or is bound to another holder, which
    is the same: one token in two hands.
    """
    if store is None or store.rank < ours.rank:
        return BehindRegistry(store)
    if store.rank > ours.rank:
        return FencedByStore(store)
    return FencedByStore(store._replace(burnt=True))


def _unmet(conditions: Conditions, action: RowWrite, matched: int | None) -> Problem | None:
    if not conditions:
        return None
    if isinstance(action, InsertRows):
        return problems.precondition_failed("there is a row with this key")
    if matched:
        if conditions.if_none_match == ANY:
            return problems.precondition_failed("there is such a row")
        return problems.precondition_failed("the row has another version")
    if conditions.if_match is not None:
        return problems.precondition_failed("there is no such row")
    return None


def rows_reply(
    action: RowWrite, count: int, body: str | None, version: str | None, made: int | None
) -> Rows:
    """The reply of a write. A representation that was too long to keep is not given again."""
    return Rows(
        json=None if action.returning is None else body,
        count=count,
        etag=None if version is None else etag_of(int(version)),
        inserted=isinstance(action, InsertRows) and made != 0,
    )


def judge_read_rows(
    record: Record, action: SelectRows, conditions: Conditions, *, exact: bool
) -> ReadResult:
    """Turn the answer of a read's statement into its result."""
    count, version = record["rows"], record["version"]
    match judge_read(conditions, version if count == 1 else None):
        case Problem() as problem:
            return ReadRefused(problem)
        case NotModified() as known:
            return ReadDone(known)
        case None:
            pass
    if action.single and count != 1:
        return ReadRefused(problems.not_one_row(count))
    total = record["total"]
    if total is not None and count == 0 and action.offset > 0 and action.offset >= total:
        return ReadRefused(problems.beyond_the_end(action.offset, total))
    etag = None
    if version is not None and count == 1 and (exact or action.single):
        etag = etag_of(version)
    return ReadDone(Rows(record["body"], count, action.offset, etag, total=total))
