"""The port of observation: typed events go out, whoever counts or logs subscribes."""

from __future__ import annotations

from typing import Protocol

from gateway.model.event import Event


class Observer(Protocol):
    """Receives every event. Must not raise, must not block."""

    def emit(self, event: Event) -> None:
        """Take one event."""
        ...
