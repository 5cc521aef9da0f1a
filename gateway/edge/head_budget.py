"""The budget of request heads on one connection: bytes, fields and time (decisions, "Defaults").

Bytes are counted twice. Those that the parser reports bound a head that arrives in one piece; those
that were *received* bound one that never ends, because a field without an end is never reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.edge.limits import EdgeLimits


class HeadBudget:
    """`open` is True from the end of a message until the next head is complete."""

    __slots__ = (
        "_completed",
        "_fields",
        "_limits",
        "_loop",
        "_on_late",
        "_parsed",
        "_received",
        "_timer",
        "begun",
        "open",
    )

    def __init__(
        self,
        limits: EdgeLimits,
        loop: asyncio.AbstractEventLoop,
        on_late: Callable[[], None],
    ) -> None:
        self.open = True
        self.begun = False
        self._limits = limits
        self._loop = loop
        self._on_late = on_late
        self._completed = 0
        self._received = 0
        self._parsed = 0
        self._fields = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        """True while the time of an unfinished head runs."""
        return self._timer is not None

    def begin(self) -> None:
        """A request line begins."""
        self.begun = True
        self._parsed = 0
        self._fields = 0

    def spend(self, size: int) -> bool:
        """Count parsed bytes of the head; False when that is too many."""
        self._parsed += size
        return self._parsed <= self._limits.max_head_bytes

    def spend_field(self, size: int) -> bool:
        """Count a parsed field; False when that is too much."""
        self._fields += 1
        return self._fields <= self._limits.max_fields and self.spend(size)

    def finish(self) -> None:
        """The head is complete: its body follows."""
        self.open = False
        self.begun = False
        self._received = 0
        self._completed += 1

    def after_piece(self, size: int, *, was_open: bool) -> bool:
        """Count a received piece. False when the head that it leaves unfinished is too large.

        `was_open` tells that the piece began within or before a head, so that all of it is head.
        """
        completed, self._completed = self._completed, 0
        if completed:
            self.stop()
        if not self.open or not (self.begun or (was_open and not completed)):
            return True
        if was_open and not completed:
            self._received += size
        if self._timer is None:
            self._timer = self._loop.call_later(self._limits.head_timeout_s, self._late)
        return self._received <= self._limits.max_head_bytes

    def stop(self) -> None:
        """Stop the time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        self._on_late()
