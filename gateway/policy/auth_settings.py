"""Who may use the gateway, as a policy file writes it: the workers' keys (decisions, "Access")."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import AwareDatetime, BeforeValidator, ConfigDict, Field

from gateway.model.scope_pattern import scope_pattern
from gateway.model.worker import WorkerKey
from gateway.policy.issuer_settings import IssuerSettings
from gateway.policy.kinds import CLOSED, FileName, Text
from gateway.policy.rule_settings import KNOWN_METHODS

ADMIN: Final = "admin"
"""What the audit log calls the key of FENCEGATE_ADMIN_KEY or `admin.key_file`."""

KEY_ID: Final = r"^[A-Za-z0-9._~-]{1,64}$"
SECRET: Final = r"^[\x21-\x7e]{8,128}$"
SECRET_HASH: Final = r"^sha256:[0-9a-f]{64}$"

METHODS: Final = KNOWN_METHODS


def _instant(value: object) -> object:
    """A TOML date-time as it is; whatever else was written is told what to be."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    raise ValueError("expected a time with its offset, without quotes: 2027-01-31T00:00:00Z")


Instant = Annotated[AwareDatetime, BeforeValidator(_instant)]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySettings:
    """A worker's static key: bearer token for http and rows, access key pair for s3.

    One of `secret_hash`, `secret` and `secret_file`: a hash serves http and rows, while s3 needs
    the secret itself, because its clients prove that they know it instead of sending it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    id: Annotated[
        str,
        Field(
            pattern=KEY_ID,
            description="1 to 64 letters, digits, . _ ~ or -: access key id for s3, and the "
            "worker's name in logs.",
        ),
    ]
    secret_hash: Annotated[
        str | None,
        Field(
            pattern=SECRET_HASH,
            description='"sha256:" and 64 hex digits, as `fencegate keys new` prints it: bearer '
            "token for http and rows.",
        ),
    ] = field(default=None, repr=False)
    secret: Annotated[
        str | None,
        Field(
            pattern=SECRET,
            description="8 to 128 visible ASCII characters: secret access key for s3, bearer "
            'token for http and rows. Write "${NAME}" to take it from the environment.',
        ),
    ] = field(default=None, repr=False)
    secret_file: Annotated[
        FileName | None,
        Field(description="File that holds the secret and nothing else, from data_dir."),
    ] = None
    stores: Annotated[
        tuple[Text, ...] | None, Field(description="Stores the key covers; absent means all.")
    ] = None
    scopes: Annotated[
        tuple[Text, ...] | None,
        Field(
            description='Scopes the key covers, such as "reports/eu", "reports/{team}" or '
            '"files:{rest*}"; absent means all. With it, requests without a scope (listings, '
            'mode = "off") are refused.'
        ),
    ] = None
    methods: Annotated[
        tuple[Text, ...] | None,
        Field(
            description='Methods the key covers, such as ["GET", "PUT"]; GET covers HEAD too. '
            "Absent means all."
        ),
    ] = None
    expires: Annotated[
        Instant | None,
        Field(description="When the key stops being accepted, with offset: 2027-01-31T00:00:00Z."),
    ] = None

    def worker_key(self) -> WorkerKey:
        """Give the key the form that dialects take. Its patterns have been checked."""
        hashed = (self.secret_hash or "").removeprefix("sha256:")
        return WorkerKey(
            self.id,
            self.secret,
            _set(self.stores),
            None if self.scopes is None else tuple(map(scope_pattern, self.scopes)),
            _set(self.methods),
            None if self.expires is None else self.expires.timestamp(),
            bytes.fromhex(hashed),
        )

    def covers(self, store: str) -> bool:
        """True when the key covers a store."""
        return self.stores is None or store in self.stores


def _set(names: tuple[str, ...] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSettings:
    """Who may use the gateway."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    keys: Annotated[
        tuple[KeySettings, ...], Field(description="Static worker keys, one table each.")
    ] = ()
    issuers: Annotated[
        tuple[IssuerSettings, ...],
        Field(description="Issuers of JSON Web Tokens for workers, one table each."),
    ] = ()

    def covers(self, store: str, dialect: str) -> bool:
        """True when anybody at all may use the store. Tokens are for http and rows alone."""
        by_token = dialect != "s3" and any(issuer.covers(store) for issuer in self.issuers)
        return by_token or any(key.covers(store) for key in self.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminKeySettings:
    """A further admin key, so that the audit log tells admins apart."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    id: Annotated[
        str,
        Field(
            pattern=KEY_ID,
            description="1 to 64 letters, digits, . _ ~ or -: `who` in the audit log.",
        ),
    ]
    secret_hash: Annotated[
        str,
        Field(
            pattern=SECRET_HASH,
            description='"sha256:" and 64 hex digits, as `fencegate keys new --admin` prints it.',
        ),
    ] = field(repr=False)
    expires: Annotated[
        Instant | None,
        Field(description="When the key stops being accepted, with offset: 2027-01-31T00:00:00Z."),
    ] = None

    def admin_key(self) -> WorkerKey:
        """Give the key the form that the control API takes."""
        digest = bytes.fromhex(self.secret_hash.removeprefix("sha256:"))
        expires_s = None if self.expires is None else self.expires.timestamp()
        return WorkerKey(self.id, None, expires_s=expires_s, digest=digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings:
    """The keys of the control API, and the record of what is done with them."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    key_file: Annotated[
        FileName,
        Field(
            description="File of the admin key, from data_dir; generated (mode 0600) when it is "
            "missing and FENCEGATE_ADMIN_KEY is not set."
        ),
    ] = Path("admin-key")
    keys: Annotated[
        tuple[AdminKeySettings, ...],
        Field(description="Further admin keys, one table each; the one above is called admin."),
    ] = ()
    audit_file: Annotated[
        FileName,
        Field(
            description="File to which each act of an admin is appended, from data_dir. An act "
            "that cannot be recorded is refused."
        ),
    ] = Path("audit.jsonl")
