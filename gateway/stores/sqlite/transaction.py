"""What happens inside the writing transaction: check the fence, write, keep the answer.

Every function here runs on the writer's thread, inside BEGIN IMMEDIATE … COMMIT: check and
write are one step (facts of the engine: a deferred BEGIN or a check before it lets stale writes
commit after newer ones).
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any, assert_never

from gateway.dialects.rows.etags import ANY, etag_of
from gateway.dialects.rows.problems import (
    RequestError,
    not_one_row,
    precondition_failed,
    too_many_affected,
)
from gateway.model.catalogue import Catalogue, Table
from gateway.model.conditions import Conditions
from gateway.model.mark import Mark, Scope
from gateway.model.operation import Operation
from gateway.model.reply import Rows
from gateway.model.row_action import Conflict, DeleteRows, InsertRows, RowWrite, UpdateRows
from gateway.ports.store import WriteFence, WriteResult, Written
from gateway.stores.sqlite import sql, witness
from gateway.stores.sqlite.predicates import Piece
from gateway.stores.sqlite.result import Found, Readout, collect, nothing_found, readout


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One admitted mutation."""

    operation: Operation
    fence: WriteFence


@dataclass(frozen=True, slots=True)
class CarryJob:
    """One raise of a fence row."""

    scope: Scope
    mark: Mark


def run_write(connection: sqlite3.Connection, catalogue: Catalogue, job: WriteJob) -> WriteResult:
    """Carry one mutation out, or say why not. Raises RequestError or sqlite3.Error to undo it."""
    earlier = witness.recall(connection, job.operation, job.fence)
    if earlier is not None:
        return earlier
    refused = witness.judge(connection, job.fence)
    if refused is not None:
        return refused
    reply = apply(connection, catalogue, job.operation)
    witness.record(connection, job.operation, job.fence, reply)
    return Written(reply)


def settle_write(connection: sqlite3.Connection, write_id: str) -> Rows | None:
    """Find out how a write ended, in a transaction of its own. Raises sqlite3.Error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = witness.find_out(connection, write_id)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return found


def apply(connection: sqlite3.Connection, catalogue: Catalogue, operation: Operation) -> Rows:
    """Run a mutation's statements, fence aside. Raises RequestError or sqlite3.Error to undo it."""
    action, conditions = operation.action, operation.conditions
    assert isinstance(action, InsertRows | UpdateRows | DeleteRows)
    table = catalogue.tables[action.table]
    shown = readout(table, action.returning, csv=action.csv)
    made = 0
    match action:
        case InsertRows():
            found, made = _insert(connection, table, action, conditions, shown)
        case UpdateRows(members=()):
            piece = sql.select_one(table, action.filters, shown, conditions)
            found = _changed(connection, piece, table, action, conditions, shown)
            found = nothing_found(shown)
        case UpdateRows():
            piece = sql.update(table, action, conditions, shown)
            found = _changed(connection, piece, table, action, conditions, shown)
        case DeleteRows():
            piece = sql.delete(table, action, conditions, shown)
            found = _changed(connection, piece, table, action, conditions, shown)
        case _:
            assert_never(action)
    _check_count(action, found.count)
    return Rows(
        json=found.text,
        count=found.count,
        etag=_etag(operation, action, found) if shown.versioned else None,
        inserted=made > 0 or (isinstance(action, InsertRows) and not action.rows),
    )


def _insert(
    connection: sqlite3.Connection,
    table: Table,
    action: InsertRows,
    conditions: Conditions,
    shown: Readout,
) -> tuple[Found, int]:
    """Insert row by row, each with the defaults that it needs; tells how many were not there."""
    conflict, made = action.conflict, 0
    if conditions.if_none_match == ANY:
        conflict = Conflict(table.primary_key, merge=False)
    rows: list[tuple[Any, ...]] = []
    for row in action.rows:
        look = None if conflict is None else sql.standing(table, row, conflict)
        stood = look is not None and connection.execute(look.sql, look.values).fetchone()
        piece = sql.insert(table, row, shown, conflict)
        written = connection.execute(piece.sql, piece.values).fetchall()
        made += len(written) if not stood else 0
        rows.extend(written)
    if not rows and conditions.if_none_match == ANY:
        raise RequestError(precondition_failed("a row with this key exists already"))
    return collect(rows, shown), made


def _changed(
    connection: sqlite3.Connection,
    piece: Piece,
    table: Table,
    action: UpdateRows | DeleteRows,
    conditions: Conditions,
    shown: Readout,
) -> Found:
    """Run the one statement that writes; without rows, tell why if a condition is to blame."""
    found = collect(connection.execute(piece.sql, piece.values), shown)
    if found.count == 0 and conditions:
        _explain(connection, table, action, conditions)
    return found


def _explain(
    connection: sqlite3.Connection,
    table: Table,
    action: UpdateRows | DeleteRows,
    conditions: Conditions,
) -> None:
    """No row was written under a condition. Raises RequestError unless there is no row at all."""
    piece = sql.select_one(table, action.filters, readout(table, None))
    if connection.execute(piece.sql, piece.values).fetchone() is not None:
        raise RequestError(precondition_failed("the row has another version"))
    if conditions.if_match is not None:
        raise RequestError(precondition_failed("there is no such row"))


def _check_count(action: RowWrite, count: int) -> None:
    """Undo what touched another number of rows than the client allows. Raises RequestError."""
    if action.single and count != 1:
        raise RequestError(not_one_row(count))
    if isinstance(action, InsertRows) or action.max_affected is None:
        return
    if count > action.max_affected:
        raise RequestError(too_many_affected(count))


def _etag(operation: Operation, action: RowWrite, found: Found) -> str | None:
    """The ETag of the one row written; a row that is gone has none."""
    if found.count != 1 or isinstance(action, DeleteRows):
        return None
    tagged = isinstance(found.version, int) and (operation.resource.exact or action.single)
    return etag_of(found.version) if tagged and isinstance(found.version, int) else None
