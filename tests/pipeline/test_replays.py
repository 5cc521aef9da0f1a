"""The replays: a retry is recognised, waits for the first attempt, and forgets nothing unknown."""

from __future__ import annotations

import asyncio

from gateway.engine.replays import Key, Replays
from gateway.model.mark import Scope
from gateway.model.outcome import Applied, Refused, Unknown
from gateway.model.problem import Code, Problem
from gateway.model.reply import ObjectPut
from gateway.system_clock import SystemClock

KEY: Key = (Scope("s"), 1, None, "files:k", "PUT", "retry-1")
APPLIED = Applied(ObjectPut('"1"'))
REFUSED = Refused(Problem(Code.BUSY, "busy"))
UNKNOWN = Unknown(Problem(Code.OUTCOME_UNKNOWN, "lost"))


async def test_an_applied_attempt_is_found() -> None:
    """Only what was applied is answered again."""
    replays = Replays(SystemClock())
    replays.end(KEY, replays.begin(KEY, "w1"), APPLIED)
    earlier = await replays.earlier(KEY)
    assert earlier is not None
    assert earlier.outcome is APPLIED


async def test_a_refused_attempt_is_forgotten() -> None:
    """The retry of a refused request is a new admission."""
    replays = Replays(SystemClock())
    replays.end(KEY, replays.begin(KEY, "w1"), REFUSED)
    assert await replays.earlier(KEY) is None


async def test_a_refused_retry_keeps_the_unknown_attempt() -> None:
    """Unknown, then refused: the third try still looks for the first one's write."""
    replays = Replays(SystemClock())
    replays.end(KEY, replays.begin(KEY, "w1"), UNKNOWN)
    replays.end(KEY, replays.begin(KEY, "w2"), REFUSED)
    earlier = await replays.earlier(KEY)
    assert earlier is not None
    assert (earlier.write_id, earlier.outcome) == ("w1", UNKNOWN)


async def test_a_retry_waits_for_the_attempt_under_way() -> None:
    """A retry that comes meanwhile is answered with the first attempt's outcome."""
    replays = Replays(SystemClock())
    attempt = replays.begin(KEY, "w1")
    waiting = asyncio.create_task(replays.earlier(KEY))
    await asyncio.sleep(0)
    assert not waiting.done()
    replays.end(KEY, attempt, APPLIED)
    earlier = await asyncio.wait_for(waiting, 5)
    assert earlier is attempt


async def test_the_number_is_bounded() -> None:
    """The oldest answers go first."""
    replays = Replays(SystemClock(), most=10)
    keys = [(*KEY[:5], f"retry-{i}") for i in range(50)]
    for key in keys:
        replays.end(key, replays.begin(key, "w"), APPLIED)
    assert await replays.earlier(keys[0]) is None
    assert await replays.earlier(keys[-1]) is not None
