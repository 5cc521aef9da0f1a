"""Owns a bounded set of connections, each of which carries one statement at a time.

Not the driver's pool: that resets a connection each time it is given back, which costs a round
trip, and makes its prepared statements unusable. No session state is ever set here, so there is
nothing to reset.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from gateway.engine.bulkhead import LanesBusy
from gateway.model.problem import Problem
from gateway.stores.postgres.failures import Way, understand
from gateway.stores.postgres.sql import Sql, Statement

MAX_PREPARED: Final = 200
"""Statements kept prepared per connection; the one unused longest is dropped first."""

CLOSE_TIMEOUT_S: Final = 1.0

Gate = Callable[[], Problem | None]


class Lane:
    """One connection with its prepared statements."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._prepared: OrderedDict[Sql, Any] = OrderedDict()
        self.sent = False

    @property
    def alive(self) -> bool:
        """False once the connection is known to be closed."""
        return not self._connection.is_closed()

    @property
    def backend_pid(self) -> int:
        """The process that serves this connection, as the server numbers it."""
        pid: int = self._connection.get_server_pid()
        return pid

    async def run(
        self, statement: Statement, *, deadline_s: float, gate: Gate | None = None
    ) -> list[Mapping[str, Any]] | Problem:
        """Send one statement and wait for its rows. Raises what the driver raises.

        `gate` is asked after everything that awaits: the driver hands the bytes to the transport in
        the first step of its coroutine (uvloop's sends them when that step's turn of the loop
        ends). When the gate refuses, its problem is returned and nothing is sent. `sent` tells
        whether bytes may have left.
        """
        self.sent = False
        prepared = self._prepared.get(statement.text)
        if prepared is None:
            prepared = await self._prepare(statement.text, deadline_s)
        else:
            self._prepared.move_to_end(statement.text)
        if gate is not None and (problem := gate()) is not None:
            return problem
        self.sent = True
        rows: list[Mapping[str, Any]] = await prepared.fetch(
            *statement.arguments, timeout=deadline_s
        )
        return rows

    async def _prepare(self, text: Sql, deadline_s: float) -> Any:
        prepared = await self._connection.prepare(text, timeout=deadline_s)
        self._prepared[text] = prepared
        if len(self._prepared) > MAX_PREPARED:
            self._prepared.popitem(last=False)
        return prepared

    def forget(self, text: Sql) -> None:
        """Prepare this statement anew the next time."""
        self._prepared.pop(text, None)

    def break_off(self) -> None:
        """Drop the connection at once, without a word to the server."""
        self._prepared.clear()
        self._connection.terminate()

    async def close(self) -> None:
        """Say goodbye and close; drop the connection when the server does not take part."""
        self._prepared.clear()
        try:
            await self._connection.close(timeout=CLOSE_TIMEOUT_S)
        except Exception:
            self._connection.terminate()


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

    async def run(self, statement: Statement, *, deadline_s: float) -> list[Mapping[str, Any]]:
        """Run a statement that may be repeated. Raises as `acquire` and the driver do.

        An idle connection may have died unnoticed, which is found out by using it: then the
        statement goes out again on a new one.
        """
        reused = bool(self._idle)
        lane = await self.acquire()
        try:
            return await self._run_on(lane, statement, deadline_s)
        except Exception as error:
            if not reused or understand(error).way is not Way.LOST:
                raise
        await self._close_idle()
        return await self._run_on(await self.acquire(), statement, deadline_s)

    async def _run_on(
        self, lane: Lane, statement: Statement, deadline_s: float
    ) -> list[Mapping[str, Any]]:
        try:
            rows = await lane.run(statement, deadline_s=deadline_s)
        except Exception as error:
            lane.forget(statement.text)
            if understand(error).way is Way.LOST:
                lane.break_off()
            raise
        except BaseException:
            lane.break_off()  # a cancelled statement may still be running on it
            raise
        finally:
            self.release(lane)
        assert not isinstance(rows, Problem)
        return rows

    async def _close_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def aclose(self) -> None:
        """Close the idle connections now, and the others when they are given back."""
        self._closed = True
        await self._close_idle()
