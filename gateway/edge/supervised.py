"""A worker's line to its supervisor: the policy comes over it, and its end is the worker's end.

A worker never reads the policy's files itself: what they hold may have been edited since the others
read them, and one gateway would go by two policies.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from gateway.policy.texts import from_line

_CHUNK_BYTES: Final = 65_536

Reload = Callable[[], Awaitable[bool]]
"""Reloads everything; True when the policy was taken."""


class SupervisorGone(OSError):
    """The supervisor ended before it had handed over a policy."""


class SupervisorLine:
    """The worker's end of the line. It has the first texts on return."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.set_inheritable(False)
        self._received = b""
        while b"\n" not in self._received:
            chunk = self._socket.recv(_CHUNK_BYTES)
            if not chunk:
                raise SupervisorGone("the supervisor ended while this worker started")
            self._received += chunk
        self._socket.setblocking(False)
        _, self._texts = from_line(self._next())

    def read(self, path: Path) -> str:
        """The text of a policy file as the supervisor read it. Raises `PolicyError`."""
        return self._texts.read(path)

    async def follow(self, reload: Reload) -> None:
        """Reload for each policy that is offered, and answer; leave when the supervisor is gone."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                while b"\n" in self._received:
                    answer = await self._consider(self._next(), reload)
                    await loop.sock_sendall(self._socket, answer)
                chunk = await loop.sock_recv(self._socket, _CHUNK_BYTES)
                if not chunk:
                    break
                self._received += chunk
        except OSError:
            pass  # gone in the middle of it
        os.kill(os.getpid(), signal.SIGTERM)

    async def _consider(self, line: bytes, reload: Reload) -> bytes:
        before = self._texts
        number, self._texts = from_line(line)
        if await reload():
            return b"%d taken\n" % number
        self._texts = before
        return b"%d refused\n" % number

    def _next(self) -> bytes:
        line, _, self._received = self._received.partition(b"\n")
        return line
