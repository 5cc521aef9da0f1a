"""The policy document: every setting a policy file can hold, as frozen values.

Defaults fit together (decisions, "Defaults"); each field's description is what the settings
reference prints, and what an error tells an operator to put there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from gateway.model.worker import WorkerKey
from gateway.policy.address import Address
from gateway.policy.auth_settings import AdminSettings, AuthSettings, KeySettings
from gateway.policy.kinds import CLOSED, AddressText, FileName, Text
from gateway.policy.limits import Limits
from gateway.policy.origin_settings import HttpSettings
from gateway.policy.registry_settings import RegistrySettings
from gateway.policy.rule_settings import Mode, OnMissingToken, Reads, RuleSettings
from gateway.policy.store_settings import (
    DatabaseSettings,
    FilesSettings,
    MariadbSettings,
    PostgresSettings,
    S3Settings,
    SqliteSettings,
    StoreSettings,
    TableSettings,
)
from gateway.policy.telemetry_settings import TelemetrySettings
from gateway.policy.tls_settings import TlsSettings
from gateway.policy.token_settings import TokensSettings

__all__ = [
    "Address",
    "AdminSettings",
    "AuthSettings",
    "DatabaseSettings",
    "Document",
    "FilesSettings",
    "HttpSettings",
    "KeySettings",
    "Limits",
    "MariadbSettings",
    "Mode",
    "OnMissingToken",
    "PolicySet",
    "PostgresSettings",
    "Reads",
    "RegistrySettings",
    "RuleSettings",
    "S3Settings",
    "ServerSettings",
    "SqliteSettings",
    "StoreSettings",
    "TableSettings",
    "TelemetrySettings",
    "TlsSettings",
]


_DEFAULT_LISTEN: Final = Address("127.0.0.1", 8080)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where the gateway listens, and where it keeps its state."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    listen: Annotated[
        AddressText,
        Field(
            description="Control API, metrics, health, and every store mounted on a path. "
            "Port 0 takes any free port."
        ),
    ] = _DEFAULT_LISTEN
    data_dir: Annotated[
        FileName, Field(description="Directory of all local state, from the working directory.")
    ] = Path("data")
    auth: Annotated[
        Literal["keys", "none"] | None,
        Field(
            description='"keys": every store must be covered by a key. "none": stores that no key '
            "covers are open on purpose, also beyond this machine. Absent: open on loopback only."
        ),
    ] = None
    hosts: Annotated[
        tuple[Text, ...],
        Field(description="Host names that requests may carry; empty takes every one."),
    ] = ()


Store = Annotated[StoreSettings, Field(discriminator="type")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One policy file, section by section."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    server: ServerSettings = field(default_factory=ServerSettings)
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    admin: AdminSettings = field(default_factory=AdminSettings)
    limits: Limits = field(default_factory=Limits)
    auth: AuthSettings = field(default_factory=AuthSettings)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    tokens: TokensSettings = field(default_factory=TokensSettings)
    stores: Annotated[Mapping[str, Store], Field(min_length=1)]
    rules: tuple[RuleSettings, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySet:
    """A checked policy. `digest` is a SHA-256 over what derives scopes (decisions, "Reload")."""

    server: ServerSettings
    registry: RegistrySettings
    admin: AdminSettings
    limits: Limits
    auth: AuthSettings
    tls: TlsSettings
    tokens: TokensSettings
    telemetry: TelemetrySettings
    stores: Mapping[str, StoreSettings]
    rules: tuple[RuleSettings, ...]
    sources: tuple[Path, ...]
    digest: str
    overrides: tuple[str, ...] = ()
    # File and line of each scope of each static key, by their indexes, from the loader.
    scope_places: Mapping[tuple[int, int], str] = field(default_factory=dict, compare=False)

    def mounted(self) -> tuple[StoreSettings, ...]:
        """The stores that share `server.listen`; `mount` is set on each."""
        return tuple(s for s in self.stores.values() if s.mount is not None)

    def listening(self) -> tuple[StoreSettings, ...]:
        """The stores with a listener of their own; `listen` is set on each."""
        return tuple(s for s in self.stores.values() if s.listen is not None)

    @property
    def keys(self) -> tuple[KeySettings, ...]:
        """The static keys of workers."""
        return self.auth.keys

    def covered(self, store: str) -> bool:
        """True when somebody needs to show a key or a token; else the store is open."""
        return self.auth.covers(store, self.stores[store].dialect)

    def worker_keys(self, store: str) -> tuple[WorkerKey, ...]:
        """The static keys that cover a store."""
        keys = (key.worker_key() for key in self.keys)
        return tuple(key for key in keys if key.may_use(store))

    def data(self, path: Path) -> Path:
        """Where a path of the document lies; absolute ones stay what they are."""
        return self.server.data_dir / path
