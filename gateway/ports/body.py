"""The port of a request body: bytes that arrive, and the ways in which they can fail to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from gateway.model.problem import Problem


class BodyError(Exception):
    """The body did not arrive whole and true. `problem` is the answer; nothing may be committed.

    Raised for: a client that disconnects or sends too little, a time-out, a size limit, a digest
    or chunk signature that does not match, a trailer.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Body(Protocol):
    """Iterates over the body's pieces; ends only when the whole message arrived and is verified.

    `length` is the number of bytes to come, None when the client did not say.
    """

    length: int | None

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield pieces in order. Raises `BodyError`."""
        ...


@runtime_checkable
class Checked(Protocol):
    """A body that came with a promise of what it is: a digest, a signature, a checksum."""

    async def check(self) -> None:
        """Read what nobody has read, to hold it to its promise. Raises `BodyError`."""
        ...
