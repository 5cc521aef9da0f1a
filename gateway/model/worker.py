"""Who may use the gateway, and for what: a worker's key, and the grant behind it.

Source: decisions, "Access". A secret is compared by its SHA-256, in constant time. A fast hash is
enough, because generated secrets carry 256 random bits that nobody can try out.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from gateway.model.scope_pattern import ScopePattern


@dataclass(frozen=True, slots=True)
class Grant:
    """What its bearer may do. None in `stores`, `scopes` or `methods` means all of them.

    `expires_s` is seconds since 1970; from then on the grant is worth nothing.
    """

    worker: str
    stores: frozenset[str] | None = None
    scopes: tuple[ScopePattern, ...] | None = None
    methods: frozenset[str] | None = None
    expires_s: float | None = None

    def may_use(self, store: str) -> bool:
        """True when it covers the store."""
        return self.stores is None or store in self.stores

    def allows(self, method: str) -> bool:
        """True when it covers the method; HEAD is part of GET (RFC 9110, section 9.1)."""
        if self.methods is None or method in self.methods:
            return True
        return method == "HEAD" and "GET" in self.methods

    def covers(self, scope: str | None) -> bool:
        """True when it covers the scope. A request without a scope is covered by a whole one only.

        A listing, and whatever passes unfenced, reaches further than any scope.
        """
        if self.scopes is None:
            return True
        return scope is not None and any(pattern.matches(scope) for pattern in self.scopes)

    def expired(self, now_s: float) -> bool:
        """True from its last moment on."""
        return self.expires_s is not None and now_s >= self.expires_s


def secret_digest(secret: str | bytes) -> bytes:
    """What of a secret is kept and compared."""
    raw = secret.encode() if isinstance(secret, str) else secret
    return hashlib.sha256(raw).digest()


@dataclass(frozen=True, slots=True)
class WorkerKey:
    """A static key: bearer token for http and rows, access key pair for s3.

    `secret` is None for a key of which only the digest is kept; such a key cannot sign for s3.
    Neither ever appears in a representation.
    """

    id: str
    secret: str | None = field(repr=False)
    stores: frozenset[str] | None = None
    scopes: tuple[ScopePattern, ...] | None = None
    methods: frozenset[str] | None = None
    expires_s: float | None = None
    digest: bytes = field(default=b"", repr=False)
    grant: Grant = field(init=False)

    def __post_init__(self) -> None:
        """Make what each request asks for."""
        if self.secret is not None:
            object.__setattr__(self, "digest", secret_digest(self.secret))
        grant = Grant(self.id, self.stores, self.scopes, self.methods, self.expires_s)
        object.__setattr__(self, "grant", grant)

    def may_use(self, store: str) -> bool:
        """True when the key covers the store."""
        return self.grant.may_use(store)

    def has(self, digest: bytes) -> bool:
        """True when a secret of this digest is the key's, in a time that tells nothing."""
        return hmac.compare_digest(self.digest, digest)
