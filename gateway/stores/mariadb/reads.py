"""The statements of a read, and what their answer means."""

from __future__ import annotations

from typing import Final

from gateway.dialects.rows import problems
from gateway.dialects.rows.etags import etag_of, judge_read
from gateway.model.catalogue import Table
from gateway.model.operation import Operation
from gateway.model.problem import Problem
from gateway.model.reply import NotModified, Rows
from gateway.model.row_action import SelectRows
from gateway.stores.mariadb import sql
from gateway.stores.mariadb.changes import Result
from gateway.stores.mariadb.predicates import filters_sql, order_sql
from gateway.stores.mariadb.readout import Readout
from gateway.stores.mariadb.sql import Sql, compose, table_name

_READ: Final = "SELECT {shown} FROM {table} WHERE {where}{order} LIMIT {limit} OFFSET {offset}"
_COUNT: Final = "SELECT COUNT(*) FROM {table} WHERE {where}"
_BEGIN: Final = Sql("START TRANSACTION WITH CONSISTENT SNAPSHOT")
_COMMIT: Final = Sql("COMMIT")
_NO_LIMIT: Final = 2**64 - 1


def build_read(table: Table, action: SelectRows, shown: Readout) -> list[Sql]:
    """The rows; with a count between BEGIN and COMMIT, of one snapshot. Raises RequestError."""
    where = filters_sql(table, action.filters)
    limit = _NO_LIMIT if action.limit is None else min(action.limit, _NO_LIMIT)
    rows = compose(
        _READ,
        shown=shown.sql,
        table=table_name(table),
        where=where,
        order=order_sql(table, action.order),
        limit=sql.number(limit),
        offset=sql.number(min(action.offset, _NO_LIMIT)),
    )
    if action.count is None:
        return [rows]
    counted = compose(_COUNT, table=table_name(table), where=where)
    return [_BEGIN, rows, counted, _COMMIT]


def judge(
    operation: Operation, action: SelectRows, shown: Readout, results: list[Result]
) -> Rows | NotModified | Problem:
    """Turn the results into the answer. Raises RequestError."""
    total = None
    rows = results[0].rows
    if action.count is not None:
        rows, total = results[1].rows, int(results[2].rows[0][0] or 0)
    found = shown.collect(rows)
    version = found.version if found.count == 1 else None
    if found.count <= 1 and operation.conditions:
        verdict = judge_read(operation.conditions, version)
        if verdict is not None:
            return verdict
    if action.single and found.count != 1:
        return problems.not_one_row(found.count)
    if total is not None and found.count == 0 and action.offset > 0 and action.offset >= total:
        return problems.beyond_the_end(action.offset, total)
    tagged = version is not None and (operation.resource.exact or action.single)
    etag = etag_of(version) if tagged and version is not None else None
    return Rows(found.text, found.count, action.offset, etag, total=total)
