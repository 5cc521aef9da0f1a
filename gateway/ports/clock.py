"""The port of time. Durations only: no timestamp of one machine is compared with another's."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Time as the engine sees it."""

    def boottime_s(self) -> float:
        """Seconds on CLOCK_BOOTTIME, which also counts while the machine is suspended."""
        ...

    async def sleep_s(self, seconds: float) -> None:
        """Wait."""
        ...
