"""From a policy's issuers to a verifier whose keys are kept fresh."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Final

from gateway.identity.sources import KeySource
from gateway.identity.verifier import Issuer, JwtVerifier
from gateway.policy.document import PolicySet
from gateway.ports.clock import Clock
from gateway.ports.identity import UnusableKeys
from gateway.ports.observer import Observer

_TICK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Identities:
    """The verifier, and where the keys of its issuers come from."""

    verifier: JwtVerifier
    sources: tuple[KeySource, ...]

    async def read(self) -> None:
        """Read all keys again. Raises `UnusableKeys` for the first that cannot be read."""
        failed: UnusableKeys | None = None
        for source in self.sources:
            try:
                await source.read()
            except UnusableKeys as wrong:
                failed = failed or wrong
        if failed is not None:
            raise failed

    async def keep_fresh(self, clock: Clock) -> None:
        """Read the keys of URLs again when they are due, for good."""
        while True:
            await clock.sleep_s(_TICK_S)
            for source in self.sources:
                if source.due():
                    with contextlib.suppress(UnusableKeys):
                        await source.read()


async def open_identities(policy: PolicySet, clock: Clock, observer: Observer) -> Identities:
    """Read the keys of all issuers for the first time.

    A file that cannot be used raises `UnusableKeys`; an issuer that does not answer is asked again
    later, and its tokens are answered 503 until then.
    """
    others = frozenset(s.name for s in policy.stores.values() if s.dialect != "s3")
    issuers = tuple(Issuer(settings, others) for settings in policy.auth.issuers)
    sources = []
    for issuer in issuers:
        file, ca_file = issuer.settings.jwks_file, issuer.settings.jwks_ca_file
        source = KeySource(
            issuer,
            None if file is None else policy.data(file),
            None if ca_file is None else policy.data(ca_file),
            clock,
            observer,
        )
        sources.append(source)
        try:
            await source.read()
        except UnusableKeys:
            if file is not None:
                raise
    return Identities(JwtVerifier(issuers), tuple(sources))
