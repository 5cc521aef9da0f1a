"""Strikes: a replica is killed, or stands still, at one await after the other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.chaos.campaign import MEMBER_TTL_MS, Place
from tests.chaos.failpoints import CONTROL_VARIABLE, Control
from tests.services.server_process import wait_until

AWAY: Final = (
    # No mutation of the load passes there: reads, seals, resets, shadow rules, start and stop, TLS.
    *("engine.pipeline:Pipeline.handle:1", "engine.pipeline:Pipeline._read"),
    *("engine.pipeline:Pipeline._shadowed", "engine.pipeline:Pipeline._write_unfenced"),
    *("engine.fences:Fences.start", "engine.fences:Fences.stop", "engine.fences:Fences.seal"),
    *("engine.fences:Fences.check", "engine.unknowns:Unknowns.aclose", "engine.desk:"),
    *("stores.s3.deletes:", "stores.s3.store:S3Store.check", "upstream.link:_shake_hands"),
)
_HERE = Path(__file__).parent
_TRIES = 120  # calls in which a point must be reached
_STILL = (0.1, 0.5, 1.2)  # of a membership


class Strikes:
    """A fault that goes through a list of points. `missed` are those that no call reached."""

    def __init__(self, directory: Path, store: str, points: Sequence[str], *, kill: bool) -> None:
        path = directory / "failpoints"
        self._control = Control(path)
        self._points = points
        self._kill = kill
        self.missed: list[str] = []
        self.env = {
            CONTROL_VARIABLE: f"{store}:{path}",
            "PYTHONPATH": os.pathsep.join(map(str, (_HERE / "instrumented", _HERE.parents[1]))),
        }

    def __call__(self, place: Place, turn: int) -> None:
        """Strike at the next point; the store is broken for every second one."""
        point = self._points[turn % len(self._points)]
        place.store.break_it(broken=turn % 2 == 1)
        target = place.made() + _TRIES
        self._control.arm(point, kill=self._kill)
        wait_until(lambda: self._control.reached() or place.made() >= target, 60, point)
        if not self._control.disarm():
            self.missed.append(point)
            return
        if self._kill:
            self._start_again(place)
        else:
            place.for_(_STILL[turn % len(_STILL)] * MEMBER_TTL_MS / 1000)
            for gateway in place.gateways:
                gateway.resume()
        place.until(10)

    def _start_again(self, place: Place) -> None:
        def dead() -> bool:
            return any(not gateway.process.running() for gateway in place.gateways)

        wait_until(dead, 10, "the replica is gone")
        for gateway in place.gateways:
            if not gateway.process.running():
                gateway.kill()
                gateway.start()
