"""From a policy's issuers to a verifier whose keys are kept fresh."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from gateway.identity.sources import KeySource
from gateway.identity.verifier import Issuer, JwtVerifier
from gateway.policy.document import PolicySet
from gateway.ports.clock import Clock
from gateway.ports.identity import UnusableKeys
from gateway.ports.observer import Observer


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

    async def read_due(self) -> None:
        """Read the keys of URLs again that are due. What fails is told, and tried again."""
        for source in self.sources:
            if source.due():
                with contextlib.suppress(UnusableKeys):
                    await source.read()


async def open_identities(
    policy: PolicySet, clock: Clock, observer: Observer, before: Identities | None = None
) -> Identities:
    """Read the keys of all issuers that `before` does not have as they are.

    A file that cannot be used raises `UnusableKeys`; an issuer that does not answer is asked again
    later, and its tokens are answered 503 until then.
    """
    others = frozenset(s.name for s in policy.stores.values() if s.dialect != "s3")
    known = {} if before is None else {s.issuer.settings: s for s in before.sources}
    sources = []
    for settings in policy.auth.issuers:
        source = known.get(settings)
        if source is None:
            source = _source(Issuer(settings, others), policy, clock, observer)
            try:
                await source.read()
            except UnusableKeys:
                if settings.jwks_file is not None:
                    raise
        sources.append(source)
    return Identities(JwtVerifier(tuple(s.issuer for s in sources)), tuple(sources))


def _source(issuer: Issuer, policy: PolicySet, clock: Clock, observer: Observer) -> KeySource:
    file, ca_file = issuer.settings.jwks_file, issuer.settings.jwks_ca_file
    return KeySource(
        issuer,
        None if file is None else policy.data(file),
        None if ca_file is None else policy.data(ca_file),
        clock,
        observer,
    )
