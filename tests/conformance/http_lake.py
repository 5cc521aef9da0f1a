"""An `http` store in front of an origin of the tests, asked one request at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.mark import Era, Mark, Scope
from gateway.model.operation import Kind, Operation
from gateway.model.origin_request import OriginRequest, RawFields
from gateway.model.problem import Problem
from gateway.model.reply import Relay
from gateway.model.resource import Resource
from gateway.model.token import Token
from gateway.ports.body import Body
from gateway.ports.store import ReadDone, ReadRefused, ReadResult, WriteFence, WriteResult
from gateway.stores.http import OriginStore
from gateway.testing.store_subject import Pieces
from tests.services.http_origin import HttpOrigin, serving

SCOPE = Scope("shore")
_READS = {"GET", "HEAD", "OPTIONS", "PROPFIND"}
O = TypeVar("O", bound=HttpOrigin)  # noqa: E741


@dataclass(slots=True)
class Shore:
    """Asks the store as the engine does: look, fence, write."""

    store: OriginStore
    gates: int = 0
    resets: list[Callable[[], None]] = field(default_factory=list)

    async def write(
        self,
        method: str,
        path: str,
        data: bytes | Body = b"",
        *,
        fields: RawFields = (),
        query: bytes = b"",
        conditions: Conditions = NO_CONDITIONS,
        gate: Callable[[], Problem | None] = lambda: None,
        between: Callable[[], None] = lambda: None,
    ) -> WriteResult:
        """Carry a mutation out; `between` acts after the look."""
        body = Pieces(data) if isinstance(data, bytes) else data
        action = OriginRequest(method, path.encode(), query, fields, body.length)
        asked = operation(action, conditions)
        looked = await self.store.look(asked, SCOPE)
        assert not isinstance(looked, ReadRefused), looked.problem
        between()

        def ask() -> Problem | None:
            self.gates += 1
            return gate()

        mark = Mark(Era(1), 1)
        fence = WriteFence(SCOPE, mark, "w", looked, ask, on_haste=self.resets.append)
        return await self.store.write(asked, body, fence)

    async def read(
        self, method: str, path: str, *fields: tuple[bytes, bytes], content: bytes = b""
    ) -> ReadResult:
        """Read."""
        action = OriginRequest(method, path.encode(), b"", fields, len(content), content)
        return await self.store.read(operation(action))

    async def answer(self, method: str, path: str, *fields: tuple[bytes, bytes]) -> Relay:
        """Read what must be answered, whole."""
        result = await self.read(method, path, *fields)
        assert isinstance(result, ReadDone), result
        relay = result.reply
        assert isinstance(relay, Relay)
        body = relay.body
        if relay.chunks is not None:
            body = b"".join([piece async for piece in relay.chunks])
        return Relay(relay.status, relay.fields, body)


def operation(action: OriginRequest, conditions: Conditions = NO_CONDITIONS) -> Operation:
    """The operation that the dialect would make."""
    kind = Kind.READ if action.method in _READS else Kind.WRITE
    path = action.path.decode().removeprefix("/")
    token = Token(1) if kind.mutates else None
    return Operation(
        Resource("shore", path), f"/{path}", kind, action.method, action, token, None, conditions
    )


def stall(origin: HttpOrigin, *, checked: bool = True) -> asyncio.Event:
    """Writes wait for this event, between their check and their effect, or before both."""
    release = asyncio.Event()

    async def wait(_: object) -> None:
        await release.wait()

    if checked:
        origin.faults.before_effect = wait
    else:
        origin.faults.before_check = wait
    return release


@dataclass(slots=True)
class At(Generic[O]):
    """Both sides."""

    shore: Shore
    origin: O


@asynccontextmanager
async def open_shore(origin: O, **options: Any) -> AsyncIterator[At[O]]:
    """An origin that serves, and a store in front of it."""
    async with serving(origin):
        base = options.pop("base", "")
        store = OriginStore("shore", origin.url + base, mount="/shore", **options)
        try:
            yield At(Shore(store), origin)
        finally:
            await store.aclose()
