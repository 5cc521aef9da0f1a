"""A named request is done once: what its retries are answered, whatever became of the first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from gateway.engine.compared_body import compared
from gateway.engine.replays import Replays
from gateway.engine.retries import Retries
from gateway.model.event import Event, OutcomeSettled, Retried
from gateway.model.mark import Era, Mark, Scope
from gateway.model.object_action import PutObject
from gateway.model.operation import Kind, Operation
from gateway.model.outcome import Applied, Outcome, Refused, Unknown
from gateway.model.problem import Code, Problem
from gateway.model.reply import ObjectPut
from gateway.model.resource import Resource
from gateway.model.token import Token
from gateway.model.version import NotLooked
from gateway.ports.body import BodyError
from gateway.ports.store import MaybeWritten, NotWritten, Store, WriteFence, WriteResult, Written
from gateway.system_clock import SystemClock
from gateway.testing.store_subject import Pieces

SCOPE = Scope("jobs")
APPLIED = Applied(ObjectPut('"1"'))
LOST = Problem(Code.OUTCOME_UNKNOWN, "lost")
UNKNOWN = Unknown(LOST)
STALE = Refused(Problem(Code.TOKEN_STALE, "stale", mark=9))
BUSY = Refused(Problem(Code.BUSY, "busy", retry_after_s=1))
UNCLEAR = MaybeWritten(LOST)


class Deaf:
    """A store that cannot be asked about anything."""

    name = "origin"
    moved: asyncio.Event


class Oracle(Deaf):
    """A store that can be asked: it answers `ending` to whoever wants to find out."""

    name = "oracle"

    def __init__(self) -> None:
        self.ending: WriteResult = UNCLEAR
        self.asked: list[str] = []

    async def find_out(self, operation: Operation, fence: WriteFence, age_s: float) -> WriteResult:
        assert age_s >= 0
        self.asked.append(fence.write_id)
        self.moved.set()
        return self.ending


class Book(Oracle):
    """A store that keeps keys, too."""

    name = "book"

    def __init__(self) -> None:
        super().__init__()
        self.kept: WriteResult | None = None

    async def recall(self, operation: Operation, scope: Scope, era: Era | None) -> Any:
        assert (scope, era) == (SCOPE, Era(1))
        return self.kept


class Desk:
    """The retries under test, with a worker in front and a script of attempts behind."""

    def __init__(self, store: Deaf) -> None:
        self.events: list[Event] = []
        self.era: Era | None = Era(1)
        self.retries = Retries(Replays(SystemClock()), SystemClock(), self, lambda _: self.era)
        self.store = cast(Store, store)
        self.previous: list[str | None] = []
        self.closed = 0
        self.moved = store.moved = asyncio.Event()

    def emit(self, event: Event) -> None:
        self.events.append(event)
        self.moved.set()

    def close(self) -> None:
        self.closed += 1
        self.moved.set()

    async def send(
        self, *script: Outcome, method: str = "PUT", length: int = 3, body: Pieces | None = None
    ) -> Outcome:
        """One request with the key; each attempt that reaches the store takes the next outcome.

        An attempt reads its body, and refuses what does not end well, as stores do.
        """
        outcomes = list(script)
        action = PutObject("", "k", length)
        operation = Operation(
            Resource("oracle", "k"), "/k", Kind.WRITE, method, action, Token(1), retry_key="key"
        )
        key = self.retries.key(operation, SCOPE)
        assert key is not None
        seen = compared(operation, body or Pieces(b"one"))

        async def attempt(write_id: str, previous: str | None) -> Outcome:
            self.previous.append(previous)
            outcome = outcomes.pop(0)
            try:
                async for _ in seen:
                    pass
            except BodyError as broken:
                return Refused(broken.problem)
            if isinstance(outcome, Unknown):
                mark = Mark(Era(1), 1)
                fence = WriteFence(SCOPE, mark, write_id, NotLooked(), lambda: None)
                self.retries.lost(operation, self.store, fence, self.close)
            return outcome

        outcome = await self.retries.once(operation, self.store, SCOPE, key, seen, attempt)
        assert not outcomes, f"{len(outcomes)} attempts did not reach the store"
        return outcome

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not holds():
                await self.moved.wait()
                self.moved.clear()

    def counted(self) -> list[str]:
        return [event.answer for event in self.events if isinstance(event, Retried)]


@pytest.fixture
async def desks() -> AsyncIterator[Callable[[Deaf], Desk]]:
    made: list[Desk] = []

    def make(store: Deaf) -> Desk:
        made.append(Desk(store))
        return made[-1]

    yield make
    for desk in made:
        await desk.retries.aclose()


Desks = Callable[[Deaf], Desk]


async def test_what_was_applied_is_answered_again(desks: Desks) -> None:
    """The retry gets the first answer, marked, and reaches no store; it is counted."""
    desk = desks(Deaf())
    assert await desk.send(APPLIED) == APPLIED
    assert await desk.send() == Applied(APPLIED.reply, replayed=True, retried=True)
    assert desk.counted() == ["replayed"]


async def test_a_reused_key_reaches_no_store(desks: Desks) -> None:
    """Other content under the same key: 422, and refused for certain."""
    desk = desks(Deaf())
    await desk.send(APPLIED)
    for other in (desk.send(length=4), desk.send(method="DELETE")):
        refused = await other
        assert isinstance(refused, Refused)
        assert refused.problem.status == 422


async def test_two_at_once_are_one(desks: Desks) -> None:
    """Of two concurrent requests with one key one is carried out, the other gets its answer."""
    desk = desks(Deaf())
    results = await asyncio.gather(desk.send(APPLIED), desk.send(), desk.send())
    assert [r.replayed for r in results if isinstance(r, Applied)] == [False, True, True]


async def test_a_refused_request_is_tried_anew(desks: Desks) -> None:
    """SDKs retry a 503 with the same id: it must reach the store again."""
    desk = desks(Deaf())
    assert await desk.send(BUSY) == BUSY
    assert await desk.send(APPLIED) == APPLIED


async def test_no_retry_of_an_unknown_write_is_called_refused(desks: Desks) -> None:
    """The first attempt may have been applied: "certainly not" would be a lie about the request."""
    for store in (Deaf(), Oracle()):
        desk = desks(store)
        assert await desk.send(UNKNOWN) == UNKNOWN
        for refusal in (STALE, BUSY):
            answer = await desk.send(refusal)
            assert isinstance(answer, Unknown)
            assert answer.problem.status == 504
            assert refusal.problem.message in answer.problem.message
        assert desk.counted() == ["unknown", "unknown"]
    assert desk.previous[1] is not None, "the store is told which attempt came before"


async def test_a_post_to_a_store_that_cannot_tell_is_not_sent_twice(desks: Desks) -> None:
    """A POST is no PUT: while its first attempt is unknown, 504, and the origin sees one."""
    desk = desks(Deaf())
    await desk.send(UNKNOWN, method="POST")
    again = await desk.send(method="POST")
    assert isinstance(again, Unknown)
    assert len(desk.previous) == 1


async def test_an_unknown_write_is_settled_before_its_retry(desks: Desks) -> None:
    """Applied after all: the retry is answered from it. Not applied: it is carried out afresh."""
    store = Oracle()
    desk = desks(store)
    await desk.send(UNKNOWN)
    store.ending = Written(APPLIED.reply)
    assert await desk.send() == Applied(APPLIED.reply, replayed=True, retried=True)
    assert desk.closed == 1

    store = Oracle()
    desk = desks(store)
    await desk.send(UNKNOWN)
    store.ending = NotWritten(BUSY.problem)
    assert await desk.send(APPLIED) == Applied(APPLIED.reply, retried=True)
    assert desk.previous == [None, None]


async def test_a_refused_retry_asks_once_more(desks: Desks) -> None:
    """The fence refuses the retry, and only then the store can tell: that is the answer."""
    for ending, expected in (
        (Written(APPLIED.reply), Applied(APPLIED.reply, replayed=True, retried=True)),
        (NotWritten(BUSY.problem), Refused(STALE.problem, retried=True)),
    ):
        store = Oracle()
        desk = desks(store)
        await desk.send(UNKNOWN)
        answers = iter((UNCLEAR, ending))

        async def find_out(
            operation: Operation, fence: WriteFence, age_s: float, answers: Any = answers
        ) -> WriteResult:
            return next(answers)

        store.find_out = find_out  # type: ignore[method-assign]
        assert await desk.send(STALE) == expected


async def test_the_gateway_finds_out_by_itself(desks: Desks) -> None:
    """Without any retry the ticket closes, the end is counted, and a later retry is answered."""
    store = Oracle()
    desk = desks(store)
    await desk.send(UNKNOWN)
    await desk.until(lambda: len(store.asked) >= 2)
    assert desk.closed == 0
    store.ending = Written(APPLIED.reply)
    await desk.until(lambda: desk.closed == 1)
    settled = [event for event in desk.events if isinstance(event, OutcomeSettled)]
    assert [(event.store, event.outcome) for event in settled] == [("oracle", "applied")]
    assert await desk.send() == Applied(APPLIED.reply, replayed=True, retried=True)


async def test_the_store_remembers_what_the_replica_does_not(desks: Desks) -> None:
    """A retry refused as stale by a replica that never saw the first: the store's answer counts."""
    store = Book()
    desk = desks(store)
    assert await desk.send(STALE) == STALE
    store.kept = Written(APPLIED.reply, earlier=True)
    assert await desk.send(STALE) == Applied(APPLIED.reply, replayed=True, retried=True)

    store = Book()
    desk = desks(store)
    store.kept = NotWritten(Problem(Code.KEY_REUSED, "reused"))
    refused = await desk.send(STALE)
    assert isinstance(refused, Refused)
    assert refused.problem.code is Code.KEY_REUSED


