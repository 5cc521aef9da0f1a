"""The store under test, as the object-store contract drives it (CONTRIBUTING.md, habit 10).

Knows no test runner. Laws raise `AssertionError` with a text that tells what was seen.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.mark import NO_MARK, Era, Mark, Scope
from gateway.model.object_action import DeleteObject, Fields, GetObject, PutObject
from gateway.model.operation import Action, Kind, Operation
from gateway.model.problem import Code, Problem
from gateway.model.reply import ObjectFound
from gateway.model.resource import Resource
from gateway.model.token import Token
from gateway.model.version import Absent, Look, NotLooked, Present
from gateway.ports.body import BodyError
from gateway.ports.store import (
    NotWritten,
    ReadDone,
    ReadRefused,
    ReadResult,
    Store,
    WriteFence,
    WriteResult,
    Written,
)

T = TypeVar("T")
DEADLINE_S: Final = 15.0
"""Nothing that a law waits for may take longer than this."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What the store under test claims; laws it does not claim are left out, never waived.

    `bucketed`: keys live in buckets and can be listed. `exact`: `carry` alone fences, whatever the
    gate answers. `etag_unique`: two writes of equal bytes have different tags. `replays`: a write
    recognises its `previous_write_id`. `unknown_length`: bodies may come without a length.
    `stamped`: what was written tells under which token. `numbered`: `Subject.journal` tells the
    real order of effects. `absent_code`: the answer to If-Match on something that is not there.
    `race_losers`: further codes that losers of a race may get besides `precondition_failed`.
    """

    bucketed: bool
    conditions: bool = True
    exact: bool = True
    etag_unique: bool = True
    replays: bool = True
    unknown_length: bool = True
    stamped: bool = True
    numbered: bool = False
    absent_code: Code = Code.PRECONDITION_FAILED
    race_losers: frozenset[Code] = frozenset()


class Effect(NamedTuple):
    """One write that took effect: the object's key, and the id that its body starts with."""

    key: str
    write_id: str


class Seen(NamedTuple):
    """An object as read back."""

    etag: str
    data: bytes
    metadata: dict[str, str]


def require(holds: bool, text: str) -> None:
    """Fail with a clear text, also under `python -O`."""
    if not holds:
        raise AssertionError(text)


def fresh_write_id() -> str:
    """An id of one attempt, as the engine makes them."""
    return secrets.token_hex(8)


async def in_time(what: str, waited: Awaitable[T]) -> T:
    """Wait with the kit's deadline."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            return await waited
    except TimeoutError:
        raise AssertionError(f"{what} did not happen within {DEADLINE_S:g} s") from None


class Pieces:
    """A body that the law controls: how it is cut, where it stalls, where it breaks.

    With `hold`, everything but the last piece is delivered, then `held` is set and the rest waits
    for `release`. With `breaks_after`, it fails once that many bytes were delivered.
    """

    def __init__(
        self,
        data: bytes,
        *,
        piece_bytes: int = 65536,
        known: bool = True,
        hold: bool = False,
        breaks_after: int | None = None,
    ) -> None:
        self.length = len(data) if known else None
        self.held = asyncio.Event()
        self.release = asyncio.Event()
        self.finished = False
        self._data = data
        self._piece_bytes = piece_bytes
        self._hold = hold
        self._breaks_after = breaks_after

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Deliver the pieces."""
        data = self._data
        if self._breaks_after is not None:
            data = data[: self._breaks_after]
        last = max(len(data) - 1, 0) // self._piece_bytes * self._piece_bytes
        for at in range(0, len(data), self._piece_bytes):
            if self._hold and at == last:
                await self._stall()
            yield data[at : at + self._piece_bytes]
        if self._hold and not data:
            await self._stall()
        if self._breaks_after is not None:
            raise BodyError(Problem(Code.REQUEST_MALFORMED, "the body ended early"))
        self.finished = True

    async def _stall(self) -> None:
        self.held.set()
        await in_time("the release of a stalled body", self.release.wait())


