"""A body held whole until the gate: in memory at first, then in a temporary file, never beyond."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from types import TracebackType
from typing import IO, Final

from gateway.model.problem import Code, Problem
from gateway.ports.body import Body, BodyError

_READ_BYTES: Final = 262_144


class Spool:
    """Use it as a context, which removes the file. `first` is what is in memory, `rest()` the file.

    File work is done in a thread: a disk that stalls must not stall other requests.
    """

    __slots__ = ("_file", "_max", "_memory", "_pieces", "size")

    def __init__(self, memory_bytes: int, max_bytes: int) -> None:
        self._memory = memory_bytes
        self._max = max_bytes
        self._pieces: list[bytes] = []
        self._file: IO[bytes] | None = None
        self.size = 0

    async def __aenter__(self) -> Spool:
        """Begin."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the file, if there is one: it has no name, so that closing removes it."""
        if self._file is not None:
            self._file.close()

    async def fill(self, body: Body) -> bool:
        """Read a body to its end. False: it is larger than allowed. Raises `BodyError`."""
        held = 0
        async for piece in body:
            self.size += len(piece)
            if self.size > self._max:
                return False
            if self._file is None and held + len(piece) <= self._memory:
                self._pieces.append(piece)
                held += len(piece)
                continue
            if self._file is None:
                self._file = await asyncio.to_thread(tempfile.TemporaryFile)
            await asyncio.to_thread(self._file.write, piece)
        if body.length is not None and body.length != self.size:
            raise BodyError(_wrong_length(body.length, self.size))
        if self._file is not None:
            await asyncio.to_thread(self._file.seek, 0)
        return True

    @property
    def first(self) -> bytes:
        """The bytes in memory, from the body's beginning."""
        return b"".join(self._pieces)

    async def rest(self) -> AsyncIterator[bytes]:
        """The bytes behind them."""
        if self._file is None:
            return
        while piece := await asyncio.to_thread(self._file.read, _READ_BYTES):
            yield piece


def _wrong_length(said: int, came: int) -> Problem:
    text = f"the body announced {said} bytes and {came} arrived; nothing was written"
    return Problem(Code.REQUEST_MALFORMED, text, close=True)
