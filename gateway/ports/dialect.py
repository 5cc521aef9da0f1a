"""The port of a dialect: one wire language, both ends (ARCHITECTURE.md, "Flow")."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Protocol

from gateway.model.operation import Operation
from gateway.model.outcome import Outcome
from gateway.model.problem import Problem
from gateway.ports.body import Body

RawFields = tuple[tuple[bytes, bytes], ...]
"""Header fields as they came: names in lower case, values and order untouched."""


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request that passed the edge's checks. `path` is the raw path, `query` the raw query.

    `https` tells whether it came over TLS. `arrived_s` is CLOCK_REALTIME (for signatures).
    """

    method: str
    path: bytes
    query: bytes
    fields: RawFields
    request_id: str
    host: str
    https: bool
    arrived_s: float
    body: Body = field(compare=False)

    def values(self, name: bytes) -> list[bytes]:
        """All values of a field, in order; `name` in lower case."""
        return [value for key, value in self.fields if key == name]


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a dialect made of a request: the operation, and its body decoded and verified.

    `context` is the dialect's own, handed back to `render` (never looked at by others).
    """

    operation: Operation
    body: Body = field(compare=False)
    context: object = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in wire form. `body` is bytes, or an iterator with Content-Length in `fields`.

    `close` asks the edge to close the connection gently after it.
    """

    status: int
    fields: RawFields
    body: bytes | AsyncIterator[bytes] = field(default=b"", compare=False)
    close: bool = False


class Dialect(Protocol):
    """Parses requests into operations, and renders outcomes into replies."""

    name: str

    async def parse(self, request: RawRequest) -> Parsed | Problem | Reply:
        """Understand a request, or tell what is wrong with it. Authenticates the worker too.

        A `Reply` is the answer to what concerns no store (OPTIONS). May read the body where the
        operation is inside it (rows); never for objects.
        """
        ...

    def render(self, request: RawRequest, parsed: Parsed | None, outcome: Outcome) -> Reply:
        """Give the outcome its wire form, without the X-Fence-* fields (the edge adds those)."""
        ...
