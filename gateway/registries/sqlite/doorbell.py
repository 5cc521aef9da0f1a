"""The doorbell: a datagram tells another process of this machine that its inbox has grown.

Only a hint, so nothing is sent in it and nothing depends on its arrival. The sockets live in the
abstract namespace (unix(7)) under the generation's name, which nobody else has ever had; they are
gone with the process.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

from gateway.model.claim import Generation


def _address(generation: Generation) -> bytes:
    return b"\0fencegate/" + generation.encode()


class Doorbell:
    """Rings for other generations, and hears the ring of its own."""

    def __init__(self) -> None:
        self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._in: dict[Generation, socket.socket] = {}

    def hang(self, generation: Generation) -> None:
        """Begin to hear the rings for a generation of this process."""
        bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            bell.bind(_address(generation))
        except OSError:
            bell.close()
            raise
        self._in[generation] = bell

    def ring(self, generation: Generation) -> None:
        """Tell a generation, wherever it is; one that is gone is not missed."""
        with suppress(OSError):  # gone, or its queue is full and it is ringing anyway
            self._out.sendto(b"", _address(generation))

    def hush(self, generation: Generation) -> None:
        """Take note of all rings so far: they are about to be looked after."""
        bell = self._in.get(generation)
        with suppress(BlockingIOError):
            while bell is not None:
                bell.recv(1)

    async def heard(self, generation: Generation, timeout_s: float) -> None:
        """Return when it rings or has rung, and at the latest after `timeout_s`."""
        bell = self._in.get(generation)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                if bell is None:
                    await asyncio.sleep(timeout_s)
                else:
                    await asyncio.get_running_loop().sock_recv(bell, 1)
                    self.ring(generation)  # until `hush`, it has rung

    def take_down(self, generation: Generation) -> None:
        """Stop to hear for a generation."""
        if generation in self._in:
            self._in.pop(generation).close()

    def close(self) -> None:
        """Stop to hear and to ring."""
        for generation in tuple(self._in):
            self.take_down(generation)
        self._out.close()
