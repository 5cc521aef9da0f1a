"""Operations and fences as the engine would hand them to the store."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.mark import Era, Mark, Scope
from gateway.model.operation import Kind, Operation
from gateway.model.problem import Problem
from gateway.model.resource import Resource
from gateway.model.row_action import (
    Comparison,
    DeleteRows,
    Filter,
    InsertRows,
    Member,
    RowRead,
    RowWrite,
    Selected,
    Selection,
    SelectRows,
    UpdateRows,
)
from gateway.model.token import Holder, Token
from gateway.model.version import NotLooked
from gateway.ports.store import WriteFence
from gateway.stores.postgres.store import PostgresStore


class NoBody:
    """Rows come inside the operation; the body has been read by then."""

    length = 0

    async def __aiter__(self) -> Any:
        return
        yield b""


def members(**values: object) -> tuple[Member, ...]:
    """A JSON object's members, values as JSON text."""
    return tuple(Member(name, json.dumps(value)) for name, value in values.items())


def equal(column: str, value: object) -> Filter:
    """`column=eq.value`."""
    return Filter(column, Comparison.EQ, (str(value),))


def shown(names: tuple[str, ...] | None) -> Selection | None:
    """These columns, as they are."""
    return None if names is None else tuple(map(Selected, names))


def insert(table: str, returning: tuple[str, ...] | None = None, **values: object) -> InsertRows:
    """A row to insert."""
    return InsertRows(table, (members(**values),), returning=shown(returning))


def update(
    table: str, key: int, returning: tuple[str, ...] | None = None, **values: object
) -> UpdateRows:
    """A change of the row with this `id`."""
    return UpdateRows(table, members(**values), (equal("id", key),), returning=shown(returning))


def delete(table: str, key: int, returning: tuple[str, ...] | None = None) -> DeleteRows:
    """The removal of the row with this `id`."""
    return DeleteRows(table, (equal("id", key),), returning=shown(returning))


def select(table: str, *filters: Filter, **more: Any) -> SelectRows:
    """A read."""
    return SelectRows(table, filters=filters, **more)


def operation(
    action: RowWrite | RowRead,
    *,
    token: int = 1,
    conditions: Conditions = NO_CONDITIONS,
    exact: bool = True,
    retry_key: str | None = None,
) -> Operation:
    """An operation on one row of the store `db`, unless `exact` is False."""
    kinds = {SelectRows: Kind.READ, DeleteRows: Kind.DELETE}
    return Operation(
        resource=Resource("db", f"{action.table}/x" if exact else action.table, exact),
        route=f"/db/{action.table}",
        kind=kinds.get(type(action), Kind.WRITE),
        method="POST",
        action=action,
        token=Token(token),
        conditions=conditions,
        retry_key=retry_key,
    )


def mark_at(token: int, *, era: int = 1, burnt: bool = False, holder: str | None = None) -> Mark:
    """A mark."""
    return Mark(Era(era), token, burnt, None if holder is None else Holder(holder))


def fence(
    mark: Mark,
    *,
    scope: str = "jobs",
    write_id: str | None = None,
    gate: Callable[[], Problem | None] = lambda: None,
    **more: Any,
) -> WriteFence:
    """What the engine gives a write along: by default with an open gate."""
    return WriteFence(
        Scope(scope), mark, write_id or uuid.uuid4().hex, NotLooked(), gate=gate, **more
    )


async def write(
    store: PostgresStore,
    action: RowWrite,
    token: int = 1,
    *,
    scope: str = "jobs",
    write_id: str | None = None,
    **more: Any,
) -> Any:
    """One write under a token, as an engine with this mark would send it."""
    return await store.write(
        operation(action, token=token, **more),
        NoBody(),
        fence(mark_at(token), scope=scope, write_id=write_id),
    )
