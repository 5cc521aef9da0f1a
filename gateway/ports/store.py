"""The port of a store: where writes land (ARCHITECTURE.md, "Flow").

A store never decides whether a token may write. It calls `WriteFence.gate` at the last moment and
obeys, and it checks what only it can check: the version, the stamp, the fence row, the file lock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from gateway.model.mark import Era, Mark, Scope
from gateway.model.operation import Operation
from gateway.model.problem import Problem
from gateway.model.reply import ReadReply, WriteReply
from gateway.model.version import Look
from gateway.ports.body import Body


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can promise. `guarantee` is the line that `explain` and the start-up print.

    `conditions`: conditional writes are honoured. `exact`: the check happens in the transaction
    or under the lock that writes, so tickets need no settle. `settle_ms`: how long after its last
    byte a write may still take effect (0 when exact).
    """

    conditions: bool
    exact: bool
    settle_ms: int
    guarantee: str


def _no_haste(reset: Callable[[], None]) -> None:
    """A write that is checked in its transaction or under its lock needs no haste."""
    del reset


@dataclass(frozen=True, slots=True)
class WriteFence:
    """What a write must carry and ask: scope and mark it was admitted under, and the gate.

    `gate()` must be called immediately before the bytes (or the COMMIT, or the rename) that make
    the write take effect, with no await in between; and once more before each further try of a
    write that certainly failed. It answers None to let the write pass, or the problem to refuse
    with. `looked` is what `look` saw before admission.
    `write_id` is unique per attempt and goes into the stamp or the fence row;
    `previous_write_id` is that of an earlier attempt of the same logical request whose outcome is
    not known. `on_haste` takes what resets the upstream exchange: it is called when a higher mark
    waits for this write (rule 4).
    """

    scope: Scope
    mark: Mark
    write_id: str
    looked: Look
    gate: Callable[[], Problem | None] = field(compare=False)
    previous_write_id: str | None = None
    on_haste: Callable[[Callable[[], None]], None] = field(default=_no_haste, compare=False)


@dataclass(frozen=True, slots=True)
class Written:
    """The write took effect. `earlier`: it was an earlier attempt of the same request that did."""

    reply: WriteReply
    earlier: bool = False


@dataclass(frozen=True, slots=True)
class NotWritten:
    """The write certainly did not take effect: gate shut, body broken, refused by the store."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class FencedByStore:
    """The store's own witness (stamp, fence row, lock file) stands above our mark: stale."""

    mark: Mark


@dataclass(frozen=True, slots=True)
class BehindRegistry:
    """The store's own fence row is below our mark, or missing: it must be raised (`carry`)."""

    mark: Mark | None


@dataclass(frozen=True, slots=True)
class MaybeWritten:
    """The answer was lost after the gate and the store cannot tell: the outcome is unknown."""

    problem: Problem


WriteResult = Written | NotWritten | FencedByStore | BehindRegistry | MaybeWritten


@dataclass(frozen=True, slots=True)
class ReadDone:
    """The read was answered."""

    reply: ReadReply


@dataclass(frozen=True, slots=True)
class ReadRefused:
    """There is no such thing, a condition of the read failed, or the store could not answer."""

    problem: Problem


ReadResult = ReadDone | ReadRefused


class ProbeFailed(Exception):
    """The store is unreachable or lacks a capability that its configuration claims.

    The text names the store, what was tried, what came back, and the setting to change.
    """


class CarryFailed(Exception):
    """The mark could not be committed in the store within its lock time-out. Nothing was lost."""


class Store(Protocol):
    """An upstream where mutations land."""

    name: str
    capabilities: Capabilities

    async def look(self, operation: Operation, scope: Scope) -> Look | ReadRefused:
        """Read version and stamp of the operation's resource, before admission (rule 12)."""
        ...

    async def write(self, operation: Operation, body: Body, fence: WriteFence) -> WriteResult:
        """Carry a mutation out, asking `fence.gate` at the last moment (rule 5)."""
        ...

    async def read(self, operation: Operation) -> ReadResult:
        """Answer a read."""
        ...

    async def carry(self, scope: Scope, mark: Mark) -> Mark | None:
        """Commit the mark in the store itself (rule 11) and wait for older writes under way.

        Returns the store's mark afterwards when it is above the one given (the registry has
        forgotten, rule 9), else None. A store without a fence of its own returns None at once.
        Raises `CarryFailed`.
        """
        ...

    async def probe(self) -> Capabilities:
        """Prove the capabilities at start. Raises `ProbeFailed`."""
        ...

    async def check(self) -> str | None:
        """Look whether the store would do its work now; tell what is wrong, or None.

        Cheap, and without an effect that anybody sees. Who asks bounds it in time; it shares
        nothing with writes that could make either wait for the other.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection, file and thread."""
        ...


@runtime_checkable
class FindsOut(Protocol):
    """A store that can be asked later how a write ended whose answer was lost."""

    async def find_out(self, operation: Operation, fence: WriteFence, age_s: float) -> WriteResult:
        """Tell how a write ended, `age_s` after its answer was lost.

        `Written` and `NotWritten` are certain and stay true; `MaybeWritten`: not known yet.
        """
        ...


@runtime_checkable
class Recalls(Protocol):
    """A store that keeps clients' keys with what was written under them."""

    async def recall(
        self, operation: Operation, scope: Scope, era: Era | None
    ) -> WriteResult | None:
        """What an earlier attempt at the same request came to; None when it knows of none.

        Asked when the fence refuses a request with a key: a retry of what was applied is told so.
        `Written` is what was answered then; `NotWritten`: the key was used for another request.
        """
        ...
