"""The commit-order law: in the real order of effects no lower token follows a higher one.

Real order means what the store's own journal says (`Subject.journal`: kernel events, a log table,
an origin that numbers its effects), never the order of answers: `overtaken` below is what a test
of answers can see, and designs that check first and write later pass it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.model.mark import Era, Mark, Scope
from gateway.model.problem import Problem
from gateway.ports.store import MaybeWritten, Store, WriteResult, Written
from gateway.testing.store_subject import (
    SHUT,
    Effect,
    OpenSubject,
    Pieces,
    Subject,
    fresh_write_id,
    in_time,
    require,
)

SCOPE: Final = Scope("kit/shared")
STORMS: Final = 6
_WRITES: Final = 32
_KEYS: Final = ("one", "two", "three", "four")


class TinyFence:
    """The smallest fence that keeps the promise over one store and one scope.

    A mark; a raise that waits for the lower writes behind the gate and then carries the mark; a
    gate that passes the mark's own token only. With `deaf` it is a replica that hears nothing and
    whose gate lets everything pass: what an exact store must hold out against.
    """

    def __init__(self, store: Store, *, deaf: bool) -> None:
        self.mark = 0
        self._store = store
        self._deaf = deaf
        self._behind_gate: set[tuple[int, str]] = set()
        self._moved = asyncio.Condition()
        self._raising = asyncio.Lock()

    async def admit(self, token: int) -> bool:
        """Let a token in, once everything lower has come to an end. False: it is stale."""
        if token < self.mark:
            return False
        async with self._raising:
            if token > self.mark:
                await self._raise(token)
            return token == self.mark

    async def _raise(self, token: int) -> None:
        self.mark = token
        if not self._deaf:
            async with self._moved:
                await self._moved.wait_for(lambda: not any(t < token for t, _ in self._behind_gate))
        above = await self._store.carry(SCOPE, Mark(Era(1), token))
        if above is not None:
            self.mark = above.token

    def gate(self, token: int, write_id: str) -> Problem | None:
        """The last check; a write that passes is waited for by the next raise."""
        if not self._deaf and token != self.mark:
            return SHUT
        self._behind_gate.add((token, write_id))
        return None

    async def settled(self, token: int, write_id: str) -> None:
        """The write has ended, this way or that."""
        async with self._moved:
            self._behind_gate.discard((token, write_id))
            self._moved.notify_all()


@dataclass(slots=True)
class Attempt:
    """One write as its client saw it: `began` and `ended` are places in one count of events."""

    key: str
    token: int
    write_id: str
    body: Pieces = field(repr=False)
    began: int
    ended: int = 0
    result: WriteResult | None = None

    @property
    def applied(self) -> bool:
        """True when the client was told that the write took effect."""
        return isinstance(self.result, Written)


class Trial:
    """Runs attempts through a fence and records what their clients saw."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.attempts: list[Attempt] = []
        self._count = itertools.count(1)

    def attempt(self, token: int, key: str, *, hold: bool = False, pad_bytes: int = 0) -> Attempt:
        """One client's request, about to be sent."""
        write_id = fresh_write_id()
        data = f"{write_id}\n".encode() + b"." * pad_bytes
        body = Pieces(data, piece_bytes=16384, hold=hold)
        attempt = Attempt(key, token, write_id, body, next(self._count))
        self.attempts.append(attempt)
        return attempt

    async def run(
        self, fence: TinyFence, attempt: Attempt, at_gate: Callable[[], object] | None = None
    ) -> Attempt:
        """Carry the request to its answer; `at_gate` acts when its gate lets it pass."""
        token, write_id = attempt.token, attempt.write_id

        def gate() -> Problem | None:
            answer = fence.gate(token, write_id)
            if answer is None and at_gate is not None:
                at_gate()
            return answer

        try:
            if await fence.admit(token):
                attempt.result = await self.subject.put_under(
                    attempt.key, attempt.body, Mark(Era(1), token), SCOPE, gate, write_id
                )
        finally:
            await fence.settled(token, write_id)
            attempt.ended = next(self._count)
        return attempt

    async def judge(self) -> None:
        """Compare the real order with the law, and every answer with what really happened."""
        if self.subject.journal is None:
            raise AssertionError("the commit-order law needs Subject.journal")
        effects = await self.subject.journal()
        disorder = late_effects(effects, self.attempts)
        require(not disorder, "a lower token took effect after a higher one: " + disorder)
        times = Counter(effect.write_id for effect in effects)
        for attempt in self.attempts:
            seen = times[attempt.write_id]
            if attempt.applied:
                require(seen == 1, f"{attempt!r} was answered applied, but happened {seen} times")
            elif not isinstance(attempt.result, MaybeWritten):
                require(seen == 0, f"{attempt!r} was answered refused, but happened")


