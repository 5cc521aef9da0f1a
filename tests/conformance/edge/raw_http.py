"""Bytes on a socket, and what came back: no client library tidies anything up."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

DEADLINE_S = 10.0


@dataclass
class RawAnswer:
    """One answer as it came. `closed` tells that the server ended the connection behind it."""

    status: int
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    closed: bool = False

    @property
    def problem(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


class RawConnection:
    """A connection that sends what it is told and reads answers one by one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, address: tuple[str, int]) -> RawConnection:
        return cls(*await asyncio.open_connection(*address))

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def answer(self, *, head: bool = False) -> RawAnswer:
        """Read one answer. Raises IncompleteReadError when the connection ends first."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                status = int(lines[0].split(" ")[1])
                if status != 100:
                    break
            pairs = [line.split(": ", 1) for line in lines[1:] if line]
            answer = RawAnswer(status, dict(pair for pair in pairs if len(pair) == 2))
            if not head and status not in (204, 304):
                answer.body = await self._body(answer.fields)
            return answer

    async def _body(self, fields: dict[str, str]) -> bytes:
        if "content-length" in fields:
            return await self.reader.readexactly(int(fields["content-length"]))
        if fields.get("transfer-encoding") != "chunked":
            return await self.reader.read()
        body = b""
        while size := int(await self.reader.readline(), 16):
            body += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return body

    async def at_end(self) -> bool:
        """True when the server has ended the connection and sent nothing more."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await self.reader.read() == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return


async def exchange(address: tuple[str, int], *pieces: bytes) -> RawAnswer | None:
    """Send pieces on a fresh connection; the one answer, or None when there was none."""
    connection = await RawConnection.open(address)
    try:
        try:
            await connection.send(*pieces)
            answer = await connection.answer()
        except (ConnectionError, asyncio.IncompleteReadError):
            return None
        answer.closed = answer.fields.get("connection") == "close" and await connection.at_end()
        return answer
    finally:
        await connection.close()
