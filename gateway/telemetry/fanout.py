"""One observer made of several (CONTRIBUTING.md, habit 9)."""

from __future__ import annotations

from gateway.model.event import Event
from gateway.ports.observer import Observer


class Fanout:
    """Hands each event to every observer, in the order they were given."""

    __slots__ = ("_observers",)

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def emit(self, event: Event) -> None:
        """Pass one event on."""
        for observer in self._observers:
            observer.emit(event)