def late_effects(effects: Sequence[Effect], attempts: Sequence[Attempt]) -> str:
    """Describe the first effect of a lower token behind a higher one; empty when there is none."""
    tokens = {attempt.write_id: attempt.token for attempt in attempts}
    highest = 0
    for place, effect in enumerate(effects):
        token = tokens.get(effect.write_id)
        if token is None:
            continue
        if token < highest:
            order = [(e.key, tokens.get(e.write_id)) for e in effects[: place + 1]]
            return f"token {token} on {effect.key!r} after token {highest}: {order}"
        highest = max(highest, token)
    return ""


def overtaken(attempts: Sequence[Attempt]) -> list[tuple[Attempt, Attempt]]:
    """What answers alone can show: pairs (higher, lower) both answered applied, where the lower one
    was only sent after the higher one had been answered.

    Two writes that overlap may have happened in either order as far as their clients can tell.
    """
    applied = [attempt for attempt in attempts if attempt.applied]
    return [
        (high, low)
        for high in applied
        for low in applied
        if low.token < high.token and low.began > high.ended
    ]


def fences_for(subject: Subject) -> list[TinyFence]:
    """Two replicas that do not hear each other for an exact store, else one that hears itself."""
    if subject.traits.exact:
        return [TinyFence(subject.store, deaf=True), TinyFence(subject.store, deaf=True)]
    return [TinyFence(subject.store, deaf=False)]


async def overtake_a_stalled_body(subject: Subject) -> Trial:
    """A lower write stalls before its last bytes; a higher one passes it on another object."""
    trial = Trial(subject)
    fences = fences_for(subject)
    slow = trial.attempt(1, "one", hold=True, pad_bytes=100_000)
    writing = asyncio.create_task(trial.run(fences[0], slow))
    await in_time("the stall of the lower write", slow.body.held.wait())
    await in_time("the higher write", trial.run(fences[-1], trial.attempt(2, "two")))
    slow.body.release.set()
    await in_time("the lower write", writing)
    await trial.run(fences[-1], trial.attempt(1, "three"))
    return trial


async def overtake_at_the_gate(subject: Subject) -> Trial:
    """A higher token arrives at the very moment in which the lower one passes its gate."""
    trial = Trial(subject)
    fences = fences_for(subject)
    higher: list[asyncio.Task[Attempt]] = []

    def arrive() -> None:
        higher.append(asyncio.create_task(trial.run(fences[-1], trial.attempt(2, "two"))))

    await in_time("the lower write", trial.run(fences[0], trial.attempt(1, "one"), arrive))
    await in_time("the higher write", asyncio.gather(*higher))
    require(all(attempt.applied for attempt in trial.attempts), f"{trial.attempts!r}")
    return trial


async def storm(subject: Subject, seed: int) -> Trial:
    """Tokens that rise over several objects, with bodies that stall and end in any order."""
    rng = random.Random(seed)  # noqa: S311 - a replayable schedule, not a secret
    trial = Trial(subject)
    fences = fences_for(subject)
    writers: list[asyncio.Task[Attempt]] = []
    for number in range(_WRITES):
        token = 1 + number // 4 - (rng.random() < 0.2 and number >= 4)
        hold, pad = rng.random() < 0.7, rng.choice((0, 10, 40_000))
        attempt = trial.attempt(token, rng.choice(_KEYS), hold=hold, pad_bytes=pad)
        writers.append(asyncio.create_task(trial.run(rng.choice(fences), attempt)))
        for _ in range(rng.randrange(40)):
            await asyncio.sleep(0)
        if rng.random() < 0.5:
            rng.choice(trial.attempts).body.release.set()
        if rng.random() < 0.3:
            await _progress(writers[-1], attempt)
    for attempt in rng.sample(trial.attempts, len(trial.attempts)):
        attempt.body.release.set()
        for _ in range(rng.randrange(10)):
            await asyncio.sleep(0)
    await in_time("the storm", asyncio.gather(*writers))
    return trial


async def _progress(writer: asyncio.Task[Attempt], attempt: Attempt) -> None:
    """Wait until the newest write stalls or ends; what blocks it may need a release: not long."""
    held = asyncio.ensure_future(attempt.body.held.wait())
    await asyncio.wait({writer, held}, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
    held.cancel()


async def check_order_of_a_stalled_body(open_subject: OpenSubject) -> None:
    """A write that stalls between its check and its effect cannot land after a higher token."""
    async with open_subject() as subject:
        trial = await overtake_a_stalled_body(subject)
        await trial.judge()
        slow, fast, later = trial.attempts
        require(fast.applied, f"the higher write was not applied: {fast!r}")
        require(not slow.applied, f"the overtaken write was answered applied: {slow!r}")
        require(not later.applied, f"a write with a lower token was applied: {later!r}")


async def check_order_at_the_gate(open_subject: OpenSubject) -> None:
    """A raise that comes while a lower write is between gate and effect waits for it."""
    async with open_subject() as subject:
        await (await overtake_at_the_gate(subject)).judge()


async def check_order_in_storms(open_subject: OpenSubject) -> None:
    """Many tokens over several objects of one scope, stalls anywhere: the order holds."""
    for seed in range(STORMS):
        async with open_subject() as subject:
            trial = await storm(subject, seed)
            await trial.judge()
            require(any(attempt.applied for attempt in trial.attempts), "nothing was applied")
