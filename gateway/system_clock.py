"""The system's clock: the one place that reads it (port: `ports.clock`)."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """CLOCK_BOOTTIME counts while the machine is suspended (clock_gettime(2)), as leases do."""

    def boottime_s(self) -> float:
        """Seconds on CLOCK_BOOTTIME."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)  # noqa: TID251 - this is the adapter

    async def sleep_s(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(seconds)


def wall_s() -> float:
    """CLOCK_REALTIME as Unix time in seconds: for signatures and dates, never for ordering."""
    return time.time()  # noqa: TID251 - this is the adapter
