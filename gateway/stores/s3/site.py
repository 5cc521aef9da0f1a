"""One S3 server with all that is needed to speak to it, shared by reads, writes and the probe."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.stores.s3.looks import Looker, Stamper
from gateway.stores.s3.profile import Profile
from gateway.stores.s3.wire import RequestWriter
from gateway.upstream.exchange import Client


@dataclass(frozen=True, slots=True)
class Site:
    """`store` is the name of the policy; `profile` is what the probe has learnt."""

    store: str
    client: Client
    requests: RequestWriter
    stamper: Stamper
    profile: Profile
    hold_back_bytes: int
    spool_bytes: int
    max_spool_bytes: int

    @property
    def looker(self) -> Looker:
        """Looks at this server's objects."""
        return Looker(self.store, self.client, self.requests, self.stamper)
