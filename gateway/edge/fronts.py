"""Fronts: which store answers which path on which listener."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from gateway.edge.asgi_types import App
from gateway.model.operation import Operation
from gateway.model.outcome import Outcome
from gateway.model.problem import Problem
from gateway.policy.decide import Permit
from gateway.ports.dialect import Dialect, Parsed

CONTROL_MOUNTS: Final = (b"/v1", b"/metrics", b"/healthz", b"/readyz", b"/ui")
"""Where no store may be mounted (decisions, "Control API")."""

UNGUARDED_HOST: Final = frozenset({b"/healthz", b"/readyz"})
"""Answered under any Host: whoever checks health addresses the machine, not the service."""


@dataclass(frozen=True, slots=True)
class Front:
    """One store as workers see it. `mount` is a path prefix such as `/files`, empty for all paths.

    `decide` is asked once a request; `handle` takes the parsed request and that decision to the
    outcome. `max_body_bytes` bounds every body.
    """

    store: str
    dialect: Dialect
    mount: bytes
    decide: Callable[[Operation], Permit | Problem]
    handle: Callable[[Parsed, Permit | Problem], Awaitable[Outcome]]
    max_body_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Listener:
    """What answers on one listening address. `control` serves the paths of CONTROL_MOUNTS."""

    address: tuple[str, int]
    fronts: tuple[Front, ...]
    control: App | None = None

    def find(self, path: bytes) -> Front | App | None:
        """Who answers a raw path: the longest mount wins."""
        if self.control is not None and any(is_under(path, m) for m in CONTROL_MOUNTS):
            return self.control
        best: Front | None = None
        for front in self.fronts:
            if is_under(path, front.mount) and (best is None or len(front.mount) > len(best.mount)):
                best = front
        return best


def is_under(path: bytes, mount: bytes) -> bool:
    """True when the path is the mount or below it, compared byte by byte."""
    return path.startswith(mount) and path[len(mount) : len(mount) + 1] in (b"", b"/")


class Listeners:
    """All listeners, found by the local address of a connection."""

    def __init__(self, listeners: tuple[Listener, ...]) -> None:
        self._exact = {listener.address: listener for listener in listeners}
        self._any = {
            listener.address[1]: listener
            for listener in listeners
            if listener.address[0] in ("0.0.0.0", "::")  # noqa: S104 - recognised, not bound
        }

    def find(self, server: tuple[str, int]) -> Listener | None:
        """The listener that accepted a connection to this local address."""
        listener = self._exact.get(server)
        return listener if listener is not None else self._any.get(server[1])
