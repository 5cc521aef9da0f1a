"""The commit order of the files store with stalls injected inside it, and with its lock taken away.

Order is read from the kernel (tree) and from the index (buckets), never from answers.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from gateway.model.mark import Mark, Scope
from gateway.ports.store import BehindRegistry, FencedByStore, WriteResult
from gateway.stores.files import BucketStore, TreeStore, bucket_changes, tree_changes
from gateway.stores.files.locked_store import LockedStore
from gateway.stores.files.scope_locks import ScopeLocks
from gateway.testing.store_contract import OBJECT_STORE_LAWS, OpenSubject
from gateway.testing.store_order import (
    TinyFence,
    Trial,
    late_effects,
    overtake_a_stalled_body,
    overtaken,
)
from gateway.testing.store_subject import Subject, in_time
from tests.conformance.files.files_subjects import open_buckets, open_tree

SEEN: ContextVar[Mark] = ContextVar("SEEN")
"""The mark of the write that this task is about."""

CHANGES = {"tree": tree_changes.Replacement, "buckets": bucket_changes.Replacement}


class CheckedBefore(ScopeLocks):
    """The mark is compared once, before the body comes; nothing is held at the effect."""

    async def peek(self, scope: Scope, ours: Mark) -> FencedByStore | BehindRegistry | None:
        SEEN.set(ours)
        return await super().peek(scope, ours)

    @asynccontextmanager
    async def shared(self, scope: Scope) -> AsyncIterator[Mark | None]:
        yield SEEN.get()


class CheckedButNotHeld(ScopeLocks):
    """The mark is compared under the lock, which is given back before the effect."""

    @asynccontextmanager
    async def shared(self, scope: Scope) -> AsyncIterator[Mark | None]:
        async with super().shared(scope) as mark:
            pass
        yield mark


def opener(layout: str, locks: type[ScopeLocks] = ScopeLocks) -> OpenSubject:
    """A store of this layout with these locks."""

    def with_locks(store: LockedStore) -> Any:
        store._scopes = locks(store._scopes._directory, store._threads, 10)
        return store

    if layout == "tree":
        return open_tree(lambda name, root: with_locks(TreeStore(name, root)))

    def buckets(name: str, root: Path, names: list[str]) -> BucketStore:
        store: BucketStore = with_locks(BucketStore(name, root, names))
        return store

    return open_buckets(buckets)


class Stall:
    """Holds the first write between the check of its mark and its gate."""

    def __init__(self, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = asyncio.Event()
        self.release = threading.Event()
        loop, change = asyncio.get_running_loop(), CHANGES[layout]
        prepare: Callable[[Any], WriteResult | None] = change.prepare
        first = iter((True,))

        def stalled(self_: Any) -> WriteResult | None:
            result = prepare(self_)
            if next(first, False):
                loop.call_soon_threadsafe(self.reached.set)
                assert self.release.wait(20)
            return result

        monkeypatch.setattr(change, "prepare", stalled)


async def raise_during_a_stall(subject: Subject, stall: Stall) -> tuple[Trial, bool]:
    """A lower write stalls after its check; a higher token comes. True: it had to wait.

    For buckets the higher write meets the index's own lock, so what counts is the raise.
    """
    trial = Trial(subject)
    one, two = (TinyFence(subject.store, deaf=True) for _ in range(2))
    lower = asyncio.create_task(trial.run(one, trial.attempt(1, "one")))
    await in_time("the stall", stall.reached.wait())
    raising = asyncio.create_task(two.admit(2))
    done, _ = await asyncio.wait({raising}, timeout=0.3)
    waited = not done
    higher = asyncio.create_task(trial.run(two, trial.attempt(2, "two")))
    if not waited:
        await asyncio.wait({higher}, timeout=0.3)
    stall.release.set()
    await in_time("both writes", asyncio.gather(lower, higher, raising))
    return trial, waited


@pytest.mark.parametrize("layout", CHANGES)
async def test_a_raise_waits_for_a_write_that_was_checked(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the check and the effect no raise is answered; then lower comes before higher."""
    stall = Stall(layout, monkeypatch)
    async with opener(layout)() as subject:
        trial, waited = await raise_during_a_stall(subject, stall)
        assert waited
        await trial.judge()
        assert all(attempt.applied for attempt in trial.attempts)


@pytest.mark.parametrize("layout", CHANGES)
async def test_a_lock_not_held_lets_the_raise_through(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: a mark compared under a lock that is then given back lets a raise be answered
    while the lower write is still to come.
    """
    stall = Stall(layout, monkeypatch)
    async with opener(layout, CheckedButNotHeld)() as subject:
        trial, waited = await raise_during_a_stall(subject, stall)
        assert not waited
        if layout == "tree":  # the buckets' one index lock keeps the higher write behind
            with pytest.raises(AssertionError, match="after a higher one"):
                await trial.judge()
            assert overtaken(trial.attempts) == []


@pytest.mark.parametrize("layout", CHANGES)
@pytest.mark.parametrize("name", ["order_of_a_stalled_body", "order_in_storms"])
async def test_a_mark_compared_early_is_caught(layout: str, name: str) -> None:
    """Without the comparison at the end the commit-order laws of the kit fail."""
    law = next(law for law in OBJECT_STORE_LAWS if law.name == name)
    with pytest.raises(AssertionError, match="after a higher one"):
        await law.check(opener(layout, CheckedBefore))


@pytest.mark.parametrize("layout", CHANGES)
@pytest.mark.parametrize("name", ["carry", "behind", "gate_shut", "race_to_create"])
async def test_laws_without_a_stall_do_not_catch_it(layout: str, name: str) -> None:
    """Laws in which nothing comes between cannot tell it from the real store."""
    law = next(law for law in OBJECT_STORE_LAWS if law.name == name)
    await law.check(opener(layout, CheckedBefore))


@pytest.mark.parametrize("layout", CHANGES)
async def test_answers_of_the_early_check_look_right(layout: str) -> None:
    """A test of answers passes the store that compares early; the order of effects does not."""
    async with opener(layout, CheckedBefore)() as subject:
        trial = await overtake_a_stalled_body(subject)
        assert [attempt.applied for attempt in trial.attempts] == [True, True, False]
        assert overtaken(trial.attempts) == []
        assert subject.journal is not None
        assert late_effects(await subject.journal(), trial.attempts)
