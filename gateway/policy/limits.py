"""Time-outs and sizes (decisions, "Defaults")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, Strict

from gateway.policy.kinds import CLOSED, ByteCount, Count, Milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Time-outs and sizes. The defaults fit together; a changed set is checked to."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    head_timeout_ms: Annotated[
        Milliseconds, Field(description="A request's head must be complete within this time.")
    ] = 10_000
    body_idle_timeout_ms: Annotated[
        Milliseconds, Field(description="Longest pause between two pieces of a body.")
    ] = 30_000
    keep_alive_timeout_ms: Annotated[
        Milliseconds, Field(description="Longest idle time of a kept connection.")
    ] = 75_000
    upstream_connect_timeout_ms: Annotated[
        Milliseconds, Field(description="Connecting to a store.")
    ] = 2_000
    upstream_first_byte_timeout_ms: Annotated[
        Milliseconds, Field(description="Waiting for the first byte of a store's answer.")
    ] = 60_000
    registry_timeout_ms: Annotated[Milliseconds, Field(description="One registry operation.")] = (
        1_500
    )
    member_ttl_ms: Annotated[
        Milliseconds,
        Field(
            description="How long a replica stays a member without a renewed heartbeat. No effect "
            "while one process has the registry to itself."
        ),
    ] = 3_000
    drain_timeout_ms: Annotated[
        Milliseconds,
        Field(description="Longest wait for older tickets before the answer is 503 not_drained."),
    ] = 5_000
    lock_timeout_ms: Annotated[
        Milliseconds, Field(description="Longest wait for a lock in a database.")
    ] = 2_000
    statement_timeout_ms: Annotated[
        Milliseconds, Field(description="Longest run of one database statement.")
    ] = 10_000
    max_head_bytes: Annotated[
        int,
        Strict(),
        Field(ge=1_024, le=1_048_576, description="Size of a request's head."),
    ] = 32_768
    max_fields: Annotated[
        int, Strict(), Field(ge=8, le=1_000, description="Number of header fields of a request.")
    ] = 100
    max_rows_body_bytes: Annotated[
        ByteCount, Field(description="Size of a body in the rows dialect.")
    ] = 1_048_576
    max_object_bytes: Annotated[
        ByteCount | None, Field(description="Size of an object; absent means no limit.")
    ] = None
    max_spool_bytes: Annotated[
        ByteCount,
        Field(description="Size of a body that must be held whole before it may go on."),
    ] = 16_777_216
    hold_back_bytes: Annotated[
        int,
        Strict(),
        Field(
            ge=1,
            le=65_536,
            description="Tail of a streamed body that waits for the last check before it is sent.",
        ),
    ] = 65_536
    max_cached_scopes: Annotated[Count, Field(description="Scopes a replica keeps in memory.")] = (
        1_000_000
    )
    replay_ttl_ms: Annotated[
        Milliseconds, Field(description="How long an applied write's answer is kept for a retry.")
    ] = 600_000
    max_replays: Annotated[Count, Field(description="Number of answers kept for retries.")] = (
        100_000
    )
