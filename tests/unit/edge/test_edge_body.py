"""The body: exact accounting, never a clean end for a broken message."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.body import PROBLEM_KEY, RequestBody
from gateway.model.problem import Code, Problem
from gateway.ports.body import BodyError

GONE: dict[str, Any] = {"type": "http.disconnect"}


def part(body: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def body_over(messages: list[dict[str, Any]], length: int | None, **options: Any) -> RequestBody:
    script = iter(messages)

    async def receive() -> dict[str, Any]:
        message = next(script, None)
        if message is None:
            await asyncio.Event().wait()
        assert message is not None
        return message

    return RequestBody(receive, length, **options)


async def drained(body: RequestBody) -> tuple[list[bytes], Problem | None]:
    pieces: list[bytes] = []
    try:
        async for piece in body:
            pieces.append(piece)  # noqa: PERF401 - what came before the error counts
    except BodyError as error:
        return pieces, error.problem
    return pieces, None


@given(st.lists(st.binary(max_size=5), max_size=8), st.booleans())
def test_all_bytes_in_order(parts: list[bytes], known: bool) -> None:
    """Whatever the cut, the pieces together are the body, and none is empty."""
    messages = [part(p) for p in parts] + [part(b"", False)]
    length = len(b"".join(parts)) if known else None
    body = body_over(messages, length)
    pieces, problem = asyncio.run(drained(body))
    assert problem is None
    assert b"".join(pieces) == b"".join(parts)
    assert b"" not in pieces
    assert body.received == len(b"".join(parts))


@given(st.lists(st.binary(min_size=1, max_size=5), min_size=1, max_size=8), st.booleans())
def test_a_broken_message_keeps_its_last_bytes(parts: list[bytes], known: bool) -> None:
    """All bytes came but the message never became complete: the last piece is not given out."""
    length = len(b"".join(parts)) if known else None
    pieces, problem = asyncio.run(drained(body_over([*map(part, parts), GONE], length)))
    assert problem is not None
    assert pieces == parts[:-1]


@pytest.mark.parametrize("length", [10, None])
async def test_a_disconnect_is_an_error(length: int | None) -> None:
    """Fewer bytes than announced, or no last chunk, and then nobody."""
    _, problem = await drained(body_over([part(b"abc"), GONE], length))
    assert problem is not None
    assert (problem.code, problem.close) == (Code.REQUEST_MALFORMED, True)


async def test_the_servers_own_reason_is_told() -> None:
    """A disconnect that carries a problem (a trailer, a bad chunk) is that problem."""
    trailer = Problem(Code.REQUEST_MALFORMED, "a trailer")
    _, problem = await drained(body_over([part(b"abc"), GONE | {PROBLEM_KEY: trailer}], None))
    assert problem is trailer


@pytest.mark.parametrize("parts", [[b"ab"], [b"abcd"], [b"ab", b"cd"]])
async def test_another_length_than_announced_is_an_error(parts: list[bytes]) -> None:
    """The server's framing is not trusted blindly."""
    messages = [*map(part, parts), part(b"", False)]
    pieces, problem = await drained(body_over(messages, 3))
    assert problem is not None
    assert len(b"".join(pieces)) < 3


@pytest.mark.parametrize("length", [11, None])
async def test_the_size_limit(length: int | None) -> None:
    """A known length is refused unread, an unknown one when it passes the limit; 413, close."""
    messages = [part(b"abcdef"), part(b"abcde"), part(b"", False)]
    pieces, problem = await drained(body_over(messages, length, max_bytes=10))
    assert problem is not None
    assert (problem.code, problem.close) == (Code.BODY_TOO_LARGE, True)
    assert pieces == []
    exact = body_over([part(b"a" * 10, False)], None, max_bytes=10)
    assert await drained(exact) == ([b"a" * 10], None)


async def test_a_pause_is_bounded() -> None:
    """No byte within the idle time: 408, close."""
    _, problem = await drained(body_over([part(b"abc")], 10, idle_timeout_s=0.01))
    assert problem is not None
    assert (problem.code, problem.close) == (Code.REQUEST_TIMEOUT, True)


async def test_nothing_is_asked_for_when_nothing_comes() -> None:
    """No body: the server is not asked, unless the client waits for 100 Continue."""
    assert await drained(body_over([], 0)) == ([], None)
    asked = body_over([part(b"", False)], 0, announced=True)
    assert await drained(asked) == ([], None)


async def test_it_is_read_once() -> None:
    """A second reader would get nothing and take that for an empty body."""
    body = body_over([part(b"abc", False)], 3)
    await drained(body)
    with pytest.raises(RuntimeError, match="once"):
        aiter(body)
