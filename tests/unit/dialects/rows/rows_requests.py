"""Requests in the rows dialect without a server: a catalogue, a dialect, and what it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from gateway.dialects.rows.dialect import RowsDialect
from gateway.model.catalogue import Catalogue, Column, ColumnKind, Table
from gateway.model.operation import Operation
from gateway.model.problem import Problem
from gateway.model.worker import WorkerKey
from gateway.ports.dialect import Parsed, RawRequest


def column(name: str, kind: ColumnKind = ColumnKind.TEXT, **more: Any) -> Column:
    """A column of a kind."""
    return Column(name, kind.value, kind, **more)


JOBS = Table(
    "jobs",
    (
        column("id", ColumnKind.INTEGER),
        column("name"),
        column("state"),
        column("flag", ColumnKind.BOOLEAN),
        column("version", ColumnKind.INTEGER),
    ),
    ("id",),
    "version",
)
PAIRS = Table("pairs", (column("k1", ColumnKind.INTEGER), column("k2"), column("v")), ("k1", "k2"))
THINGS = Table("things", (column("uid", ColumnKind.UUID), column("odd.na,me")), ("uid",))
PLAIN = Table("plain", (column("a"), column("b")))
CATALOGUE = Catalogue({table.name: table for table in (JOBS, PAIRS, THINGS, PLAIN)})


class Pieces:
    """A body in pieces; `length` as the client announced it."""

    def __init__(self, *pieces: bytes, length: int | None = None) -> None:
        self._pieces = pieces
        self.length = length
        self.read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            self.read += 1
            yield piece


def dialect(keys: Mapping[str, WorkerKey] | None = None, limit: int = 1_000) -> RowsDialect:
    """The dialect over the tables above."""
    return RowsDialect("db", "/db", lambda: CATALOGUE, keys, limit)


def request(
    method: str, target: str, body: bytes | Pieces = b"", **fields: str | list[str]
) -> RawRequest:
    """A request as the edge hands it on; a list of values becomes several fields."""
    path, _, query = target.partition("?")
    sent = [
        (name.replace("_", "-").encode(), value.encode("latin-1"))
        for name, values in fields.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    return RawRequest(
        method=method,
        path=f"/db{path}".encode(),
        query=query.encode(),
        fields=tuple(sent),
        request_id="r1",
        host="h",
        https=False,
        arrived_s=0.0,
        body=body if isinstance(body, Pieces) else Pieces(body, length=len(body)),
    )


async def parsed(
    method: str, target: str, body: bytes | Pieces = b"", **fields: str | list[str]
) -> Parsed:
    """What the dialect makes of a request that it understands."""
    found = await dialect().parse(request(method, target, body, **fields))
    assert isinstance(found, Parsed), found
    return found


async def operation(
    method: str, target: str, body: bytes | Pieces = b"", **fields: str | list[str]
) -> Operation:
    """The operation of a request that the dialect understands."""
    return (await parsed(method, target, body, **fields)).operation


async def refused(
    method: str, target: str, body: bytes | Pieces = b"", **fields: str | list[str]
) -> Problem:
    """The problem of a request that the dialect refuses."""
    found = await dialect().parse(request(method, target, body, **fields))
    assert isinstance(found, Problem), found
    return found
