"""The journey of one request: where its time goes, and its place in a trace.

A request that is observed carries a journey in the context of its task; whoever works for it opens
a stage. Without a journey a stage is nothing: one look at a context variable. A store that speaks
HTTP adds `outgoing_fields()` to each request that it sends.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from contextvars import ContextVar, Token
from typing import Final

from gateway.model.stage import Stage
from gateway.model.trace import TraceContext, is_sampled, read_context

RawFields = tuple[tuple[bytes, bytes], ...]
Seconds = Callable[[], float]

TRACEPARENT: Final = b"traceparent"
TRACESTATE: Final = b"tracestate"

SENDING: Final = "upstream"
"""The stage that sends a request to its store; the gate is asked within it."""

_CURRENT: ContextVar[Journey | None] = ContextVar("journey", default=None)


class Journey:
    """What is learnt of one request on its way. `trace` is None where nothing is traced.

    `parent_id` is the span of the client that sent the request, None when the trace begins here.
    """

    __slots__ = ("_ended", "_now_s", "_open", "parent_id", "span_id", "stages", "trace")

    def __init__(self, now_s: Seconds, trace: TraceContext | None, parent_id: int | None) -> None:
        self._now_s = now_s
        self._ended = False
        self._open: list[_OpenStage] = []
        self.trace = trace
        self.parent_id = parent_id
        self.span_id = 0 if trace is None else trace.span_id
        self.stages: list[Stage] = []

    def enter(self) -> Token[Journey | None]:
        """Make this the journey of the running task, until `leave`."""
        return _CURRENT.set(self)

    def leave(self, entered: Token[Journey | None]) -> None:
        """The request is answered: what still runs on its behalf is no part of it any more."""
        self._ended = True
        _CURRENT.reset(entered)
        for stage in tuple(self._open):
            stage.close()

    def begin(self, name: str) -> _OpenStage | None:
        """Open a stage. None when the request is answered already."""
        if self._ended:
            return None
        span_id = 0 if self.trace is None else new_span_id()
        stage = _OpenStage(self, name, span_id, self._innermost(), self._now_s())
        self._open.append(stage)
        return stage

    def end(self, stage: _OpenStage) -> None:
        """Close a stage. Closing twice is no error."""
        if stage in self._open:
            self._open.remove(stage)
            self.stages.append(
                Stage(
                    stage.name,
                    stage.began_s,
                    self._now_s(),
                    stage.span_id,
                    stage.gated_s,
                    stage.parent_span_id,
                )
            )

    def passed_gate(self) -> None:
        """The last check before the bytes is made: all before was the body's way to the store."""
        for stage in self._open:
            if stage.name == SENDING:
                stage.gated_s = self._now_s()

    def fields(self) -> RawFields:
        """The trace context for a request to another service, with the open stage as parent."""
        if self.trace is None or self._ended:
            return ()
        parent = (TRACEPARENT, self.trace.traceparent(self._innermost()))
        return (parent, (TRACESTATE, self.trace.state)) if self.trace.state else (parent,)

    def _innermost(self) -> int:
        return self._open[-1].span_id if self._open else self.span_id


class _OpenStage:
    """A stage under way; as a context manager it ends with its block."""

    __slots__ = ("_journey", "began_s", "gated_s", "name", "parent_span_id", "span_id")

    def __init__(
        self, journey: Journey, name: str, span_id: int, parent_span_id: int, began_s: float
    ) -> None:
        self._journey = journey
        self.name = name
        self.span_id = span_id
        self.parent_span_id = parent_span_id
        self.began_s = began_s
        self.gated_s: float | None = None

    def close(self) -> None:
        self._journey.end(self)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._journey.end(self)


class _NoStage:
    """The stage of a request that nobody observes."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        return None


_NO_STAGE: Final = _NoStage()


def stage(name: str) -> _OpenStage | _NoStage:
    """Open a stage of the request that the running task works for; use it with `with`."""
    journey = _CURRENT.get()
    if journey is None:
        return _NO_STAGE
    return journey.begin(name) or _NO_STAGE


def current() -> Journey | None:
    """The journey of the running task, for what runs outside of it (threads, call-backs)."""
    return _CURRENT.get()


def outgoing_fields() -> RawFields:
    """`traceparent` and `tracestate` for a request to a store; none where nothing is traced."""
    journey = _CURRENT.get()
    return () if journey is None else journey.fields()


class Journeys:
    """Begins journeys. `sample_ratio` is that of new traces, None where nothing is traced."""

    def __init__(self, now_s: Seconds, sample_ratio: float | None = None) -> None:
        self._now_s = now_s
        self._sample_ratio = sample_ratio

    def begin(self, fields: Iterable[tuple[bytes, bytes]]) -> Journey:
        """The journey of a request with these header fields; names are in lower case."""
        if self._sample_ratio is None:
            return Journey(self._now_s, None, None)
        parents, states = [], []
        for name, value in fields:
            if name == TRACEPARENT:
                parents.append(value)
            elif name == TRACESTATE:
                states.append(value)
        given = read_context(parents, states) if parents else None
        if given is None:
            trace_id = secrets.randbits(128) or 1
            sampled = is_sampled(trace_id, self._sample_ratio)
            return Journey(
                self._now_s, TraceContext(trace_id, new_span_id(), sampled, random=True), None
            )
        trace = TraceContext(
            given.trace_id, new_span_id(), given.sampled, given.random, given.state
        )
        return Journey(self._now_s, trace, given.span_id)


def new_span_id() -> int:
    """A random span id, never 0."""
    return secrets.randbits(64) or 1
