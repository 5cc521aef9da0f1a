"""Laws of the calls to the registry: what went wrong is told with its cause."""

from __future__ import annotations

import asyncio
import errno

import pytest

from gateway.engine.calls import RegistryCalls
from gateway.model.claim import ScopeRow
from gateway.model.event import Event, RegistryCalled
from gateway.model.mark import Scope
from gateway.ports.registry import RegistryUnavailable
from gateway.registries.memory import MemoryRegistry
from gateway.system_clock import SystemClock


class Heard:
    """Keeps what was emitted."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        """Keep it."""
        self.events.append(event)


class Broken(MemoryRegistry):
    """Reads of a scope fail as given, or never end."""

    failure: Exception | None = None

    async def scope(self, scope: Scope) -> ScopeRow | None:
        """Fail, or wait for good."""
        if self.failure is not None:
            raise self.failure
        await asyncio.Event().wait()
        return None


@pytest.mark.parametrize(
    "failure, why",
    [
        (RegistryUnavailable("database or disk is full"), "database or disk is full"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (ValueError(), "ValueError"),
        (None, "did not answer scope within 0.01 s"),
    ],
)
def test_a_failed_call_says_why(failure: Exception | None, why: str) -> None:
    """The event of a failed call has the error's text, so the log can say what to mend."""
    heard, broken = Heard(), Broken()
    broken.failure = failure
    calls = RegistryCalls(broken, SystemClock(), heard, timeout_s=0.01)
    with pytest.raises((RegistryUnavailable, OSError, ValueError)):
        asyncio.run(calls.scope(Scope("jobs")))
    (event,) = heard.events
    assert isinstance(event, RegistryCalled)
    assert not event.ok
    assert why in event.error
