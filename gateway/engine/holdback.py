"""The held-back end of a streamed body: what makes a write take effect leaves last (rule 5).

A store commits an upload when its last byte arrives. So the last bytes, at most `keep_bytes` and
at least one, stay here until the whole body has arrived and is verified; the caller passes the
gate and sends them in one piece.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from gateway.model.problem import Code, Problem
from gateway.ports.body import Body, BodyError

HOLD_BACK_BYTES: Final = 65_536
SPOOL_BYTES: Final = 1_048_576


class HoldBack:
    """Iterates over a body's early pieces; afterwards `tail` is the rest, never sent before.

    With `spool_bytes`, a body of at most that size is also remembered whole, so that it can be
    sent a second time: `spooled` is then its bytes, and None for a larger one. `received` counts
    the bytes that have arrived, `held_peak` the most that was held at once.
    Iterating raises `BodyError` as the body does, and when it is not as long as it said.
    """

    __slots__ = (
        "_held",
        "_keep",
        "_pieces",
        "_source",
        "_spool",
        "_spool_left",
        "ended",
        "held_peak",
        "length",
        "received",
    )

    def __init__(
        self, body: Body, *, keep_bytes: int = HOLD_BACK_BYTES, spool_bytes: int = 0
    ) -> None:
        self.length = body.length
        self._source = aiter(body)
        self._keep = keep_bytes
        self._pieces: deque[bytes] = deque()
        self._held = 0
        # A body that says it is too large is not copied at all.
        fits = spool_bytes > 0 and (body.length is None or body.length <= spool_bytes)
        self._spool: list[bytes] | None = [] if fits else None
        self._spool_left = spool_bytes
        self.ended = False
        self.received = 0
        self.held_peak = 0

    @property
    def tail(self) -> bytes:
        """The bytes held back, complete only after the iteration has ended."""
        return b"".join(self._pieces)

    @property
    def spooled(self) -> bytes | None:
        """The whole body, if it fitted, after the iteration has ended."""
        return b"".join(self._spool) if self.ended and self._spool is not None else None

    @property
    def spooling(self) -> bool:
        """True while the body may still fit into the spool."""
        return self._spool is not None

    def __aiter__(self) -> HoldBack:
        """Iterate; to iterate again goes on where it was left."""
        return self

    async def __anext__(self) -> bytes:
        """The next piece that may leave before the gate."""
        while self._held <= self._keep:
            try:
                piece = await anext(self._source)
            except StopAsyncIteration:
                self._check_end()
                raise
            if piece:
                self._arrived(piece)
        return self._release()

    def _release(self) -> bytes:
        """The oldest piece; the last one is split, so that never more than `keep_bytes` stay."""
        early = self._pieces.popleft()
        if not self._pieces:
            self._pieces.append(early[-self._keep :])
            early = early[: -self._keep]
        self._held -= len(early)
        return early

    def _arrived(self, piece: bytes) -> None:
        self.received += len(piece)
        if self.length is not None and self.received > self.length:
            raise _wrong_length(self.length, self.received)
        self._pieces.append(piece)
        self._held += len(piece)
        self.held_peak = max(self.held_peak, self._held)
        if self._spool is not None:
            self._spool_left -= len(piece)
            if self._spool_left < 0:
                self._spool = None
            else:
                self._spool.append(piece)

    def _check_end(self) -> None:
        if self.length is not None and self.received != self.length:
            raise _wrong_length(self.length, self.received)
        self.ended = True


def _wrong_length(said: int, came: int) -> BodyError:
    return BodyError(
        Problem(
            Code.REQUEST_MALFORMED,
            f"The body announced {said} bytes and {came} arrived. Send exactly Content-Length "
            "bytes; nothing was stored.",
            native="IncompleteBody",
            close=True,
        )
    )


class Replayed:
    """A body that is at hand already; iterating it again gives it again."""

    __slots__ = ("_content", "length")

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.length: int | None = len(content)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the content."""
        if self._content:
            yield self._content


async def spool_whole(body: Body, limit_bytes: int) -> bytes | None:
    """Read a body to its end, at most `limit_bytes`; None when it is larger.

    For a body whose length is not known before its end, or that must not leave in part. Raises
    `BodyError` as `HoldBack` does.
    """
    hold = HoldBack(body, keep_bytes=limit_bytes)
    async for _ in hold:
        return None
    return hold.tail
