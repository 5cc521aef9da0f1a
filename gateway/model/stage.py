"""A stage of a request's way: what the slow-request log is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage, in seconds of CLOCK_BOOTTIME.

    `gated_s` is when the gate was asked, in the stage that sends a write to its store.
    """

    name: str
    began_s: float
    ended_s: float
    gated_s: float | None = None
