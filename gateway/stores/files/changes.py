"""Carries one change out: prepare under the locks, gate, effect, durable (protocol, rule 5)."""

from __future__ import annotations

import sqlite3
from typing import Protocol

from gateway.model.reply import WriteReply
from gateway.ports.store import MaybeWritten, NotWritten, WriteFence, WriteResult, Written
from gateway.stores.files.faults import Refusal, disk_problem, unconfirmed
from gateway.stores.files.threads import DiskThreads

DISK_ERRORS = (OSError, sqlite3.Error)


class Change(Protocol):
    """One mutation in steps. All but `commit` and `happened` run in a thread; all raise OSError,
    sqlite3.Error, and before the gate also `Refusal`.
    """

    def prepare(self) -> WriteResult | None:
        """Check the mark, the version and the conditions, and get ready; None: go on."""
        ...

    def commit(self) -> None:
        """Let it take effect, in one step that does not wait for the disk."""
        ...

    def happened(self, error: Exception) -> bool | None:
        """Whether a `commit` that raised took effect; None when that cannot be told."""
        ...

    def settle(self) -> WriteReply:
        """Make the effect durable, and clear away what it replaced."""
        ...

    def abandon(self) -> None:
        """Undo what `prepare` did, as there was no effect."""
        ...


async def stage(
    change: Change, fence: WriteFence, threads: DiskThreads, store: str
) -> WriteResult | None:
    """Prepare, ask the gate, and let the change take effect. None: it did, and must be settled."""
    effect = False
    try:
        ended = await threads.run(change.prepare)
        if ended is None:
            ended = _pass_gate(change, fence, store)
            effect = ended is None or isinstance(ended, MaybeWritten)
        return ended
    finally:
        if not effect:
            await threads.run(change.abandon)


def _pass_gate(change: Change, fence: WriteFence, store: str) -> WriteResult | None:
    """The gate and the effect, with nothing awaited in between."""
    refused = fence.gate()
    if refused is not None:
        return NotWritten(refused)
    try:
        change.commit()
    except Refusal as refusal:
        return NotWritten(refusal.problem)
    except DISK_ERRORS as error:
        match change.happened(error):
            case True:
                return None
            case False:
                return NotWritten(disk_problem(error, store))
            case None:
                return MaybeWritten(unconfirmed(error, store))
    return None


async def settle(change: Change, threads: DiskThreads, store: str) -> WriteResult:
    """Make an effect durable, then answer it."""
    try:
        return Written(await threads.run(change.settle))
    except DISK_ERRORS as error:
        return MaybeWritten(unconfirmed(error, store))
