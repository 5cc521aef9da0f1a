"""The body of a request with a key: its SHA-256, so that a retry with other bytes is none.

Source: decisions, "Replays". A body that differs from that of the first attempt raises in place of
its end: whoever writes it has by then committed nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

from gateway.engine.refusals import key_reused
from gateway.model.object_action import PutObject
from gateway.model.operation import Operation
from gateway.model.origin_request import OriginRequest
from gateway.ports.body import Body, BodyError


class ComparedBody:
    """Passes a body on. `sha256` is None until it has passed whole."""

    def __init__(self, source: Body) -> None:
        self.length = source.length
        self.sha256: bytes | None = None
        self._source = source
        self._expected: bytes | None = None
        self._reading: AsyncIterator[bytes] | None = None

    def expect(self, sha256: bytes | None) -> None:
        """Hold the body to that of an earlier attempt; None: nobody has seen that whole."""
        self._expected = sha256

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces in order. Raises `BodyError`."""
        self._reading = self._pieces()
        return self._reading

    async def _pieces(self) -> AsyncIterator[bytes]:
        seen = hashlib.sha256()
        async for piece in self._source:
            seen.update(piece)
            yield piece
        if self._expected is not None and seen.digest() != self._expected:
            raise BodyError(key_reused())
        self.sha256 = seen.digest()

    async def check(self) -> None:
        """See `Checked`; goes on where a reader has stopped."""
        async for _ in self if self._reading is None else self._reading:
            pass


def compared(operation: Operation, body: Body) -> Body:
    """The body, so that attempts can be compared by it, unless the operation tells its bytes."""
    match operation.action:
        case PutObject(sha256=None) | OriginRequest():
            return ComparedBody(body)
        case _:
            return body