class Gate:
    """A gate that counts its calls, answers as told, and can act at the moment it is asked."""

    def __init__(
        self,
        answer: Problem | None = None,
        *,
        body: Pieces | None = None,
        action: Callable[[], object] | None = None,
    ) -> None:
        self.calls = 0
        self.early = False
        self._answer = answer
        self._body = body
        self._action = action

    def __call__(self) -> Problem | None:
        """Be asked."""
        self.calls += 1
        if self._body is not None and not self._body.finished:
            self.early = True
        if self._action is not None:
            self._action()
        return self._answer


SHUT: Final = Problem(Code.TOKEN_STALE, "the gate is shut", mark=9)
"""What a shut gate answers in the laws."""


@dataclass(slots=True)
class Subject:
    """A store under test with its traits; `journal` lists all effects so far in their real order.

    `bucket` must exist. Keys of the laws are plain ASCII unless a law says otherwise.
    """

    store: Store
    traits: Traits
    bucket: str = ""
    journal: Callable[[], Awaitable[Sequence[Effect]]] | None = None
    _carried: dict[Scope, Mark] = field(default_factory=dict)

    def operation(
        self, action: Action, kind: Kind, method: str, key: str, conditions: Conditions
    ) -> Operation:
        """The operation that a dialect would make of a request for `key`."""
        path = f"{self.bucket}/{key}" if self.traits.bucketed else key
        return Operation(
            resource=Resource(self.store.name, path),
            route=f"/{path}",
            kind=kind,
            method=method,
            action=action,
            token=Token(1) if kind.mutates else None,
            conditions=conditions,
            request_id=secrets.token_hex(4),
        )

    def scope(self, key: str) -> Scope:
        """The default scope of one object."""
        path = f"{self.bucket}/{key}" if self.traits.bucketed else key
        return Scope(f"{self.store.name}:{path}")

    async def carry(self, scope: Scope, token: int) -> Mark:
        """Raise the scope to `token` in the store, as the engine does before it admits."""
        mark = Mark(Era(1), token)
        known = self._carried.get(scope, NO_MARK)
        if mark.rank > known.rank:
            await in_time(f"carrying token {token}", self.store.carry(scope, mark))
            self._carried[scope] = mark
        return mark

    async def put(
        self,
        key: str,
        data: bytes | Pieces,
        *,
        token: int = 1,
        scope: Scope | None = None,
        conditions: Conditions = NO_CONDITIONS,
        metadata: Fields = (),
        gate: Callable[[], Problem | None] | None = None,
        write_id: str | None = None,
        previous_write_id: str | None = None,
    ) -> WriteResult:
        """Look, then write, with the mark carried before, as the engine does."""
        body = Pieces(data) if isinstance(data, bytes) else data
        action = PutObject(self.bucket, key, body.length, metadata)
        operation = self.operation(action, Kind.WRITE, "PUT", key, conditions)
        return await self.mutate(
            operation,
            body,
            mark=await self.carry(scope or self.scope(key), token),
            scope=scope or self.scope(key),
            gate=gate,
            write_id=write_id,
            previous_write_id=previous_write_id,
        )

    async def delete(
        self,
        key: str,
        *,
        token: int = 1,
        scope: Scope | None = None,
        conditions: Conditions = NO_CONDITIONS,
        gate: Callable[[], Problem | None] | None = None,
        write_id: str | None = None,
        previous_write_id: str | None = None,
    ) -> WriteResult:
        """Look, then delete."""
        action = DeleteObject(self.bucket, key)
        operation = self.operation(action, Kind.DELETE, "DELETE", key, conditions)
        return await self.mutate(
            operation,
            Pieces(b""),
            mark=await self.carry(scope or self.scope(key), token),
            scope=scope or self.scope(key),
            gate=gate,
            write_id=write_id,
            previous_write_id=previous_write_id,
        )

    async def mutate(
        self,
        operation: Operation,
        body: Pieces,
        *,
        mark: Mark,
        scope: Scope,
        looked: Look | None = None,
        gate: Callable[[], Problem | None] | None = None,
        write_id: str | None = None,
        previous_write_id: str | None = None,
    ) -> WriteResult:
        """Write under a mark that the law names, without carrying it. Looks unless told."""
        if looked is None:
            seen = await self.store.look(operation, scope)
            if isinstance(seen, ReadRefused):
                return NotWritten(seen.problem)
            looked = seen
        fence = WriteFence(
            scope=scope,
            mark=mark,
            write_id=write_id or fresh_write_id(),
            looked=looked,
            gate=gate or Gate(),
            previous_write_id=previous_write_id,
        )
        return await self.store.write(operation, body, fence)

    async def put_under(
        self,
        key: str,
        body: Pieces,
        mark: Mark,
        scope: Scope,
        gate: Callable[[], Problem | None],
        write_id: str,
    ) -> WriteResult:
        """Look, then put under a mark that the law has carried itself."""
        action = PutObject(self.bucket, key, body.length)
        operation = self.operation(action, Kind.WRITE, "PUT", key, NO_CONDITIONS)
        return await self.mutate(
            operation, body, mark=mark, scope=scope, gate=gate, write_id=write_id
        )

    async def look(self, key: str, scope: Scope | None = None) -> Absent | Present | NotLooked:
        """Look at one object."""
        action = PutObject(self.bucket, key, 0)
        operation = self.operation(action, Kind.WRITE, "PUT", key, NO_CONDITIONS)
        seen = await self.store.look(operation, scope or self.scope(key))
        if isinstance(seen, ReadRefused):
            raise AssertionError(f"look was refused: {seen.problem.message}")
        return seen

    async def get(
        self,
        key: str,
        *,
        head: bool = False,
        range_: str | None = None,
        conditions: Conditions = NO_CONDITIONS,
        if_modified_since: str | None = None,
        if_unmodified_since: str | None = None,
    ) -> ReadResult:
        """Read, with the answer as the store gives it."""
        action = GetObject(self.bucket, key, head, range_, if_modified_since, if_unmodified_since)
        method = "HEAD" if head else "GET"
        return await self.store.read(self.operation(action, Kind.READ, method, key, conditions))

    async def found(self, key: str, **how: str) -> tuple[ObjectFound, bytes]:
        """Read an object that must be there, with its bytes."""
        result = await self.get(key, range_=how.get("range_"))
        if not isinstance(result, ReadDone) or not isinstance(result.reply, ObjectFound):
            raise AssertionError(f"{key!r} should be readable, but got {result!r}")
        return result.reply, await bytes_of(result.reply)

    async def seen(self, key: str) -> Seen | None:
        """The object as it is now, or None when there is none."""
        result = await self.get(key)
        if isinstance(result, ReadRefused) and result.problem.code is Code.NOT_FOUND:
            return None
        if not isinstance(result, ReadDone) or not isinstance(result.reply, ObjectFound):
            raise AssertionError(f"reading {key!r} gave {result!r}")
        data = await bytes_of(result.reply)
        return Seen(result.reply.meta.etag, data, dict(result.reply.meta.metadata))


OpenSubject = Callable[[], AbstractAsyncContextManager[Subject]]
"""Opens a fresh, empty store for one law, and closes it afterwards."""


async def bytes_of(reply: ObjectFound) -> bytes:
    """Exhaust an answer; fails when its length is not the announced one."""
    if reply.chunks is None:
        raise AssertionError("the answer to a GET has no body")
    data = b"".join([chunk async for chunk in reply.chunks])
    require(
        len(data) == reply.length,
        f"{reply.length} bytes were announced and {len(data)} delivered",
    )
    return data


def etag_of(result: WriteResult) -> str:
    """The tag that a successful PUT answered."""
    if not isinstance(result, Written):
        raise AssertionError(f"the write should have been applied, but got {result!r}")
    etag: str | None = getattr(result.reply, "etag", None)
    if not etag:
        raise AssertionError(f"the write answered no etag: {result.reply!r}")
    return etag


def code_of(result: WriteResult | ReadResult) -> Code:
    """The code of a refusal."""
    problem = getattr(result, "problem", None)
    if not isinstance(problem, Problem) or isinstance(result, Written | ReadDone):
        raise AssertionError(f"expected a refusal with a problem, but got {result!r}")
    return problem.code
