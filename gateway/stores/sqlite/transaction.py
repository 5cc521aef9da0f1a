"""What happens inside the writing transaction: check the fence, write, keep the answer.

Every function here runs on the writer's thread, inside BEGIN IMMEDIATE … COMMIT: check and
write are one step (facts of the engine: a deferred BEGIN or a check before it lets stale writes
commit after newer ones).
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import assert_never

from gateway.dialects.rows.etags import ANY, etag_of
from gateway.dialects.rows.problems import (
    RequestError,
    not_one_row,
    precondition_failed,
    too_many_affected,
)
from gateway.model.catalogue import Catalogue, Column, Table
from gateway.model.conditions import Conditions
from gateway.model.mark import Mark, Scope
from gateway.model.operation import Operation
from gateway.model.reply import Rows
from gateway.model.row_action import DeleteRows, InsertRow, RowWrite, UpdateRows
from gateway.ports.store import WriteFence, WriteResult, Written
from gateway.stores.sqlite import sql, witness
from gateway.stores.sqlite.result import Found, collect, shown_columns


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
    """Run a mutation's statement, fence aside. Raises RequestError or sqlite3.Error to undo it."""
    action, conditions = operation.action, operation.conditions
    assert isinstance(action, InsertRow | UpdateRows | DeleteRows)
    table = catalogue.tables[action.table]
    shown = None if action.returning is None else shown_columns(table, action.returning)
    # The representation, or as little as counts the rows; the version becomes the ETag.
    read = table.columns[:1] if shown is None else shown
    version = sql.version_of(table)
    if version is not None and version not in read:
        read = (*read, version)
    found = _execute(connection, table, action, conditions, read, shown)
    if isinstance(action, UpdateRows) and not action.members:
        found = Found(0, None, None if shown is None else "[]")
    _check_count(action, found.count)
    return Rows(
        json=found.json,
        count=found.count,
        etag=None if version is None else _etag(operation, action, found, read.index(version)),
        inserted=isinstance(action, InsertRow),
    )


def _execute(
    connection: sqlite3.Connection,
    table: Table,
    action: RowWrite,
    conditions: Conditions,
    read: tuple[Column, ...],
    shown: tuple[Column, ...] | None,
) -> Found:
    """Run the one statement that writes; without rows, tell why if a condition is to blame."""
    piece = _statement(table, action, conditions, read)
    found = collect(connection.execute(piece.sql, piece.values), read, shown)
    if found.count == 0 and conditions:
        _explain(connection, table, action, conditions)
    return found


def _statement(
    table: Table, action: RowWrite, conditions: Conditions, read: tuple[Column, ...]
) -> sql.Piece:
    match action:
        case InsertRow():
            return sql.insert(table, action, read, only_new=conditions.if_none_match == ANY)
        case UpdateRows(members=()):
            return sql.select_one(table, action.filters, read, conditions)
        case UpdateRows():
            return sql.update(table, action, conditions, read)
        case DeleteRows():
            return sql.delete(table, action, conditions, read)
        case _:
            assert_never(action)


def _explain(
    connection: sqlite3.Connection, table: Table, action: RowWrite, conditions: Conditions
) -> None:
    """No row was written under a condition. Raises RequestError unless there is no row at all."""
    if isinstance(action, InsertRow):
        raise RequestError(precondition_failed("a row with this key exists already"))
    piece = sql.select_one(table, action.filters, table.columns[:1])
    if connection.execute(piece.sql, piece.values).fetchone() is not None:
        raise RequestError(precondition_failed("the row has another version"))
    if conditions.if_match is not None:
        raise RequestError(precondition_failed("there is no such row"))


def _check_count(action: RowWrite, count: int) -> None:
    """Undo what touched another number of rows than the client allows. Raises RequestError."""
    if action.single and count != 1:
        raise RequestError(not_one_row(count))
    if isinstance(action, InsertRow) or action.max_affected is None:
        return
    if count > action.max_affected:
        raise RequestError(too_many_affected(count))


def _etag(operation: Operation, action: RowWrite, found: Found, at: int) -> str | None:
    """The ETag of the one row written; a row that is gone has none."""
    if found.count != 1 or found.first is None or isinstance(action, DeleteRows):
        return None
    version = found.first[at]
    tagged = isinstance(version, int) and (operation.resource.exact or action.single)
    return etag_of(version) if tagged else None
