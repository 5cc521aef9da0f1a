"""Traces: each sampled request as a span, its stages as spans below it, sent over OTLP.

Spans are made when the request has ended, from its event: nothing of OpenTelemetry runs while it
is worked for. A thread of the SDK sends them in batches; when the collector is away they are
dropped, and no request waits. Imported only where a policy asks for traces.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import metadata
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import (
    SERVICE_NAME,
    SERVICE_VERSION,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from gateway.model.event import Event, RequestFinished
from gateway.model.stage import Stage
from gateway.model.trace import RANDOM, SAMPLED, TraceContext
from gateway.policy.telemetry_settings import TelemetrySettings
from gateway.ports.clock import Clock

_CLOSE_S: Final = 2.0
_EXPORT_S: Final = 5.0
_OUTWARD: Final = frozenset({"look", "claim", "upstream"})
_SERVER_ERROR: Final = 500
_KNOWN: Final = ("scope", "token", "holder", "mark", "code", "worker")


class Traces:
    """An observer that makes spans of finished requests. `wall_s` reads CLOCK_REALTIME."""

    def __init__(
        self,
        settings: TelemetrySettings,
        clock: Clock,
        wall_s: Callable[[], float],
        exporter: SpanExporter | None = None,
    ) -> None:
        self._clock = clock
        self._wall_s = wall_s
        version = metadata.version("fencegate")
        self._scope = InstrumentationScope("fencegate", version)
        named = {SERVICE_NAME: "fencegate", SERVICE_VERSION: version}
        self._resource = Resource.get_empty().merge(Resource(named))
        self._resource = self._resource.merge(OTELResourceDetector().detect())
        if settings.service_name is not None:
            self._resource = self._resource.merge(Resource({SERVICE_NAME: settings.service_name}))
        sender = exporter or OTLPSpanExporter(endpoint=settings.endpoint, timeout=_EXPORT_S)
        self._processor = BatchSpanProcessor(sender)

    def emit(self, event: Event) -> None:
        """Make the spans of a request; other events are not traced."""
        if isinstance(event, RequestFinished) and event.trace is not None and event.trace.sampled:
            offset_s = self._wall_s() - self._clock.boottime_s()
            for stage in event.stages:
                self._processor.on_end(self._stage(event.trace, stage, offset_s))
            self._processor.on_end(self._request(event, event.trace, offset_s))

    def close(self) -> None:
        """Send what is buffered, for at most two seconds."""
        closing = threading.Thread(target=self._processor.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_S)

    def _request(
        self, event: RequestFinished, trace: TraceContext, offset_s: float
    ) -> ReadableSpan:
        parent_id = event.parent_span_id
        return ReadableSpan(
            f"{event.method} {event.store or event.dialect}".strip() or "request",
            _context(trace, trace.span_id),
            None if parent_id is None else _context(trace, parent_id, remote=True),
            self._resource,
            _attributes(event),
            kind=SpanKind.SERVER,
            status=Status(StatusCode.ERROR if event.status >= _SERVER_ERROR else StatusCode.UNSET),
            start_time=_ns(event.ended_s - event.seconds + offset_s),
            end_time=_ns(event.ended_s + offset_s),
            instrumentation_scope=self._scope,
        )

    def _stage(self, trace: TraceContext, stage: Stage, offset_s: float) -> ReadableSpan:
        gated_s = stage.gated_s
        return ReadableSpan(
            stage.name,
            _context(trace, stage.span_id),
            _context(trace, stage.parent_span_id),
            self._resource,
            events=()
            if gated_s is None
            else (SpanEvent("gate", timestamp=_ns(gated_s + offset_s)),),
            kind=SpanKind.CLIENT if stage.name in _OUTWARD else SpanKind.INTERNAL,
            start_time=_ns(stage.began_s + offset_s),
            end_time=_ns(stage.ended_s + offset_s),
            instrumentation_scope=self._scope,
        )


def _context(trace: TraceContext, span_id: int, *, remote: bool = False) -> SpanContext:
    flags = SAMPLED | (RANDOM if trace.random else 0)
    state = TraceState.from_header([trace.state.decode("ascii")]) if trace.state else None
    return SpanContext(trace.trace_id, span_id, remote, TraceFlags(flags), state)


def _attributes(event: RequestFinished) -> dict[str, str | int | bool]:
    """What is told of a request: HTTP's semantic conventions, and ours under `fencegate.`."""
    told: dict[str, str | int | bool] = {
        "http.request.method": event.method,
        "url.path": event.path.partition("?")[0],
        "http.response.status_code": event.status,
        "fencegate.request_id": event.request_id,
        "fencegate.store": event.store,
        "fencegate.dialect": event.dialect,
        "fencegate.kind": event.kind,
        "fencegate.outcome": event.outcome,
    }
    if event.client is not None:
        told["client.address"] = event.client
    for name in _KNOWN:
        value = getattr(event, name)
        if value is not None:
            told[f"fencegate.{name}"] = value
    if event.status >= _SERVER_ERROR:
        told["error.type"] = event.code or str(event.status)
    return told


def _ns(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
