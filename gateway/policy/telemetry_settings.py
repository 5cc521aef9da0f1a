"""What the gateway tells of its work beside metrics: traces, and which requests count as slow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, Strict

from gateway.policy.kinds import CLOSED, Text

_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
_INSTALL: Final = "pip install 'fencegate[otel]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """What is told of requests: traces for a collector, and slow ones in the log."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    traces: Annotated[
        Literal["off", "otlp"],
        Field(
            description='"otlp" sends traces to an OpenTelemetry collector over HTTP; needs '
            f"`{_INSTALL}`."
        ),
    ] = "off"
    endpoint: Annotated[
        str | None,
        Field(
            pattern=r"^https?://[^/@\s?#]+(/[^@\s?#]*)?$",
            description='A whole URL without credentials: "http://127.0.0.1:4318/v1/traces". '
            "Absent: that of OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT, "
            "else port 4318 of this machine.",
        ),
    ] = None
    sample_ratio: Annotated[
        float,
        Strict(),
        Field(
            ge=0,
            le=1,
            description="Share of new traces that are kept. A request that brings `traceparent` "
            "is kept when its sender keeps it.",
        ),
    ] = 1.0
    service_name: Annotated[
        Text | None,
        Field(
            description="Name of this service in traces. Absent: that of OTEL_SERVICE_NAME, else "
            '"fencegate".'
        ),
    ] = None
    slow_request_ms: Annotated[
        int,
        Strict(),
        Field(
            ge=0,
            le=3_600_000,
            description="A request that takes so long is logged as a warning, with the time spent "
            "in each stage. 0: none.",
        ),
    ] = 1_000


_DEFAULTS: Final = TelemetrySettings()
_OF_TRACES: Final = ("endpoint", "sample_ratio", "service_name")


def telemetry_misfits(settings: TelemetrySettings) -> Iterator[tuple[str, str]]:
    """The keys that do not go together or lack a library, each with what to change."""
    if settings.traces == "off":
        for name in _OF_TRACES:
            if getattr(settings, name) != getattr(_DEFAULTS, name):
                yield name, 'has no effect with traces = "off": only with "otlp"'
    elif not _can_export():
        yield "traces", f'"otlp" needs the extra `otel`: {_INSTALL}'


def _can_export() -> bool:
    try:
        return find_spec(_EXPORTER) is not None
    except ImportError:  # a parent package is missing
        return False
