"""The request log: what became of each fenced mutation, for whoever asks afterwards.

Source: decisions, "Control API". In memory, per process, bounded in number and time. A request is
found by the id that its answer carried, or by the client's own key.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from gateway.model.mark import Scope
from gateway.model.operation import Operation
from gateway.model.outcome import Applied, Outcome, Refused, Unknown
from gateway.ports.body import BodyError
from gateway.ports.clock import Clock

MOST: Final = 10_000


class State(StrEnum):
    """What is known of a request."""

    IN_FLIGHT = "in-flight"
    APPLIED = "applied"
    REFUSED = "refused"
    UNKNOWN = "unknown"


_STRONGEST: Final = (State.APPLIED, State.IN_FLIGHT, State.UNKNOWN, State.REFUSED)


@dataclass(slots=True)
class Entry:
    """One request. `code` is that of its problem; `settled`: found out after it was answered."""

    request_id: str
    store: str
    scope: Scope
    token: int | None
    holder: str | None
    worker: str | None
    key: str | None
    method: str
    began_s: float
    state: State = State.IN_FLIGHT
    code: str | None = None
    settled: bool = False


class Lease(NamedTuple):
    """Within what a client's key names one request."""

    scope: Scope
    token: int | None
    holder: str | None


class RequestLog:
    """The last requests, and all that are under way or unknown."""

    def __init__(self, clock: Clock, keep_s: float = 600.0, most: int = MOST) -> None:
        self._clock = clock
        self._keep_s = keep_s
        self._most = most
        self._open: dict[str, Entry] = {}
        self._unknown: OrderedDict[str, Entry] = OrderedDict()
        self._ended: OrderedDict[str, Entry] = OrderedDict()
        self._keys: dict[str, list[Entry]] = {}

    async def track(self, operation: Operation, scope: Scope, work: Awaitable[Outcome]) -> Outcome:
        """Note a request while it runs, and how it ended."""
        entry = self._begin(operation, scope)
        state, code = State.UNKNOWN, None
        try:
            outcome = await work
            state = _state_of(outcome)
            code = outcome.problem.code if isinstance(outcome, Refused | Unknown) else None
        except BodyError as broken:
            state, code = State.REFUSED, broken.problem.code
            raise
        finally:
            self._open.pop(entry.request_id, None)
            self._note(entry, state, None if code is None else code.value)
        return outcome

    def settled(self, request_id: str, ending: Applied | Refused) -> None:
        """It was found out how an unknown request ended."""
        entry = self._unknown.pop(request_id, None)
        if entry is not None:
            entry.settled = True
            code = ending.problem.code.value if isinstance(ending, Refused) else None
            self._note(entry, _state_of(ending), code)

    def find(self, name: str) -> tuple[Entry, ...]:
        """What is known under a request id, else under a client's key: one entry for each lease."""
        entry = self._open.get(name) or self._unknown.get(name) or self._ended.get(name)
        if entry is not None:
            return (entry,) if self._is_fresh(entry) else ()
        leases: dict[Lease, Entry] = {}
        for entry in self._keys.get(name, ()):
            lease = Lease(entry.scope, entry.token, entry.holder)
            best = leases.get(lease)
            if self._is_fresh(entry) and (best is None or _rank(entry) <= _rank(best)):
                leases[lease] = entry
        return tuple(leases.values())

    def _begin(self, operation: Operation, scope: Scope) -> Entry:
        entry = Entry(
            operation.request_id,
            operation.resource.store,
            scope,
            operation.token,
            operation.holder,
            operation.worker,
            operation.retry_key,
            operation.method,
            self._clock.boottime_s(),
        )
        self._open[entry.request_id] = entry
        if entry.key is not None:
            self._keys.setdefault(entry.key, []).append(entry)
        return entry

    def _note(self, entry: Entry, state: State, code: str | None) -> None:
        entry.state, entry.code = state, code
        kept = self._unknown if state is State.UNKNOWN else self._ended
        kept[entry.request_id] = entry
        while len(kept) > self._most or not self._is_fresh(next(iter(kept.values()))):
            self._forget(kept.popitem(last=False)[1])
            if not kept:
                return

    def _forget(self, entry: Entry) -> None:
        if entry.key is None:
            return
        left = [other for other in self._keys.get(entry.key, ()) if other is not entry]
        if left:
            self._keys[entry.key] = left
        else:
            self._keys.pop(entry.key, None)

    def _is_fresh(self, entry: Entry) -> bool:
        age_s = self._clock.boottime_s() - entry.began_s
        return entry.state is State.IN_FLIGHT or age_s < self._keep_s


def _rank(entry: Entry) -> int:
    """An attempt that was applied tells most: so was the request."""
    return _STRONGEST.index(entry.state)


def _state_of(outcome: Outcome) -> State:
    match outcome:
        case Applied():
            return State.APPLIED
        case Refused():
            return State.REFUSED
        case _:
            return State.UNKNOWN
