"""The held-back end: order kept, at most so many bytes held, never an empty hold of a full body."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.engine.holdback import HoldBack, Replayed, spool_whole
from gateway.ports.body import BodyError


class Cut:
    """A body in the given pieces."""

    def __init__(self, *pieces: bytes, length: int | None = None) -> None:
        self.pieces = pieces
        self.length = length
        self.given = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            self.given += len(piece)
            yield piece


@given(st.lists(st.binary(max_size=40), max_size=12), st.integers(1, 50))
async def test_order_and_bounds(pieces: list[bytes], keep: int) -> None:
    """Early pieces and tail are the body; the tail has 1…keep bytes whenever the body has any."""
    whole = b"".join(pieces)
    hold = HoldBack(Cut(*pieces), keep_bytes=keep)
    early = b"".join([piece async for piece in hold])
    assert early + hold.tail == whole
    assert len(hold.tail) <= keep
    assert bool(hold.tail) == bool(whole)
    assert hold.ended
    assert hold.received == len(whole)
    # One arriving piece at most comes on top of what is kept.
    assert hold.held_peak <= keep + max(map(len, pieces), default=0)


async def test_nothing_leaves_before_more_came() -> None:
    """A body that fits into the hold is never given out early."""
    hold = HoldBack(Cut(b"a" * 30, b"b" * 34), keep_bytes=64)
    assert [piece async for piece in hold] == []
    assert len(hold.tail) == 64


@pytest.mark.parametrize("length", [5, 7])
async def test_length_must_hold(length: int) -> None:
    """A body shorter or longer than it said is an error before its tail is complete."""
    hold = HoldBack(Cut(b"abc", b"def", length=length))
    with pytest.raises(BodyError, match=str(length)):
        [piece async for piece in hold]
    assert not hold.ended


async def test_spool() -> None:
    """A body up to the limit is remembered whole; a larger one, announced or not, is not."""
    small = HoldBack(Cut(b"abc", b"def"), keep_bytes=2, spool_bytes=6)
    assert small.spooled is None
    assert b"".join([piece async for piece in small]) == b"abcd"
    assert small.spooled == b"abcdef"
    large = HoldBack(Cut(b"abc", b"defg"), keep_bytes=2, spool_bytes=6)
    assert large.spooling
    assert [piece async for piece in large]
    assert large.spooled is None
    assert not HoldBack(Cut(length=7), spool_bytes=6).spooling
    assert not HoldBack(Cut(length=1)).spooling


async def test_iteration_goes_on_where_it_was_left() -> None:
    """A store's early answer leaves the iteration; the rest can still be spooled."""
    hold = HoldBack(Cut(b"ab", b"cd", b"ef"), keep_bytes=2, spool_bytes=10)
    async for piece in hold:
        assert piece == b"ab"
        break
    assert hold.spooled is None
    assert [piece async for piece in hold] == [b"cd"]
    assert hold.spooled == b"abcdef"


async def test_replayed_is_a_body_twice() -> None:
    """What is at hand can be sent again."""
    body = Replayed(b"xyz")
    assert body.length == 3
    for _ in range(2):
        assert b"".join([piece async for piece in body]) == b"xyz"
    assert [piece async for piece in Replayed(b"")] == []


async def test_spool_whole() -> None:
    """A body of unknown length is read up to the limit, and no further than one piece past it."""
    assert await spool_whole(Cut(b"abc", b"d"), 4) == b"abcd"
    endless = Cut(*[b"x" * 10] * 100)
    assert await spool_whole(endless, 25) is None
    assert endless.given == 30


async def test_memory_does_not_grow_with_the_body() -> None:
    """256 MiB pass with one piece above the hold."""
    piece = b"z" * 262_144
    hold = HoldBack(Cut(*[piece] * 1024, length=1024 * len(piece)), spool_bytes=1_048_576)
    digest = hashlib.sha256()
    async for early in hold:
        digest.update(early)
    digest.update(hold.tail)
    assert hold.held_peak <= 65_536 + len(piece)
    assert digest.digest() == hashlib.sha256(piece * 1024).digest()
