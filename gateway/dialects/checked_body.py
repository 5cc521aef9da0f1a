"""A body whose end is withheld until it is what the client promised; also one that nobody needs.

An answer from memory reads no body; the promise that came with it is held to all the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator

from gateway.ports.body import Body


class CheckedBody(ABC):
    """The part that all promises share; `_pieces` yields, and raises in place of the end."""

    def __init__(self, source: Body, length: int | None) -> None:
        self.length = length
        self._source = source
        self._reading: AsyncIterator[bytes] | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces in order. Raises `BodyError`."""
        self._reading = self._pieces()
        return self._reading

    async def check(self) -> None:
        """See `Checked`; goes on where a reader has stopped."""
        async for _ in self if self._reading is None else self._reading:
            pass

    @abstractmethod
    def _pieces(self) -> AsyncIterator[bytes]: ...
