"""Who may use a running gateway: every comparison of keys, by the policy in force.

Source: decisions, "Access" and "Reload". Dialects, the control API and the check of signed tokens
change together, and not at all when one of them cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, assert_never, cast

from gateway.dialects.http import HttpDialect
from gateway.dialects.live import LiveDialect
from gateway.dialects.origin import OriginDialect
from gateway.dialects.rows.dialect import RowsDialect
from gateway.dialects.s3.dialect import S3Dialect
from gateway.edge.admin_gate import Admins
from gateway.edge.audit_log import AuditLog
from gateway.edge.control_requests import Askers
from gateway.engine.live_policy import ReloadRefused
from gateway.engine.signatures import Signatures
from gateway.identity.live_tokens import LiveTokens
from gateway.model.catalogue import Catalogue
from gateway.model.worker import WorkerKey
from gateway.policy.document import PolicySet
from gateway.policy.origin_settings import HttpSettings
from gateway.policy.store_settings import (
    FilesSettings,
    MariadbSettings,
    PostgresSettings,
    S3Settings,
    SqliteSettings,
    StoreSettings,
)
from gateway.ports.dialect import Dialect
from gateway.ports.identity import TokenVerifier
from gateway.ports.store import Store
from gateway.settings import admin_keys, environment

Commit = Callable[[], None]
"""Puts what was prepared in force; cannot fail."""

_OPENS: Final = (
    "no key would cover the store {store} any more, which opens it to everybody: keep a key, or "
    "restart if that is meant"
)


class _HasTables(Protocol):
    """What a database store offers beyond the port of a store."""

    def catalogue(self) -> Catalogue:
        """The tables that workers may reach."""
        ...


class Access:
    """The parts of a gateway that compare keys, each with those of the policy in force."""

    def __init__(
        self,
        policy: PolicySet,
        stores: Mapping[str, Store],
        tokens: LiveTokens,
        wall_s: Callable[[], float],
        audit: AuditLog,
    ) -> None:
        """Raises `UnusableSecret` for an admin key that cannot serve, and OSError."""
        self._policy = policy
        self._stores = stores
        self._tokens = tokens
        self.admins = Admins(admin_keys(policy, environment()), wall_s, audit)
        self.askers = Askers(self.admins, _worker_keys(policy), wall_s, tokens)
        self.signatures = Signatures(policy.tokens.by_id(), wall_s)
        self.dialects = {
            name: LiveDialect(dialect) for name, dialect in self._dialects(policy).items()
        }

    async def prepare(self, policy: PolicySet) -> Commit:
        """Make ready for another policy of the same stores. Nothing has changed before the commit.

        Raises `ReloadRefused`, `UnusableKeys`, `UnusableSecret` and OSError.
        """
        for name in policy.stores:
            if self._policy.covered(name) and not policy.covered(name):
                raise ReloadRefused(_OPENS.format(store=name))
        admins, keys = admin_keys(policy, environment()), _worker_keys(policy)
        signers, dialects = policy.tokens.by_id(), self._dialects(policy)
        tokens_commit = await self._tokens.prepare(policy)

        def commit() -> None:
            tokens_commit()
            self._policy = policy
            self.admins.keys = admins
            self.askers.keys = keys
            self.signatures.take(signers)
            for name, dialect in dialects.items():
                self.dialects[name].take(dialect)

        return commit

    def _dialects(self, policy: PolicySet) -> dict[str, Dialect]:
        tokens = self._tokens if policy.auth.issuers else None
        return {
            name: build_dialect(settings, self._stores[name], policy, tokens)
            for name, settings in policy.stores.items()
        }


def build_dialect(
    settings: StoreSettings, store: Store, policy: PolicySet, tokens: TokenVerifier | None = None
) -> Dialect:
    """The wire language of a store. A store that no key covers is open to everybody."""
    keys = _worker_keys(policy) if policy.covered(settings.name) else None
    match settings:
        case FilesSettings(dialect="s3") | S3Settings():
            return S3Dialect(settings.name, keys, settings.region)
        case FilesSettings():
            return HttpDialect(settings.name, settings.mount or "", keys, tokens)
        case HttpSettings():
            own = settings.authorization is not None
            return OriginDialect(settings.name, settings.mount or "", keys, tokens, own)
        case SqliteSettings() | PostgresSettings() | MariadbSettings():
            mount, most = settings.mount or "", policy.limits.max_rows_body_bytes
            catalogue = cast(_HasTables, store).catalogue
            return RowsDialect(settings.name, mount, catalogue, keys, most, tokens)
        case _:
            assert_never(settings)


def _worker_keys(policy: PolicySet) -> Mapping[str, WorkerKey]:
    return {key.id: key.worker_key() for key in policy.keys}
