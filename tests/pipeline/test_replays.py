"""The replays: a retry is recognised, waits for the first attempt, and forgets nothing unknown."""

from __future__ import annotations

import asyncio

from gateway.engine.replays import Attempt, Key, Replays
from gateway.model.outcome import Applied, Refused, Unknown
from gateway.model.problem import Code, Problem
from gateway.model.reply import ObjectPut, Rows
from gateway.model.write_id import write_id_of
from gateway.system_clock import SystemClock

KEY = Key("d" * 32, "c" * 16)
OTHER = Key("d" * 32, "e" * 16)
W1, W2 = (write_id_of(KEY, digit * 32) for digit in "12")
APPLIED = Applied(ObjectPut('"1"'))
REFUSED = Refused(Problem(Code.BUSY, "busy"))
UNKNOWN = Unknown(Problem(Code.OUTCOME_UNKNOWN, "lost"))


async def found(replays: Replays, key: Key = KEY) -> Attempt | None:
    earlier = await asyncio.wait_for(replays.earlier(key), 5)
    assert not isinstance(earlier, Problem)
    return earlier


async def test_an_applied_attempt_is_found() -> None:
    """Only what was applied is answered again."""
    replays = Replays(SystemClock())
    replays.end(KEY, replays.begin(KEY, W1), APPLIED)
    earlier = await found(replays)
    assert earlier is not None
    assert earlier.outcome is APPLIED


async def test_a_refused_attempt_is_forgotten() -> None:
    """The retry of a refused request is a new admission, whatever it asks for."""
    replays = Replays(SystemClock())
    replays.end(KEY, replays.begin(KEY, W1), REFUSED)
    assert await found(replays) is None
    assert await found(replays, OTHER) is None


async def test_a_refused_retry_keeps_the_unknown_attempt() -> None:
    """Unknown, then refused: the third try still looks for the first one's write."""
    replays = Replays(SystemClock())
    replays.end(KEY, replays.begin(KEY, W1), UNKNOWN)
    replays.end(KEY, replays.begin(KEY, W2), REFUSED)
    earlier = await found(replays)
    assert earlier is not None
    assert (earlier.write_id, earlier.outcome) == (W1, UNKNOWN)


async def test_a_retry_waits_for_the_attempt_under_way() -> None:
    """A retry that comes meanwhile is answered with the first attempt's outcome."""
    replays = Replays(SystemClock())
    attempt = replays.begin(KEY, W1)
    waiting = asyncio.create_task(replays.earlier(KEY))
    await asyncio.sleep(0)
    assert not waiting.done()
    replays.end(KEY, attempt, APPLIED)
    earlier = await asyncio.wait_for(waiting, 5)
    assert earlier is attempt


async def test_a_key_used_for_something_else_is_told_at_once() -> None:
    """Another content under one key is no retry, of what is under way, applied or unknown."""
    replays = Replays(SystemClock())
    attempt = replays.begin(KEY, W1)
    for outcome in (None, APPLIED, UNKNOWN):
        if outcome is not None:
            replays.end(KEY, attempt, outcome)
        earlier = await asyncio.wait_for(replays.earlier(OTHER), 5)
        assert isinstance(earlier, Problem)
        assert (earlier.status, earlier.code) == (422, Code.KEY_REUSED)
        attempt = replays.begin(KEY, W1)


async def test_an_unknown_attempt_that_was_settled_is_what_it_turned_out_to_be() -> None:
    """Applied is answered from then on; refused is forgotten; an id of nobody changes nothing."""
    replays = Replays(SystemClock())
    replays.end(KEY, replays.begin(KEY, W1), UNKNOWN)
    replays.settled(W2, APPLIED)
    assert (await found(replays)) == await found(replays)
    before = await found(replays)
    assert before is not None
    assert before.outcome is UNKNOWN
    replays.settled(W1, APPLIED)
    after = await found(replays)
    assert after is not None
    assert after.outcome is APPLIED
    replays.settled(W1, REFUSED)
    assert (await found(replays)) is after, "what is known does not change any more"


async def test_an_attempt_that_is_settled_while_its_retry_runs() -> None:
    """A refused retry restores what the first attempt has turned out to be meanwhile."""
    replays = Replays(SystemClock())
    for ending, kept in ((APPLIED, True), (REFUSED, False)):
        replays.end(KEY, replays.begin(KEY, W1), UNKNOWN)
        retry = replays.begin(KEY, W2)
        replays.settled(W1, ending)
        replays.end(KEY, retry, REFUSED)
        earlier = await found(replays)
        assert (earlier is not None and earlier.outcome is APPLIED) is kept


async def test_the_number_is_bounded() -> None:
    """The oldest answers go first."""
    replays = Replays(SystemClock(), most=10)
    keys = [Key(f"{i:032x}", KEY.content) for i in range(50)]
    for key in keys:
        replays.end(key, replays.begin(key, "w"), APPLIED)
    assert await found(replays, keys[0]) is None
    assert await found(replays, keys[-1]) is not None


async def test_the_bytes_are_bounded() -> None:
    """Large answers push the oldest out; what they weighed is free again, on every way out."""
    replays = Replays(SystemClock(), most_bytes=1_000)
    large = Applied(Rows("x" * 300, 1))
    keys = [Key(f"{i:032x}", KEY.content) for i in range(40)]
    for key in keys:
        replays.end(key, replays.begin(key, "w"), large)
        replays.end(key, replays.begin(key, "w"), REFUSED)
        replays.end(key, replays.begin(key, "w"), large)
    replays.begin(KEY, W1)
    kept = [key for key in keys if await found(replays, key) is not None]
    assert kept == keys[-3:]


async def test_a_settled_answer_weighs_too() -> None:
    """An unknown outcome weighs nothing until it has turned out to be an answer."""
    replays = Replays(SystemClock(), most_bytes=1_000)
    replays.end(KEY, replays.begin(KEY, W1), UNKNOWN)
    replays.settled(W1, Applied(Rows("x" * 2_000, 1)))
    other = Key("e" * 32, KEY.content)
    replays.begin(other, W2)
    assert await found(replays) is None
