"""Who is told what the gateway does: the metrics, the log and, when asked for, the traces."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import TextIO

from gateway.policy.document import PolicySet
from gateway.ports.clock import Clock
from gateway.ports.journey import Journeys
from gateway.ports.observer import Observer
from gateway.telemetry.fanout import Fanout
from gateway.telemetry.log_sink import LogSink
from gateway.telemetry.logs import Log
from gateway.telemetry.metrics import Metrics


class Observation:
    """The observers of one policy, and what requests must carry for them.

    `journeys` is None where nobody wants to know where a request's time goes. `slow_s` is from
    when a request counts as slow. `metrics_dir` is where several processes add up;
    `wall_s` reads CLOCK_REALTIME.
    """

    def __init__(
        self,
        policy: PolicySet,
        clock: Clock,
        wall_s: Callable[[], float],
        out: TextIO,
        metrics_dir: str | None,
    ) -> None:
        settings = policy.telemetry
        self._open = ExitStack()
        self.metrics = Metrics(((s.name, s.dialect) for s in policy.stores.values()), metrics_dir)
        sink = LogSink(out.buffer)
        self._open.callback(sink.close)
        observers: list[Observer] = [self.metrics, Log(sink, readable=out.isatty())]
        self.slow_s = settings.slow_request_ms / 1000 or math.inf
        self.journeys: Journeys | None = None
        if settings.traces == "otlp":
            from gateway.telemetry.traces import Traces

            traces = Traces(settings, clock, wall_s)
            self._open.callback(traces.close)
            observers.append(traces)
            self.journeys = Journeys(clock.boottime_s, settings.sample_ratio)
        elif settings.slow_request_ms:
            self.journeys = Journeys(clock.boottime_s)
        self.observer = Fanout(*observers)

    def close(self) -> None:
        """Send and write out what is buffered, within a few seconds."""
        self._open.close()
