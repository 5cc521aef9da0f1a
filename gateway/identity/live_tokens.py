"""The verifier of tokens by the policy in force: its issuers can change under way.

What verifies is opened when a policy names an issuer for the first time, so that a gateway without
issuers carries no library for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.model.problem import Code, Problem
from gateway.model.worker import Grant
from gateway.policy.document import PolicySet
from gateway.ports.clock import Clock
from gateway.ports.observer import Observer

if TYPE_CHECKING:
    from gateway.identity.opening import Identities

_TICK_S: Final = 1.0


class LiveTokens:
    """Verifies by the issuers that were taken last; by none before `prepare`."""

    def __init__(self, clock: Clock, observer: Observer) -> None:
        self._clock = clock
        self._observer = observer
        self._identities: Identities | None = None

    async def prepare(self, policy: PolicySet) -> Callable[[], None]:
        """Read the keys of issuers that are new or changed. Raises `UnusableKeys`.

        What is given back puts them in force; the others keep the keys that they have.
        """
        identities: Identities | None = None
        if policy.auth.issuers:
            from gateway.identity.opening import open_identities

            before = self._identities
            identities = await open_identities(policy, self._clock, self._observer, before)

        def commit() -> None:
            self._identities = identities

        return commit

    def verify(self, token: bytes, now_s: float) -> Grant | Problem:
        """See `TokenVerifier.verify`."""
        if self._identities is None:
            return Problem(Code.UNAUTHENTICATED, "this key is not known; see [[auth.keys]]")
        return self._identities.verifier.verify(token, now_s)

    async def read(self) -> str | None:
        """Read all keys again. Raises `UnusableKeys` for the first that cannot be read."""
        if self._identities is None:
            return "the policy names no issuers"
        await self._identities.read()
        return None

    async def keep_fresh(self) -> None:
        """Read the keys of URLs again when they are due, for good."""
        while True:
            await self._clock.sleep_s(_TICK_S)
            if self._identities is not None:
                await self._identities.read_due()
