"""Laws of traces: one span a request, one a stage below it, at the right times, kept by choice."""

from __future__ import annotations

import dataclasses

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from gateway.model.event import RequestFinished
from gateway.model.mark import Scope
from gateway.model.stage import Stage
from gateway.model.trace import TraceContext
from gateway.policy import telemetry_settings
from gateway.policy.telemetry_settings import TelemetrySettings, telemetry_misfits
from gateway.system_clock import SystemClock
from gateway.telemetry.traces import Traces

TRACE = TraceContext(0xABC, 0x11, True, state=b"a=1")
DONE = RequestFinished(
    "r1",
    "lake",
    "s3",
    "write",
    "unknown",
    "PUT",
    "/demo/k?X-Amz-Signature=secret",
    504,
    2.0,
    scope=Scope("lake:k"),
    token=7,
    code="outcome_unknown",
    client="127.0.0.1",
    ended_s=12.0,
    stages=(
        Stage("admit", 10.0, 11.0, 0x21, None, 0x11),
        Stage("claim", 10.25, 10.75, 0x22, None, 0x21),
        Stage("upstream", 11.0, 12.0, 0x23, 11.5, 0x11),
    ),
    trace=TRACE,
    parent_span_id=0x99,
)


class StoppedClock(SystemClock):
    """CLOCK_BOOTTIME stands at 12 seconds."""

    def boottime_s(self) -> float:
        return 12.0


def spans_of(event: RequestFinished, settings: TelemetrySettings) -> dict[str, ReadableSpan]:
    exporter = InMemorySpanExporter()
    traces = Traces(settings, StoppedClock(), lambda: 1_012.0, exporter)
    traces.emit(event)
    traces.close()
    return {span.name: span for span in exporter.get_finished_spans()}


def test_a_request_and_its_stages() -> None:
    """The span of the request is below the client's, stages below it, all on the wall clock."""
    spans = spans_of(DONE, TelemetrySettings(traces="otlp", service_name="fence"))
    assert set(spans) == {"PUT lake", "admit", "claim", "upstream"}
    top, upstream = spans["PUT lake"], spans["upstream"]
    assert top.kind is SpanKind.SERVER
    assert (top.start_time, top.end_time) == (1_010 * 10**9, 1_012 * 10**9)
    assert (top.context.trace_id, top.context.span_id) == (0xABC, 0x11)
    assert top.parent is not None
    assert (top.parent.span_id, top.parent.is_remote) == (0x99, True)
    assert top.context.trace_state.to_header() == "a=1"
    assert top.status.status_code is StatusCode.ERROR
    assert top.resource.attributes["service.name"] == "fence"
    parents = {name: span.parent.span_id for name, span in spans.items() if span.parent}
    assert parents == {"PUT lake": 0x99, "admit": 0x11, "claim": 0x21, "upstream": 0x11}
    assert upstream.kind is SpanKind.CLIENT
    assert [(e.name, e.timestamp) for e in upstream.events] == [("gate", 1_011_500_000_000)]


def test_what_a_span_tells() -> None:
    """HTTP's conventions and the fence's figures; no query, so no signature."""
    told = dict(spans_of(DONE, TelemetrySettings(traces="otlp"))["PUT lake"].attributes or {})
    assert told["url.path"] == "/demo/k"
    assert (told["fencegate.token"], told["fencegate.scope"]) == (7, "lake:k")
    assert told["error.type"] == "outcome_unknown"
    assert "secret" not in str(told)
    assert not {"fencegate.holder", "fencegate.mark"} & set(told), "nothing that is not known"


def test_what_is_not_kept_is_not_sent() -> None:
    """A trace that is not sampled, and a request without one, make no span."""
    settings = TelemetrySettings(traces="otlp")
    unsampled = dataclasses.replace(TRACE, sampled=False)
    assert spans_of(dataclasses.replace(DONE, trace=unsampled), settings) == {}
    assert spans_of(dataclasses.replace(DONE, trace=None), settings) == {}


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces without the libraries: told before the start, with what to install."""
    settings = TelemetrySettings(traces="otlp")
    assert list(telemetry_misfits(settings)) == []
    monkeypatch.setattr(telemetry_settings, "find_spec", lambda _: None)
    ((key, message),) = telemetry_misfits(settings)
    assert key == "traces"
    assert "pip install 'fencegate[otel]'" in message


def test_settings_without_effect_are_told() -> None:
    """An endpoint while traces are off is a mistake, not a wish."""
    settings = TelemetrySettings(endpoint="http://127.0.0.1:4318/v1/traces", sample_ratio=0.5)
    assert [key for key, _ in telemetry_misfits(settings)] == ["endpoint", "sample_ratio"]
