"""A wire between a store and its database that can lose, hold and count what passes.

It relays TCP, and understands PostgreSQL's message frames just far enough to count answers
(PostgreSQL manual, 54.7 "Message Formats").
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Self
from urllib.parse import urlsplit, urlunsplit

SSL_REQUEST = bytes([0, 0, 0, 8]) + (80_877_103).to_bytes(4, "big")


class Fault(Enum):
    """What happens to the message with the marker in it, and to its connection."""

    ANSWER_LOST = auto()  # the server gets it and answers; the answer is dropped
    REQUEST_LOST = auto()  # the server never gets it
    REQUEST_LATE = auto()  # the server gets it when `deliver` is called


@dataclass(slots=True)
class Wire:
    """Relays connections from its own port to the server's."""

    target: tuple[str, int]
    fault: Fault | None = None
    marker: bytes = b""
    is_down: bool = False
    answers: int = 0
    on_fault: Callable[[], None] = lambda: None
    struck: asyncio.Event = field(default_factory=asyncio.Event)
    late_answered: asyncio.Event = field(default_factory=asyncio.Event)
    _held: list[tuple[bytes, asyncio.StreamWriter]] = field(default_factory=list)
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @classmethod
    async def start(cls, dsn: str) -> tuple[Self, str]:
        """Begin to relay. Returns the wire, and the DSN that leads through it."""
        parts = urlsplit(dsn)
        assert parts.hostname
        assert parts.port
        wire = cls((parts.hostname, parts.port))
        wire._server = await asyncio.start_server(wire._accept, "127.0.0.1", 0)
        port = wire._server.sockets[0].getsockname()[1]
        place = f"{parts.username}@127.0.0.1:{port}"
        return wire, urlunsplit(parts._replace(netloc=place))

    def strike(self, fault: Fault, marker: str) -> None:
        """Let the fault happen to the next message that contains the marker."""
        self.fault, self.marker = fault, marker.encode()
        self.struck.clear()

    async def deliver(self) -> None:
        """Give the server what was held back, and wait until it has answered that."""
        for data, writer in self._held:
            writer.write(data)
        async with asyncio.timeout(10):
            await self.late_answered.wait()

    async def aclose(self) -> None:
        """Cut everything."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        if self.is_down:
            writer.transport.abort()
            return
        up_reader, up_writer = await asyncio.open_connection(*self.target)
        line = _Line(self, reader, writer, up_reader, up_writer)
        try:
            await line.relay()
        finally:
            writer.transport.abort()
            up_writer.transport.abort()


@dataclass(slots=True)
class _Line:
    wire: Wire
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    up_reader: asyncio.StreamReader
    up_writer: asyncio.StreamWriter
    fault: Fault | None = None
    rest: bytes = b""
    awaits_tls_byte: bool = False

    async def relay(self) -> None:
        """Relay both ways until one side ends."""
        ways = [asyncio.create_task(self._forth()), asyncio.create_task(self._back())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if self.fault is Fault.REQUEST_LATE:
                await asyncio.wait(ways)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _forth(self) -> None:
        while data := await self.reader.read(65_536):
            wire = self.wire
            self.awaits_tls_byte |= data == SSL_REQUEST
            if wire.fault is not None and wire.marker in data:
                self.fault, wire.fault = wire.fault, None
                wire.on_fault()
                wire.struck.set()
                if self.fault is Fault.REQUEST_LATE:
                    wire._held.append((data, self.up_writer))
                if self.fault is not Fault.ANSWER_LOST:
                    self.writer.transport.abort()
                    return
            self.up_writer.write(data)

    async def _back(self) -> None:
        while data := await self.up_reader.read(65_536):
            if self.fault is Fault.ANSWER_LOST:
                self.writer.transport.abort()
                return
            if self.fault is Fault.REQUEST_LATE:
                self.wire.late_answered.set()
                return
            self.wire.answers += self._count(data)
            self.writer.write(data)

    def _count(self, data: bytes) -> int:
        """Count ReadyForQuery messages: one per round trip."""
        if self.awaits_tls_byte:  # "N": the one answer that is no message
            self.awaits_tls_byte, data = False, data[1:]
        self.rest += data
        found = 0
        while len(self.rest) >= 5:
            size = 1 + int.from_bytes(self.rest[1:5], "big")
            if len(self.rest) < size:
                break
            found += self.rest[:1] == b"Z"
            self.rest = self.rest[size:]
        return found
