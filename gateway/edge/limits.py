"""The limits of the edge: sizes and times of a request before any store is involved.

Decisions, "Defaults". Every one of them closes the connection when it is passed.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.policy.limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeLimits:
    """Sizes in bytes, times in seconds.

    `linger_*` bound how much, and for how long, is read and dropped behind an early answer, so
    that the client finds it (wire contract, "Answers of the gateway itself"). Measured: with 1 MiB
    a client that sends 3 MB before it reads lost one answer in twenty, with 6 MB all of them; with
    16 MiB none up to 10 MB.
    """

    head_timeout_s: float = 10.0
    body_idle_timeout_s: float = 30.0
    keep_alive_timeout_s: float = 75.0
    max_head_bytes: int = 32 * 1024
    max_fields: int = 100
    max_control_body_bytes: int = 1024 * 1024
    linger_max_bytes: int = 16 * 1024 * 1024
    linger_timeout_s: float = 2.0

    @classmethod
    def of(cls, limits: Limits) -> EdgeLimits:
        """Take the edge's share of the configured limits."""
        return cls(
            head_timeout_s=limits.head_timeout_ms / 1000,
            body_idle_timeout_s=limits.body_idle_timeout_ms / 1000,
            keep_alive_timeout_s=limits.keep_alive_timeout_ms / 1000,
            max_head_bytes=limits.max_head_bytes,
            max_fields=limits.max_fields,
        )
