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


class Clinging(MemoryRegistry):
    """Its driver does not end when it is cancelled, until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = asyncio.Event()
        self.ended = asyncio.Event()

    async def scope(self, scope: Scope) -> ScopeRow | None:
        """Wait for the server, then for the server's word on the cancellation."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.let_go.wait()
            self.ended.set()
        return None


async def test_a_call_is_late_whatever_its_driver_does() -> None:
    """Work that clings to a silent server holds nobody up, and ends when it can."""
    clinging = Clinging()
    calls = RegistryCalls(clinging, SystemClock(), Heard(), timeout_s=0.01)
    with pytest.raises(RegistryUnavailable, match="did not answer scope"):
        async with asyncio.timeout(30):
            await calls.scope(Scope("jobs"))
    assert not clinging.ended.is_set(), "nothing clung: the test shows nothing"
    clinging.let_go.set()
    async with asyncio.timeout(30):
        await clinging.ended.wait()


async def test_a_call_ends_with_its_caller() -> None:
    """Who gives up takes the step along: nothing goes on that nobody waits for."""
    clinging = Clinging()
    clinging.let_go.set()
    calls = RegistryCalls(clinging, SystemClock(), Heard(), timeout_s=300)
    caller = asyncio.create_task(calls.scope(Scope("jobs")))
    await asyncio.sleep(0)
    caller.cancel()
    async with asyncio.timeout(30):
        await clinging.ended.wait()
    assert caller.cancelled()


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
