"""A bounded set of connections, each of which carries one batch of statements at a time.

A batch is one packet: the server runs its statements in order and stops at the first that fails.
Not the driver's pool: that pings or resets a connection when it is taken, which costs a round
trip. No session state is set after the start, so there is nothing to reset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.engine.bulkhead import LanesBusy
from gateway.model.problem import Problem
from gateway.stores.mariadb.changes import Result
from gateway.stores.mariadb.failures import Way, is_driver_error, understand
from gateway.stores.mariadb.sql import Sql, join

CLOSE_TIMEOUT_S: Final = 1.0

Gate = Callable[[], Problem | None]


@dataclass(frozen=True, slots=True)
class Ran:
    """The results of a batch up to the statement that failed, and how that failed, if one did."""

    results: list[Result]
    error: BaseException | None = None


class Lane:
    """One connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property
    def alive(self) -> bool:
        """False once the connection is known to be closed."""
        connected: bool = self._connection.connected
        return connected and not self._connection._stream_broken

    @property
    def thread_id(self) -> int:
        """The connection's number at the server."""
        number: int = self._connection.thread_id()
        return number

    async def run(
        self, batch: Sequence[Sql], *, deadline_s: float, gate: Gate | None = None
    ) -> Ran | Problem:
        """Send a batch in one packet and read all its results. Raises no error of the driver.

        `gate` is asked after everything that awaits: the driver hands the bytes to the transport in
        the first step of its coroutine. When the gate refuses, its problem is returned and nothing
        is sent.
        """
        text, results = join("; ", batch), list[Result]()
        try:
            async with asyncio.timeout(deadline_s):
                if gate is not None and (problem := gate()) is not None:
                    return problem
                await self._read_all(text, results)
        except Exception as error:
            if not is_driver_error(error):
                raise
            return Ran(results, error)
        return Ran(results)

    async def _read_all(self, text: Sql, results: list[Result]) -> None:
        cursor = self._connection.cursor()
        await cursor.execute(text)
        while True:
            rows = await cursor.fetchall() if cursor.description else ()
            results.append(Result(cursor.rowcount, rows))
            if not await cursor.nextset():
                return

    async def query(self, statement: Sql, *, deadline_s: float) -> Result:
        """Send one statement. Raises what the driver raises."""
        ran = await self.run([statement], deadline_s=deadline_s)
        assert isinstance(ran, Ran)
        if ran.error is not None:
            raise ran.error
        return ran.results[0]

    def break_off(self) -> None:
        """Drop the connection at once, without a word to the server."""
        self._connection.close()

    async def close(self) -> None:
        """Say goodbye and close; drop the connection when the server does not take part."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._connection.ensure_closed()
        except Exception:
            self._connection.close()


class Lanes:
    """At most `size` connections. Waiters are served in the order in which they came."""

    def __init__(
        self, connect: Callable[[], Awaitable[Any]], *, size: int, wait_s: float, purpose: str
    ) -> None:
        self._connect = connect
        self._free = asyncio.Semaphore(size)
        self._idle: list[Lane] = []
        self._wait_s = wait_s
        self._purpose = purpose
        self._closed = False

    async def acquire(self) -> Lane:
        """Take a connection, opening one if needed. Raises `LanesBusy` or `Unreachable`."""
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        except TimeoutError:
            raise LanesBusy(
                f"no connection for {self._purpose} became free within {self._wait_s:g} s"
            ) from None
        try:
            return self._take_idle() or Lane(await self._connect())
        except BaseException:
            self._free.release()
            raise

    def _take_idle(self) -> Lane | None:
        while self._idle:  # the one used last has the warmest caches
            lane = self._idle.pop()
            if lane.alive:
                return lane
        return None

    def release(self, lane: Lane) -> None:
        """Give a connection back; a broken one makes room for a new one."""
        if self._closed:
            lane.break_off()
        elif lane.alive:
            self._idle.append(lane)
        self._free.release()

    async def run(self, batch: Sequence[Sql], *, deadline_s: float) -> list[Result]:
        """Run a batch that may be repeated. Raises as `acquire` and the driver do.

        An idle connection may have died unnoticed, which is found out by using it: then the
        batch goes out again on a new one.
        """
        reused = bool(self._idle)
        lane = await self.acquire()
        try:
            return await self._run_on(lane, batch, deadline_s)
        except Exception as error:
            if not reused or understand(error).way is not Way.LOST:
                raise
        await self._close_idle()
        return await self._run_on(await self.acquire(), batch, deadline_s)

    async def _run_on(self, lane: Lane, batch: Sequence[Sql], deadline_s: float) -> list[Result]:
        """A batch that fails half-way may leave a transaction open: its connection goes."""
        whole = False
        try:
            ran = await lane.run(batch, deadline_s=deadline_s)
            assert isinstance(ran, Ran)
            if ran.error is not None:
                raise ran.error
            whole = True
            return ran.results
        finally:
            if not whole:
                lane.break_off()
            self.release(lane)

    async def _close_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def aclose(self) -> None:
        """Close the idle connections now, and the others when they are given back."""
        self._closed = True
        await self._close_idle()
