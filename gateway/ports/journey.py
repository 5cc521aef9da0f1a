"""The journey of one request: where its time goes.

A request that is observed carries a journey in the context of its task; whoever works for it opens
a stage. Without a journey a stage is nothing: one look at a context variable.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Final

from gateway.model.stage import Stage

Seconds = Callable[[], float]

SENDING: Final = "upstream"
"""The stage that sends a request to its store; the gate is asked within it."""

_CURRENT: ContextVar[Journey | None] = ContextVar("journey", default=None)


class Journey:
    """What is learnt of one request on its way. `now_s` reads CLOCK_BOOTTIME."""

    __slots__ = ("_ended", "_now_s", "_open", "stages")

    def __init__(self, now_s: Seconds) -> None:
        self._now_s = now_s
        self._ended = False
        self._open: list[_OpenStage] = []
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
        stage = _OpenStage(self, name, self._now_s())
        self._open.append(stage)
        return stage

    def end(self, stage: _OpenStage) -> None:
        """Close a stage. Closing twice is no error."""
        if stage in self._open:
            self._open.remove(stage)
            self.stages.append(Stage(stage.name, stage.began_s, self._now_s(), stage.gated_s))

    def passed_gate(self) -> None:
        """The last check before the bytes is made: all before was the body's way to the store."""
        for stage in self._open:
            if stage.name == SENDING:
                stage.gated_s = self._now_s()


class _OpenStage:
    """A stage under way; as a context manager it ends with its block."""

    __slots__ = ("_journey", "began_s", "gated_s", "name")

    def __init__(self, journey: Journey, name: str, began_s: float) -> None:
        self._journey = journey
        self.name = name
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
