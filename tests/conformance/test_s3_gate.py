"""Rule 5 at the socket: the end of a body stays here until the gate, and a shut gate is final.

The origin counts the bytes that reach it, so these tests do not trust what the store says.
"""

from __future__ import annotations

import asyncio
import hashlib
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine

import pytest
import uvloop

from gateway.engine.holdback import HOLD_BACK_BYTES
from gateway.model.problem import Code, Problem
from gateway.ports.body import BodyError
from gateway.ports.store import MaybeWritten, NotWritten, Written
from gateway.stores.s3 import puts
from gateway.testing.numbering_origin import Asked
from gateway.testing.store_subject import SHUT, Pieces
from tests.conformance.s3_lake import Lake, open_lake

MIB = 1_048_576


async def writing(lake: Lake, key: str, body: Pieces, **how: object) -> asyncio.Task[object]:
    """Start a PUT and wait until its body stalls before the last piece."""
    task = asyncio.ensure_future(lake.put(key, body, **how))  # type: ignore[arg-type]
    async with asyncio.timeout(10):
        await body.held.wait()
    return task


@pytest.mark.parametrize("size", [0, 1, HOLD_BACK_BYTES])
async def test_small_bodies_wait_whole(size: int) -> None:
    """A body that fits into the hold: not one byte, head included, leaves before the gate."""
    async with open_lake() as lake:
        seen: list[int] = []

        def gate() -> Problem | None:
            seen.append(sum(asked.method == "PUT" for asked in lake.origin.asked))
            return SHUT

        result = await lake.put("k", b"x" * size, gate=gate)
        assert result == NotWritten(SHUT)
        await lake.look_at("k")
        assert seen == [0]
        assert not any(asked.method == "PUT" for asked in lake.origin.asked)


async def test_the_end_is_held_until_the_gate() -> None:
    """Of a long body all but the last 64 KiB streams through; the end stays until the gate."""
    async with open_lake() as lake:
        body = Pieces(b"x" * MIB, hold=True)
        task = await writing(lake, "k", body)
        early = MIB - 2 * HOLD_BACK_BYTES
        await lake.origin.until(lambda: lake.origin.received["k"] >= early)
        assert lake.gates == []
        assert lake.origin.received["k"] <= MIB - HOLD_BACK_BYTES
        body.release.set()
        assert isinstance(await task, Written)
        assert lake.gates == ["w1"]
        assert lake.data("k") == b"x" * MIB


async def test_gate_waits_for_an_empty_send_queue() -> None:
    """While the store does not read what came before the end, the gate is not asked."""
    async with open_lake() as lake:
        reads, go = asyncio.Event(), asyncio.Event()

        async def slow(_: Asked) -> None:
            reads.set()
            await go.wait()

        lake.origin.faults.slow_reading = slow
        size = 32 * MIB  # more than both kernels' buffers and the origin's take unread
        task = asyncio.ensure_future(lake.put("k", Pieces(b"x" * size)))
        await reads.wait()
        done, _ = await asyncio.wait({task}, timeout=0.3)
        assert not done
        assert lake.gates == []
        go.set()
        assert isinstance(await task, Written)
        assert lake.gates == ["w1"]


async def test_shut_gate_leaves_the_old_object() -> None:
    """The gate shuts after most of a body has left: reset, the old object stays as it was."""
    async with open_lake() as lake:
        assert isinstance(await lake.put("k", b"old"), Written)
        result = await lake.put("k", Pieces(b"n" * MIB), "w2", gate=lambda: SHUT)
        assert result == NotWritten(SHUT)
        await lake.look_at("k")
        assert lake.origin.received["k"] < MIB + 3
        assert lake.data("k") == b"old"
        assert lake.landed() == ["w1"]


@pytest.mark.parametrize("after", [0, 1000, 700_000, MIB])
async def test_client_that_disconnects(after: int) -> None:
    """A body that breaks off at any point commits nothing, and its own problem is the answer."""
    async with open_lake() as lake:
        assert isinstance(await lake.put("k", b"old"), Written)
        body = Pieces(b"n" * MIB, breaks_after=after)
        result = await lake.put("k", body, "w2")
        assert isinstance(result, NotWritten)
        assert result.problem.code is Code.REQUEST_MALFORMED
        assert lake.gates == ["w1"]
        assert lake.data("k") == b"old"