async def test_a_reset_makes_keys_start_afresh(desks: Desks) -> None:
    """After a reset tokens repeat: an answer from before it is not given to the new holder."""
    desk = desks(Deaf())
    await desk.send(APPLIED)
    desk.era = Era(2)
    assert await desk.send(APPLIED) == APPLIED
    assert desk.counted() == []


async def test_a_request_that_breaks_off_leaves_nothing_behind(desks: Desks) -> None:
    """An attempt that raises (its body broke) is forgotten, and whoever waited goes on."""
    desk = desks(Deaf())
    with pytest.raises(IndexError):
        await desk.send()
    assert await desk.send(APPLIED) == APPLIED


def reused(outcome: Outcome) -> bool:
    return isinstance(outcome, Refused) and outcome.problem.code is Code.KEY_REUSED


async def test_other_bytes_under_a_key_are_reused(desks: Desks) -> None:
    """Of the same length and without any digest: not a retry, not counted as one, never applied."""
    desk = desks(Deaf())
    assert await desk.send(APPLIED) == APPLIED
    assert reused(await desk.send(body=Pieces(b"two")))
    assert desk.counted() == []
    assert await desk.send() == Applied(APPLIED.reply, replayed=True, retried=True)


async def test_other_bytes_are_reused_behind_an_unknown_attempt_too(desks: Desks) -> None:
    """Whether the store can tell, could, or will: the bytes end before they are committed."""
    for store in (Deaf(), Oracle()):
        desk = desks(store)
        await desk.send(UNKNOWN)
        assert reused(await desk.send(APPLIED, body=Pieces(b"two")))
        assert desk.counted() == []
    store = Oracle()
    desk = desks(store)
    await desk.send(UNKNOWN)
    store.ending = Written(APPLIED.reply)
    assert reused(await desk.send(body=Pieces(b"two"))), "settled as applied, with other bytes"
    assert await desk.send() == Applied(APPLIED.reply, replayed=True, retried=True)


async def test_a_replay_is_counted_once_its_body_has_come(desks: Desks) -> None:
    """A retry whose body breaks off is refused as broken, and counted so, not as a replay."""
    desk = desks(Deaf())
    await desk.send(APPLIED)
    broken = await desk.send(body=Pieces(b"one", breaks_after=1))
    assert isinstance(broken, Refused)
    assert broken.problem.code is Code.REQUEST_MALFORMED
    assert desk.counted() == ["refused"]
