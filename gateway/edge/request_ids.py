"""Request ids: what X-Request-Id carries on every answer, and every log line and event."""

from __future__ import annotations

import itertools
import secrets


class RequestIds:
    """Issues ids that are unique to this process run: a random prefix and a counter."""

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(6)
        self._numbers = itertools.count(1)

    def __call__(self) -> str:
        """Issue the next id: 20 lower-case hex digits."""
        return f"{self._prefix}{next(self._numbers):08x}"
