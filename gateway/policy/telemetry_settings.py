"""What the gateway tells of its work beside metrics: which requests count as slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, Strict

from gateway.policy.kinds import CLOSED


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """What is told of requests beside metrics."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

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
