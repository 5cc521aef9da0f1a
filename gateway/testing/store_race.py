"""Laws of races: of many writers at once, exactly one wins, and what is there is the winner's."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from gateway.model.conditions import Conditions
from gateway.model.problem import Code
from gateway.ports.store import NotWritten, WriteResult, Written
from gateway.testing.store_subject import OpenSubject, Pieces, Subject, etag_of, in_time, require

WRITERS: Final = 16
ROUNDS: Final = 5


async def _race(subject: Subject, key: str, conditions: Conditions) -> list[WriteResult]:
    """Let all writers arrive at the end of their bodies, then release them together."""
    bodies = [Pieces(b"writer %d" % number, hold=True) for number in range(WRITERS)]
    await subject.carry(subject.scope(key), 1)
    writers = [
        asyncio.create_task(subject.put(key, body, conditions=conditions)) for body in bodies
    ]
    for body in bodies:
        await in_time("the start of a writer", body.held.wait())
    for body in bodies:
        body.release.set()
    return await in_time("the race", asyncio.gather(*writers))


async def _one_winner(subject: Subject, key: str, results: list[WriteResult]) -> None:
    winners = [n for n, result in enumerate(results) if isinstance(result, Written)]
    require(len(winners) == 1, f"{len(winners)} of {WRITERS} writers won: {winners}")
    allowed = {Code.PRECONDITION_FAILED} | subject.traits.race_losers
    codes = Counter(r.problem.code for r in results if isinstance(r, NotWritten))
    require(codes.total() == WRITERS - 1, f"losers were not all refused: {results!r}")
    require(set(codes) <= allowed, f"losers got {dict(codes)}, allowed are {sorted(allowed)}")
    seen = await subject.seen(key)
    won = results[winners[0]]
    require(seen is not None and seen.data == b"writer %d" % winners[0], "another one's bytes")
    require(seen is not None and seen.etag == etag_of(won), "another one's tag")


async def check_race_to_create(open_subject: OpenSubject) -> None:
    """Of 16 writers with If-None-Match: *, exactly one creates."""
    async with open_subject() as subject:
        for number in range(ROUNDS):
            key = f"create-{number}"
            results = await _race(subject, key, Conditions(if_none_match=("*",)))
            await _one_winner(subject, key, results)


async def check_race_to_replace(open_subject: OpenSubject) -> None:
    """Of 16 writers with If-Match of the same tag, exactly one replaces."""
    async with open_subject() as subject:
        for number in range(ROUNDS):
            key = f"replace-{number}"
            etag = etag_of(await subject.put(key, b"before"))
            results = await _race(subject, key, Conditions(if_match=(etag,)))
            await _one_winner(subject, key, results)


async def check_race_to_delete(open_subject: OpenSubject) -> None:
    """Of 16 deleters with If-Match of the same tag, exactly one removes."""
    async with open_subject() as subject:
        for number in range(ROUNDS):
            key = f"delete-{number}"
            etag = etag_of(await subject.put(key, b"before"))
            matched = Conditions(if_match=(etag,))
            deleters = [subject.delete(key, conditions=matched) for _ in range(WRITERS)]
            results = await in_time("the race", asyncio.gather(*deleters))
            winners = sum(isinstance(result, Written) for result in results)
            require(winners == 1, f"{winners} of {WRITERS} deleters won")
            require(await subject.seen(key) is None, "nobody removed it")


async def check_unconditional_race(open_subject: OpenSubject) -> None:
    """Without conditions every applied writer was first or last: one whole version remains."""
    async with open_subject() as subject:
        results = await _race(subject, "free", Conditions())
        applied = [n for n, result in enumerate(results) if isinstance(result, Written)]
        require(bool(applied), "of writers without conditions none was applied")
        seen = await subject.seen("free")
        require(
            seen is not None and seen.data in {b"writer %d" % n for n in applied},
            f"what remains is no applied writer's: {seen!r}",
        )
        tags = {etag_of(results[n]): b"writer %d" % n for n in applied}
        require(seen is not None and tags.get(seen.etag) == seen.data, "tag and bytes differ")
