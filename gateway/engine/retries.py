"""A write that names its logical request: done once, however often it is sent.

Source: decisions, "Replays". What was applied is answered again, what was refused is tried anew,
and what is unknown is settled first. While it is not, no retry is called refused: that would say
that nothing was written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import uuid4

from gateway.engine.compared_body import ComparedBody
from gateway.engine.refusals import still_unknown
from gateway.engine.replays import Attempt, Key, Replays
from gateway.engine.request_log import RequestLog
from gateway.engine.unknowns import Ending, Lost, Unknowns, ending_of
from gateway.model.event import Retried
from gateway.model.mark import Era, Scope
from gateway.model.operation import Operation
from gateway.model.outcome import Applied, Outcome, Refused, Unknown
from gateway.model.problem import Code, Problem
from gateway.model.write_id import request_name, write_id_of
from gateway.ports.body import Body, BodyError, Checked
from gateway.ports.clock import Clock
from gateway.ports.observer import Observer
from gateway.ports.store import Recalls, Store, WriteFence

_IDEMPOTENT: Final = frozenset({"PUT", "DELETE"})
_OF_THE_FENCE: Final = frozenset({Code.TOKEN_STALE, Code.TOKEN_DUPLICATE, Code.TOKEN_REGRESSED})

Write = Callable[[str, str | None], Awaitable[Outcome]]
"""One attempt, with its write id, and that of an earlier one whose outcome is not known."""


class Retries:
    """Recognises retries. `era` tells the era of a scope, as far as this replica knows it."""

    def __init__(
        self,
        replays: Replays,
        clock: Clock,
        observer: Observer,
        era: Callable[[Scope], Era | None],
    ) -> None:
        self._replays = replays
        self._unknowns = Unknowns(clock, observer, self._settled, keep_s=replays.ttl_s)
        self._observer = observer
        self._era = era
        self.requests = RequestLog(clock, replays.ttl_s)

    async def aclose(self) -> None:
        """Stop finding out what became of lost writes."""
        await self._unknowns.aclose()

    def key(self, operation: Operation, scope: Scope) -> Key | None:
        """The key of a retry, or None when the client names no logical request."""
        return request_name(operation, scope)

    def lost(
        self, operation: Operation, store: Store, fence: WriteFence, close: Callable[[], None]
    ) -> None:
        """The answer of a write was lost; `close` ends its ticket once it is known how it ended."""
        self._unknowns.watch(operation, store, fence, close)

    def _settled(self, lost: Lost, ending: Ending) -> None:
        self._replays.settled(lost.fence.write_id, ending)
        self.requests.settled(lost.operation.request_id, ending)

    async def once(
        self, operation: Operation, store: Store, scope: Scope, key: Key, body: Body, write: Write
    ) -> Outcome:
        """Answer from an earlier attempt, or carry this one out with `write`.

        A `body` that differs from that of the earlier attempt is no retry, and is told so.
        """
        earlier = await self._replays.earlier(key)
        if isinstance(earlier, Problem):
            return Refused(earlier)
        if earlier is not None and self._is_before_reset(earlier, scope):
            earlier = None
        if earlier is not None and isinstance(body, ComparedBody):
            body.expect(earlier.sha256)
        if earlier is not None and isinstance(earlier.outcome, Applied):
            replay = dataclasses.replace(earlier.outcome, replayed=True)
            return self._told(store, await as_promised(replay, body))
        attempt = self._replays.begin(key, write_id_of(key, uuid4().hex))
        outcome: Outcome | None = None
        try:
            outcome = await self._attempt(operation, store, scope, attempt, earlier, write)
            outcome = await as_promised(outcome, body)
        finally:
            attempt.era = self._era(scope)
            attempt.sha256 = body.sha256 if isinstance(body, ComparedBody) else None
            self._replays.end(key, attempt, outcome)
        replayed = isinstance(outcome, Applied) and outcome.replayed
        return self._told(store, outcome) if earlier is not None or replayed else outcome

    def _is_before_reset(self, earlier: Attempt, scope: Scope) -> bool:
        era = self._era(scope)
        return era is not None and earlier.era is not None and earlier.era < era

    async def _attempt(
        self,
        operation: Operation,
        store: Store,
        scope: Scope,
        attempt: Attempt,
        earlier: Attempt | None,
        write: Write,
    ) -> Outcome:
        if earlier is None:
            outcome = await write(attempt.write_id, None)
            return await self._unless_recalled(operation, store, scope, outcome)
        settled = await self._unknowns.ask(earlier.write_id)
        if isinstance(settled, Applied):
            return dataclasses.replace(settled, replayed=True)
        if isinstance(settled, Refused):
            return await write(attempt.write_id, None)
        if not _may_repeat(operation, store):
            return Unknown(still_unknown(None))
        outcome = await write(attempt.write_id, earlier.write_id)
        if not isinstance(outcome, Refused) or outcome.problem.code is Code.KEY_REUSED:
            return outcome
        settled = await self._unknowns.ask(earlier.write_id)
        if isinstance(settled, Applied):
            return dataclasses.replace(settled, replayed=True)
        return outcome if settled is not None else Unknown(still_unknown(outcome.problem))

    async def _unless_recalled(
        self, operation: Operation, store: Store, scope: Scope, outcome: Outcome
    ) -> Outcome:
        """A stale token's retry, of which only the store knows: another replica's, or older."""
        if not isinstance(outcome, Refused) or outcome.problem.code not in _OF_THE_FENCE:
            return outcome
        if not isinstance(store, Recalls):
            return outcome
        recalled = await store.recall(operation, scope, self._era(scope))
        ending = None if recalled is None else ending_of(recalled)
        if isinstance(ending, Applied):
            return dataclasses.replace(ending, replayed=True)
        return outcome if ending is None else ending

    def _told(self, store: Store, outcome: Outcome) -> Outcome:
        """Mark and count the answer to a retry."""
        match outcome:
            case Applied(replayed=replayed):
                self._observer.emit(Retried(store.name, "replayed" if replayed else "applied"))
                return dataclasses.replace(outcome, retried=True)
            case Refused(problem) if problem.code is Code.KEY_REUSED:
                return outcome  # it was no retry
            case Refused():
                self._observer.emit(Retried(store.name, "refused"))
                return dataclasses.replace(outcome, retried=True)
            case Unknown():
                self._observer.emit(Retried(store.name, "unknown"))
                return dataclasses.replace(outcome, retried=True)
            case _:
                return outcome


async def as_promised(outcome: Outcome, body: Body) -> Outcome:
    """Hold a body that an earlier answer made needless to its promises, and to the first one."""
    if not isinstance(outcome, Applied) or not outcome.replayed or not isinstance(body, Checked):
        return outcome
    try:
        await body.check()
    except BodyError as broken:
        return Refused(broken.problem)
    return outcome


def _may_repeat(operation: Operation, store: Store) -> bool:
    """Whether sending it twice is the same as once (RFC 9110, 9.2.2), or its store sees to that."""
    return operation.method in _IDEMPOTENT or isinstance(store, Recalls)
