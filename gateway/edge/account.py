"""The account of one request: what the events at its end tell (CONTRIBUTING.md, habit 9)."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from gateway.edge.asgi_types import Scope
from gateway.model.event import Rejected, RequestFinished, ShadowRejected
from gateway.model.operation import Kind, Operation
from gateway.model.outcome import Applied, Outcome, ReadOk, Unknown
from gateway.model.problem import Code, Problem
from gateway.policy.decide import Permit
from gateway.ports.clock import Clock
from gateway.ports.journey import Journey
from gateway.ports.observer import Observer

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

# What a store says of its own things, or what went wrong: not a rule of the gateway.
_NO_REJECTION: Final = frozenset(
    {
        Code.NOT_FOUND,
        Code.NOT_SATISFIABLE,
        Code.NOT_ACCEPTABLE,
        Code.CONFLICT,
        Code.UPSTREAM_FAILED,
        Code.UPSTREAM_REFUSED,
        Code.OUTCOME_UNKNOWN,
        Code.INTERNAL,
    }
)


def assumed_kind(method: str) -> Kind:
    """The kind of a request that was not understood: a mutation unless its method is safe."""
    if method in _SAFE:
        return Kind.READ
    return Kind.DELETE if method == "DELETE" else Kind.WRITE


class Unread(NamedTuple):
    """What is known of a message that was refused while it was parsed; empty: not come to yet.

    `path` may end where the refusal came; it has no query, which may hold a signature.
    """

    client: tuple[str, int] | None
    method: str = ""
    path: bytes = b""


class Account:
    """Collects what is known of a request. `store` and `dialect` are empty until they are.

    `quiet` leaves the events out (health checks, scrapes). `slow_s` is from when a request is slow.
    """

    __slots__ = (
        "_began_s",
        "_clock",
        "_scope",
        "bytes_in",
        "dialect",
        "fence_scope",
        "journey",
        "kind",
        "operation",
        "outcome",
        "problem",
        "quiet",
        "replayed",
        "request_id",
        "retried",
        "shadow",
        "slow_s",
        "status",
        "store",
    )

    def __init__(
        self,
        scope: Scope,
        request_id: str,
        clock: Clock,
        journey: Journey | None = None,
        slow_s: float = math.inf,
    ) -> None:
        self._scope = scope
        self.journey = journey
        self.slow_s = slow_s
        self._clock = clock
        self._began_s = clock.boottime_s()
        self.request_id = request_id
        self.store = ""
        self.dialect = ""
        self.kind = assumed_kind(scope["method"])
        self.operation: Operation | None = None
        self.fence_scope: str | None = None
        self.outcome = "refused" if self.kind.mutates else "read_failed"
        self.problem: Problem | None = None
        self.quiet = False
        self.replayed = False
        self.retried = False
        self.shadow: str | None = None
        self.status = 500
        self.bytes_in = 0

    @property
    def head(self) -> bool:
        """True when the answer has no body, whatever its length says (RFC 9110, section 9.3.2)."""
        return bool(self._scope["method"] == "HEAD")

    def understood(self, operation: Operation) -> None:
        """The request was parsed; from now on a mutation's outcome is unknown until it is known."""
        self.operation = operation
        self.kind = operation.kind
        self.outcome = "unknown" if self.kind.mutates else "read_failed"

    def decided(self, decided: Permit | Problem) -> None:
        """It is known where the operation is fenced, or that it is not."""
        self.fence_scope = decided.scope if isinstance(decided, Permit) else None

    def ended(self, outcome: Outcome) -> None:
        """The outcome is known."""
        self.retried = getattr(outcome, "retried", False)
        self.shadow = outcome.shadow
        if isinstance(outcome, Applied):
            self.replayed = outcome.replayed
        elif not isinstance(outcome, ReadOk):
            self.problem = outcome.problem
        if not self.kind.mutates:
            self.outcome = "read_ok" if isinstance(outcome, ReadOk) else "read_failed"
        elif isinstance(outcome, Unknown):
            self.outcome = "unknown"
        else:
            self.outcome = "applied" if isinstance(outcome, Applied) else "refused"

    def answered_by_dialect(self) -> None:
        """The dialect answered by itself; no store was asked."""
        self.outcome = "refused" if self.kind.mutates else "read_ok"

    def failed(self, problem: Problem) -> None:
        """The outcome is known but could not be told; that of a mutation stays what it is."""
        self.problem = problem
        self.replayed = False
        self.broke_off()

    def broke_off(self) -> None:
        """The answer was not sent to its end."""
        if not self.kind.mutates:
            self.outcome = "read_failed"

    def close(self, observer: Observer) -> None:
        """Emit the events."""
        if self.quiet:
            return
        problem, operation, client = self.problem, self.operation, self._scope["client"]
        journey, ended_s = self.journey, self._clock.boottime_s()
        seconds = ended_s - self._began_s
        if problem is not None and problem.code not in _NO_REJECTION:
            observer.emit(Rejected(self.store, problem.reason))
        if self.shadow is not None:
            observer.emit(ShadowRejected(self.store, self.shadow))
        observer.emit(
            RequestFinished(
                request_id=self.request_id,
                store=self.store,
                dialect=self.dialect,
                kind=self.kind.value,
                outcome=self.outcome,
                method=self._scope["method"],
                path=self._scope["raw_path"].decode("latin-1"),
                status=self.status,
                seconds=seconds,
                scope=self.fence_scope,
                token=operation.token if operation is not None else None,
                holder=operation.holder if operation is not None else None,
                mark=problem.mark if problem is not None else None,
                code=problem.code.value if problem is not None else None,
                worker=operation.worker if operation is not None else None,
                client=client[0] if client else None,
                bytes_in=self.bytes_in,
                replayed=self.replayed,
                retried=self.retried,
                slow=seconds >= self.slow_s,
                stages=() if journey is None else tuple(journey.stages),
                ended_s=ended_s,
                trace=None if journey is None else journey.trace,
                parent_span_id=None if journey is None else journey.parent_id,
                shadow=self.shadow,
            )
        )


def refused_unread(problem: Problem, request_id: str, message: Unread, observer: Observer) -> None:
    """Emit the events of a message that the connection refused before it was a request."""
    client = message.client
    observer.emit(Rejected("", problem.reason))
    observer.emit(
        RequestFinished(
            request_id=request_id,
            store="",
            dialect="",
            kind=Kind.WRITE.value,
            outcome="refused",
            method=message.method,
            path=message.path.decode("latin-1"),
            status=problem.status,
            seconds=0.0,
            code=problem.code.value,
            client=client[0] if client else None,
        )
    )
