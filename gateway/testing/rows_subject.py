"""What the rows contract runs against: an engine with the kit's tables, and a client of a store.

The client speaks the wire language, so that each law holds the dialect and the store together to
the answer that a worker sees.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol
from urllib.parse import quote
from uuid import uuid4

from gateway.dialects.rows.dialect import RowsDialect
from gateway.model.catalogue import Catalogue
from gateway.model.mark import Era, Mark, Scope
from gateway.model.operation import Operation
from gateway.model.outcome import Applied, Outcome, ReadFailed, ReadOk, Refused, Unknown
from gateway.model.problem import Code, Problem
from gateway.model.version import NotLooked
from gateway.model.write_id import request_name, write_id_of
from gateway.policy.document import TableSettings
from gateway.ports.dialect import Parsed, RawRequest, Reply
from gateway.ports.store import (
    BehindRegistry,
    FencedByStore,
    MaybeWritten,
    NotWritten,
    ReadDone,
    ReadRefused,
    Store,
    WriteFence,
    WriteResult,
    Written,
)

KIT_TABLES: Final = MappingProxyType(
    {
        "jobs": "CREATE TABLE jobs(id integer PRIMARY KEY, name text NOT NULL, "
        "state text NOT NULL DEFAULT 'new', result text, version integer NOT NULL DEFAULT 1)",
        "pairs": "CREATE TABLE pairs(k1 integer NOT NULL, k2 text NOT NULL, extra integer, "
        "PRIMARY KEY (k1, k2))",
        "kinds": "CREATE TABLE kinds(id bigint PRIMARY KEY, size integer CHECK (size >= 0), "
        "code text UNIQUE, ratio double precision, flag boolean, uid uuid)",
        "things": "CREATE TABLE things(uid uuid PRIMARY KEY, name text)",
        "plain": "CREATE TABLE plain(a text, b integer)",
        "effects": "CREATE TABLE effects(id integer PRIMARY KEY, owner bigint NOT NULL, note text)",
    }
)
"""The kit's tables in SQL that every engine takes, by name; a new database for each law.

`owner` in `effects` is the token of the worker that touches the row.
"""

KIT_SETTINGS: Final = MappingProxyType(
    {
        name: TableSettings(version_column="version" if name == "jobs" else None)
        for name in KIT_TABLES
    }
)

SCOPE: Final = Scope("kit")
MOUNT: Final = "/db"


class RowsStore(Store, Protocol):
    """A rows store: the store port, and the tables that workers may reach."""

    def catalogue(self) -> Catalogue:
        """The tables as they were when last looked at."""
        ...


class RowsHarness(Protocol):
    """One engine under test, with an empty database of its own."""

    async def open(self) -> RowsStore:
        """Open and probe another store object on the same database: another replica."""
        ...

    async def execute(self, sql: str) -> None:
        """Run a statement as a client that does not go through the gateway."""
        ...

    async def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """Read as a client that does not go through the gateway."""
        ...

    async def effects(self) -> list[int]:
        """The tokens of all changes to table `effects` since the last call, in commit order.

        Read from a log that the engine writes in the same transaction (a trigger's table, the
        write-ahead log): the new row's owner, or a deleted row's.
        """
        ...

    def stall(self, seed: int) -> None:
        """From now on let all stores stall at random before their statements and commits."""
        ...


def mark(token: int, *, era: int = 1, burnt: bool = False) -> Mark:
    """A mark for a law, in few words."""
    return Mark(Era(era), token, burnt)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one request: the wire answer, and for a mutation the store's own result."""

    reply: Reply
    result: WriteResult | None = None
    problem: Problem | None = None

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.reply.status

    @property
    def json(self) -> Any:
        """The body as JSON, None when it is empty."""
        assert isinstance(self.reply.body, bytes)
        return json.loads(self.reply.body) if self.reply.body else None

    def field(self, name: str) -> str | None:
        """One field of the answer."""
        values = [v.decode("latin-1") for k, v in self.reply.fields if k == name.encode()]
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None

    @property
    def etag(self) -> str:
        """The ETag, which must be there."""
        found = self.field("etag")
        assert found is not None, f"no ETag in {self.reply.fields}"
        return found

    @property
    def code(self) -> str:
        """The code of an error answer."""
        code: str = self.json["code"]
        return code


