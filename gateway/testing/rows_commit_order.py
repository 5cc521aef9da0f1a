"""The commit-order law of rows stores: no lower token takes effect after a higher one.

Order is read from a log that the engine writes in the transactions themselves. A test that looks
only at acknowledgements passes stores that check before the transaction: `accepted_late` is that
test, kept here so that a negative control can show it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gateway.model.mark import Mark
from gateway.model.problem import Code
from gateway.ports.store import BehindRegistry, CarryFailed, FencedByStore, Written
from gateway.testing.rows_subject import (
    Answer,
    Client,
    RowsHarness,
    RowsStore,
    mark,
)

_SEED: Final = 7
_WRITERS: Final = 12
_ATTEMPTS: Final = 55
_TOKENS: Final = 40
_SEEDED_PER_TOKEN: Final = 12
_SHARED_ROWS: Final = 6
_NEW_ROWS_FROM: Final = 1_000_000
_STALE_SHARE: Final = 0.35
_RAISE_SHARE: Final = 0.06


class Accepted(NamedTuple):
    """One write that was acknowledged: its token, and when it began and ended, in order numbers."""

    token: int
    began: int
    ended: int


@dataclass(slots=True)
class Observation:
    """What a run showed: tokens in commit order, acknowledged writes, and refusals counted."""

    effects: list[int] = field(default_factory=list)
    accepted: list[Accepted] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    stale: int = 0
    busy: int = 0


def lower_after_higher(effects: Sequence[int]) -> list[int]:
    """The places in commit order where a token stands behind a higher one."""
    highest, found = 0, []
    for place, token in enumerate(effects):
        if token < highest:
            found.append(place)
        highest = max(highest, token)
    return found


def accepted_late(accepted: Sequence[Accepted]) -> list[Accepted]:
    """Writes that began after a higher token's write was acknowledged, and were accepted."""

    def is_late(write: Accepted) -> bool:
        return any(o.token > write.token and o.ended < write.began for o in accepted)

    return [write for write in accepted if is_late(write)]


async def observe(harness: RowsHarness, stores: Sequence[RowsStore]) -> Observation:
    """Let concurrent writers with rising and stale tokens insert, change and remove rows."""
    seen = Observation()
    await _seed_rows(harness)
    await harness.effects()
    harness.stall(_SEED)
    race = _Race(stores, seen)
    await asyncio.gather(*(race.run(number) for number in range(_WRITERS)))
    seen.effects = await harness.effects()
    return seen


async def check_commit_order(harness: RowsHarness) -> None:
    """Stalled anywhere, on two replicas, no lower token commits after a higher one."""
    seen = await observe(harness, [await harness.open(), await harness.open()])
    places = lower_after_higher(seen.effects)
    assert not places, f"a lower token committed after a higher one at {places[:5]}"
    assert not accepted_late(seen.accepted)
    assert sorted(seen.effects) == sorted(write.token for write in seen.accepted)
    # The run is worth something only if much was written, much refused, and the token rose.
    assert len(seen.effects) >= 300, seen
    assert seen.stale >= 30, seen.stale
    assert len(set(seen.effects)) >= 10
    assert seen.kinds == {"POST", "PATCH", "DELETE"}


async def _seed_rows(harness: RowsHarness) -> None:
    """Rows to change, and for each token rows that only its holder removes."""
    rows = [(number, 0) for number in range(_SHARED_ROWS)]
    rows += [(_own_row(token, n), token) for token in range(1, _TOKENS + 1) for n in _OWN]
    values = ", ".join(f"({row}, {owner}, 'seed')" for row, owner in rows)
    await harness.execute(f"INSERT INTO effects(id, owner, note) VALUES {values}")  # noqa: S608


_OWN: Final = range(_SEEDED_PER_TOKEN)


def _own_row(token: int, number: int) -> int:
    return token * 1_000 + number


class _Race:
    """Writers over several store objects, and the token that is current among them."""

    def __init__(self, stores: Sequence[RowsStore], seen: Observation) -> None:
        self._stores = stores
        self._seen = seen
        self._current = 1
        self._clock: Iterator[int] = itertools.count()
        self._new_rows: Iterator[int] = itertools.count(_NEW_ROWS_FROM)
        self._own_rows = {token: iter(_OWN) for token in range(1, _TOKENS + 1)}

    async def run(self, number: int) -> None:
        """One writer: it takes tokens as they come, old ones too, and writes with each."""
        chance = random.Random(number)  # noqa: S311 - repeatable, no secret
        worker = Client(self._stores[number % len(self._stores)])
        for _ in range(_ATTEMPTS):
            token = self._token(chance)
            method, target, body = self._request(chance, token)
            began = next(self._clock)
            answer = await _write(worker.at(token), method, target, body, mark(token))
            self._note(answer, Accepted(token, began, next(self._clock)), method)

    def _token(self, chance: random.Random) -> int:
        roll = chance.random()
        if roll < _RAISE_SHARE and self._current < _TOKENS:
            self._current += 1
        elif roll > 1 - _STALE_SHARE:
            return chance.randint(max(1, self._current - 2), self._current)
        return self._current

    def _request(self, chance: random.Random, token: int) -> tuple[str, str, object]:
        kind = chance.choice(("POST", "PATCH", "PATCH", "DELETE"))
        if kind == "DELETE" and (own := next(self._own_rows[token], None)) is not None:
            return "DELETE", f"/effects?id=eq.{_own_row(token, own)}", None
        if kind == "POST":
            return "POST", "/effects", {"id": next(self._new_rows), "owner": token}
        row = chance.randrange(_SHARED_ROWS)
        return "PATCH", f"/effects?id=eq.{row}", {"owner": token}

    def _note(self, answer: Answer, write: Accepted, method: str) -> None:
        result = answer.result
        if isinstance(result, FencedByStore):
            self._seen.stale += 1
        elif answer.problem is not None and answer.problem.code is Code.BUSY:
            self._seen.busy += 1
        else:
            assert isinstance(result, Written), result
            assert getattr(result.reply, "count", 0) == 1, result
            self._seen.accepted.append(write)
            self._seen.kinds.add(method)


async def _write(worker: Client, method: str, target: str, body: object, wanted: Mark) -> Answer:
    """Write, and where the store says that its fence row is behind, raise it and write again."""
    answer = await worker.send(method, target, body)
    if not isinstance(answer.result, BehindRegistry):
        return answer
    try:
        above = await worker.store.carry(worker.scope, wanted)
    except CarryFailed:
        return answer  # counted as busy: Client words BehindRegistry so
    if above is not None:
        return Answer(answer.reply, FencedByStore(above))
    return await worker.send(method, target, body)
