"""A TCP relay between a client and a real server, which can lose the server's answers.

It works on bytes and knows no protocol: from a marker in what the client sends, nothing comes back
on that connection any more. The server has the whole request, and acts on it, or sees none of it.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from tests.services.server_process import LOOPBACK

_PIECE_BYTES = 65_536


class Relay:
    """Relays connections to `port`. Listens from the start; `close` ends it."""

    def __init__(self, port: int) -> None:
        self._target = (LOOPBACK, port)
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self._marker: bytes | None = None
        self._also_down = False
        self._down = False
        self._swallow = False
        self.lost = threading.Event()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_answers_from(self, marker: bytes, *, and_go_down: bool = False) -> None:
        """Lose what comes back once the client has sent the marker; then also be unreachable."""
        self.lost.clear()
        self._swallow = False
        self._marker, self._also_down = marker, and_go_down

    def swallow_requests_from(self, marker: bytes, *, and_go_down: bool = False) -> None:
        """Let the server see nothing of a request from the piece on that holds the marker."""
        self.lose_answers_from(marker, and_go_down=and_go_down)
        self._swallow = True

    def heal(self) -> None:
        """Be an honest relay again, on new connections; the muzzled ones are reset."""
        self._marker, self._down = None, False
        self._reset()

    def close(self) -> None:
        """Stop."""
        self._listener.close()
        self._reset()

    def _reset(self) -> None:
        for end in tuple(self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._down:
                client.close()
                continue
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            pair = _Pair(self, client, server)
            self._open |= {client, server}
            for work in (pair.forward, pair.backward):
                threading.Thread(target=work, daemon=True).start()

    @property
    def down(self) -> bool:
        """Whether no answer comes back on any connection."""
        return self._down

    @property
    def swallows(self) -> bool:
        """Whether what follows the marker is kept from the server."""
        return self._swallow

    def saw(self, sent: bytes) -> bool:
        """Whether the marker is in what was sent; if so, the answer will be lost."""
        if self._marker is None or self._marker not in sent:
            return False
        self._down = self._down or self._also_down
        self.lost.set()
        return True


class _Pair:
    """One connection, both ways."""

    def __init__(self, relay: Relay, client: socket.socket, server: socket.socket) -> None:
        self._relay = relay
        self._client = client
        self._server = server
        self._muzzled = False

    def forward(self) -> None:
        """Client to server."""
        tail = b""
        with suppress(OSError):
            while piece := self._client.recv(_PIECE_BYTES):
                tail = (tail + piece)[-2 * _PIECE_BYTES :]
                if not self._muzzled and self._relay.saw(tail):
                    self._muzzled = True
                if not (self._muzzled and self._relay.swallows):
                    self._server.sendall(piece)
        self._end()

    def backward(self) -> None:
        """Server to client."""
        with suppress(OSError):
            while piece := self._server.recv(_PIECE_BYTES):
                if not (self._muzzled or self._relay.down):
                    self._client.sendall(piece)
        self._end()

    def _end(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