async def test_wrong_digest_found_at_the_end() -> None:
    """A body whose digest fails with its very last piece has its end still here: not stored."""

    class Digested(Pieces):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in super().__aiter__():
                yield piece
            raise BodyError(Problem(Code.REQUEST_MALFORMED, "wrong digest", native="BadDigest"))

    async with open_lake() as lake:
        result = await lake.put("k", Digested(b"n" * MIB))
        assert isinstance(result, NotWritten)
        assert result.problem.native == "BadDigest"
        assert lake.data("k") is None
        assert lake.gates == []


async def test_connection_is_dropped_after_an_abort() -> None:
    """What was broken off is never used again; the next write has a connection of its own."""
    async with open_lake(connections=1) as lake:
        for number in range(3):
            body = Pieces(b"n" * MIB, breaks_after=700_000)
            assert isinstance(await lake.put("k", body, f"b{number}"), NotWritten)
            assert isinstance(await lake.put("k", b"fine", f"w{number}"), Written)
        assert lake.landed() == ["w0", "w1", "w2"]


async def test_haste_resets_the_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """A higher mark that waits too long resets the exchange (rule 4): unknown, at once."""
    monkeypatch.setattr(puts, "_SETTLE_WAITS_S", (0.0,))
    async with open_lake() as lake:
        lake.stall_effects()
        task = asyncio.ensure_future(lake.put("k", b"1"))
        await lake.origin.until(lambda: any(a.method == "PUT" for a in lake.origin.asked))
        assert len(lake.resets) == 1
        lake.resets[0]()
        result = await asyncio.wait_for(task, 5)
        assert isinstance(result, MaybeWritten)
        lake.resets[0]()  # nothing is left to reset


async def test_cancelled_write_resets_its_connection() -> None:
    """Whoever gives a write up leaves no half of it behind, and no connection taken."""
    async with open_lake(connections=1) as lake:
        body = Pieces(b"x" * MIB, hold=True)
        task = await writing(lake, "k", body)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert isinstance(await lake.put("k", b"next", "w2"), Written)
        assert lake.landed() == ["w2"]


async def test_bodies_are_never_buffered() -> None:
    """64 MiB pass through a slow store with a few hundred KiB held; nothing grows with the body."""

    class Large:
        length: int | None = 64 * MIB

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for _ in range(1024):
                yield bytes(65_536)

    async with open_lake() as lake:
        lake.origin.discard_bodies = True
        tracemalloc.start()
        try:
            result = await lake.put("k", Large())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert isinstance(result, Written)
        assert lake.origin.received["k"] == 64 * MIB
        assert peak < 4 * MIB, f"{peak} bytes at the peak"


async def test_a_store_that_acts_on_halves_gets_wholes() -> None:
    """Where half an upload becomes an object, nothing of a body leaves before the gate.

    The control: the same store without the probe's finding ends up with a stale half.
    """
    for probe in (True, False):
        async with open_lake() as lake:
            lake.origin.faults.keeps_half_bodies = True
            if probe:
                await lake.store.probe()
                assert lake.store.profile.keeps_half
                assert "held whole" in lake.store.capabilities.guarantee
            assert isinstance(await lake.put("k", b"old"), Written)
            large = bytes(range(256)) * 16_384
            result = await lake.put("k", Pieces(large), "w2", gate=lambda: SHUT)
            assert result == NotWritten(SHUT)
            if not probe:
                await lake.origin.until(lambda: lake.data("k") != b"old")
                continue
            await lake.look_at("k")
            assert lake.data("k") == b"old"
            assert isinstance(await lake.put("k", Pieces(large), "w3"), Written)
            stored = lake.data("k") or b""
            assert hashlib.sha256(stored).digest() == hashlib.sha256(large).digest()
            huge = Pieces(b"")
            huge.length = 17 * MIB
            result = await lake.put("k", huge, "w4")
            assert isinstance(result, NotWritten)
            assert result.problem.code is Code.BODY_TOO_LARGE


@pytest.mark.parametrize(
    "law",
    [
        test_the_end_is_held_until_the_gate,
        test_gate_waits_for_an_empty_send_queue,
        test_shut_gate_leaves_the_old_object,
        test_connection_is_dropped_after_an_abort,
        test_cancelled_write_resets_its_connection,
    ],
    ids=lambda law: law.__name__.removeprefix("test_"),
)
def test_on_uvloop(law: Callable[[], Coroutine[None, None, None]]) -> None:
    """The same on the loop that the gateway runs on."""
    uvloop.run(law())
