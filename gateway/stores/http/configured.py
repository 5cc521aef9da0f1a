"""An origin as its settings describe it."""

from __future__ import annotations

from gateway.policy.limits import Limits
from gateway.policy.origin_settings import HttpSettings
from gateway.stores.http.store import OriginStore
from gateway.upstream.pool import Timeouts


def origin_store(settings: HttpSettings, limits: Limits) -> OriginStore:
    """The store; each phase of an exchange has its own time-out."""
    return OriginStore(
        settings.name,
        settings.endpoint,
        mount=settings.mount or "",
        authorization=settings.authorization,
        conditions=settings.conditions,
        probe_path=settings.probe_path,
        settle_ms=settings.settle_ms,
        timeouts=Timeouts(
            connect_s=limits.upstream_connect_timeout_ms / 1000,
            first_byte_s=limits.upstream_first_byte_timeout_ms / 1000,
            idle_s=limits.body_idle_timeout_ms / 1000,
        ),
        hold_back_bytes=limits.hold_back_bytes,
        max_spool_bytes=limits.max_spool_bytes,
    )
