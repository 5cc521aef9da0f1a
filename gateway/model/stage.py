"""A stage of a request's way: what the slow-request log and traces are made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage, in seconds of CLOCK_BOOTTIME. `span_id` is 0 where nothing is traced.

    `gated_s` is when the gate was asked, in the stage that sends a write to its store.
    `parent_span_id` is that of the stage around it, or of the request.
    """

    name: str
    began_s: float
    ended_s: float
    span_id: int = 0
    gated_s: float | None = None
    parent_span_id: int = 0