@dataclass(slots=True)
class Client:
    """A worker with a token, and as much of the engine as a store needs: a mark and a gate."""

    store: RowsStore
    mark: Mark = field(default_factory=lambda: mark(1))
    scope: Scope = SCOPE
    gate: Callable[[], Problem | None] = lambda: None

    async def get(self, target: str, **fields: str) -> Answer:
        """Read."""
        return await self.send("GET", target, **fields)

    async def post(self, target: str, body: object, **fields: str) -> Answer:
        """Insert one row."""
        return await self.send("POST", target, body, **fields)

    async def patch(self, target: str, body: object, **fields: str) -> Answer:
        """Change rows."""
        return await self.send("PATCH", target, body, **fields)

    async def delete(self, target: str, **fields: str) -> Answer:
        """Remove rows."""
        return await self.send("DELETE", target, **fields)

    async def ready(self) -> Client:
        """Commit the client's mark in the store, as the engine does after a raise."""
        assert await self.store.carry(self.scope, self.mark) is None
        return self

    async def send(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        write_id: str | None = None,
        previous: str | None = None,
        **fields: str,
    ) -> Answer:
        """Send one request through dialect and store. `body` bytes go as they are, else as JSON.

        Field names are given with underscores: `if_match='"1"'`.
        """
        dialect = RowsDialect("db", MOUNT, self.store.catalogue, keys=None)
        request = self._request(method, target, body, fields)
        parsed = await dialect.parse(request)
        if isinstance(parsed, Reply):
            return Answer(parsed)
        if isinstance(parsed, Problem):
            return Answer(dialect.render(request, None, Refused(parsed)), problem=parsed)
        outcome: Outcome
        if not parsed.operation.kind.mutates:
            read = await self.store.read(parsed.operation)
            outcome = ReadOk(read.reply) if isinstance(read, ReadDone) else ReadFailed(read.problem)
            refused = read.problem if isinstance(read, ReadRefused) else None
            return Answer(dialect.render(request, parsed, outcome), problem=refused)
        operation = parsed.operation
        new_id = write_id_of(request_name(operation, self.scope), uuid4().hex)
        fence = self.fence(write_id or new_id, previous)
        result = await self.store.write(operation, parsed.body, fence)
        outcome = _outcome(result)
        refused = outcome.problem if isinstance(outcome, Refused | Unknown) else None
        return Answer(dialect.render(request, parsed, outcome), result, refused)

    def fence(self, write_id: str, previous: str | None = None) -> WriteFence:
        """What the engine would hand to the store with a write."""
        return WriteFence(
            scope=self.scope,
            mark=self.mark,
            write_id=write_id,
            looked=NotLooked(),
            gate=self.gate,
            previous_write_id=previous,
        )

    async def operation(
        self, method: str, target: str, body: object = None, **fields: str
    ) -> Operation:
        """What the dialect makes of a request, for what is asked about it afterwards."""
        dialect = RowsDialect("db", MOUNT, self.store.catalogue, keys=None)
        parsed = await dialect.parse(self._request(method, target, body, fields))
        assert isinstance(parsed, Parsed)
        return parsed.operation

    def _request(
        self, method: str, target: str, body: object, fields: Mapping[str, str]
    ) -> RawRequest:
        path, _, query = target.partition("?")
        content = b""
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {name.replace("_", "-").lower(): value for name, value in fields.items()}
        sent["x-fence-token"] = str(self.mark.token or 1)
        return RawRequest(
            method=method,
            path=(MOUNT + quote(path)).encode(),
            query=quote(query, safe="&=%+").encode(),
            fields=tuple((k.encode(), v.encode("latin-1")) for k, v in sent.items()),
            request_id="kit",
            host="kit",
            https=False,
            arrived_s=0.0,
            body=_Bytes(content),
        )

    def at(self, token: int) -> Client:
        """The same client with another token."""
        return dataclasses.replace(self, mark=mark(token))


class _Bytes:
    """A body that has arrived."""

    def __init__(self, content: bytes) -> None:
        self.length: int | None = len(content)
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield it in one piece."""
        yield self._content


def _outcome(result: WriteResult) -> Outcome:
    match result:
        case Written(reply):
            return Applied(reply)
        case NotWritten(problem):
            return Refused(problem)
        case MaybeWritten(problem):
            return Unknown(problem)
        case FencedByStore() | BehindRegistry():
            return Refused(_fence_problem(result))


def _fence_problem(result: FencedByStore | BehindRegistry) -> Problem:
    if isinstance(result, FencedByStore):
        return Problem(Code.TOKEN_STALE, "the store's fence stands above the token")
    return Problem(Code.BUSY, "the store's fence stands below the token")


async def client(harness: RowsHarness, token: int = 1) -> Client:
    """A client on a new store object, with its mark committed there."""
    return await Client(await harness.open(), mark(token)).ready()
