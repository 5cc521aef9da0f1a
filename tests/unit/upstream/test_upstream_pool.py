"""The pool: connections are kept while they are good, bounded, and never handed out twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.upstream.link import LinkLost
from gateway.upstream.pool import Endpoint, Pool, PoolFull, Timeouts


@asynccontextmanager
async def listening(
    limit: int = 2, **times: float
) -> AsyncIterator[tuple[Pool, asyncio.Queue[asyncio.StreamWriter]]]:
    """A pool, and the server's ends of its connections in the order in which they came."""
    ends: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.put_nowait(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    pool = Pool(Endpoint("127.0.0.1", port, "h"), Timeouts(**times), limit)
    try:
        yield pool, ends
    finally:
        pool.close()
        server.close()
        while not ends.empty():
            ends.get_nowait().transport.abort()


async def test_last_used_is_first_taken() -> None:
    """Idle connections are used again, the warmest first."""
    async with listening() as (pool, _):
        one, two = await pool.take(), await pool.take()
        pool.give_back(one)
        pool.give_back(two)
        assert pool.idle == 2
        assert await pool.take() is two
        assert await pool.take() is one
        assert (pool.idle, pool.in_use) == (0, 2)
        assert one.used == two.used == 1


async def test_bounded() -> None:
    """Above the limit one waits for a connection, and not for ever."""
    async with listening(limit=1, connect_s=0.2) as (pool, _):
        link = await pool.take()
        with pytest.raises(PoolFull):
            await pool.take()
        waiting = asyncio.ensure_future(pool.take())
        await asyncio.sleep(0)
        pool.give_back(link)
        assert await waiting is link


async def test_dropped_and_given_back_once() -> None:
    """Dropping frees the place exactly once, also after it was given back."""
    async with listening(limit=1, connect_s=0.2) as (pool, _):
        link = await pool.take()
        pool.drop(link)
        pool.drop(link)
        again = await pool.take()
        assert again is not link
        with pytest.raises(PoolFull):
            await pool.take()


@pytest.mark.parametrize("spoken", [b"", b"HTTP/1.1 408 -\r\n\r\n"])
async def test_closed_by_the_server_is_not_handed_out(spoken: bytes) -> None:
    """A kept connection that the server has closed, or spoken on, is replaced."""
    async with listening() as (pool, ends):
        link = await pool.take()
        end = await asyncio.wait_for(ends.get(), 5)
        pool.give_back(link)
        end.write(spoken)
        end.close()
        async with asyncio.timeout(5):
            while link.quiet():  # noqa: ASYNC110 - no event tells what the kernel received
                await asyncio.sleep(0)
        assert await pool.take() is not link


async def test_old_ones_are_closed() -> None:
    """A connection that was idle too long is not trusted."""
    async with listening(keep_s=0.0) as (pool, _):
        link = await pool.take()
        pool.give_back(link)
        assert await pool.take() is not link


async def test_failure_to_connect_frees_the_place() -> None:
    """A refused connection costs no place."""
    async with listening(limit=1) as (pool, _):
        dead = Pool(Endpoint("127.0.0.1", 1, "h"), Timeouts(connect_s=0.5), 1)
        for _ in range(3):
            with pytest.raises(LinkLost):
                await dead.take()
        assert pool.in_use == dead.in_use == 0


async def test_close() -> None:
    """A closed pool keeps nothing: idle ones are closed, those in use reset, late ones dropped."""
    async with listening() as (pool, _):
        kept, used = await pool.take(), await pool.take()
        pool.give_back(kept)
        pool.close()
        assert (pool.idle, pool.in_use) == (0, 0)
        pool.give_back(used)
        assert pool.idle == 0
