"""The public keys of an issuer, from a JWK Set (RFC 7517), each bound to one algorithm.

A key's type alone decides which algorithm it verifies; what a token's header says is only compared
with that (RFC 8725, section 3.1). Symmetric keys are never taken, so that a public key cannot be
used as a secret.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import jwt

from gateway.ports.identity import UnusableKeys

_MAX_KEYS: Final = 100
_MIN_RSA_BITS: Final = 2048
_ALGORITHMS: Final[Mapping[tuple[str, str | None], str]] = MappingProxyType(
    {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}
)


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """One public key, its name, and the one algorithm it verifies."""

    id: str | None
    algorithm: str
    key: jwt.PyJWK


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of an issuer. Two sets are equal when they were read from the same bytes."""

    digest: bytes
    keys: tuple[VerifyingKey, ...] = field(compare=False)

    def find(self, key_id: str | None, algorithm: str) -> VerifyingKey | None:
        """The key that a header names; without a name the only one of the algorithm."""
        fitting = [key for key in self.keys if key.algorithm == algorithm]
        if key_id is not None:
            fitting = [key for key in fitting if key.id == key_id]
        return fitting[0] if len(fitting) == 1 else None


def read_key_set(raw: bytes) -> KeySet:
    """Read a JWK Set; keys of other types or uses are left out. Raises `UnusableKeys`."""
    try:
        document = json.loads(raw)
    except ValueError:
        raise UnusableKeys("is no JSON") from None
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list) or len(listed) > _MAX_KEYS:
        raise UnusableKeys(f'is no JWK Set: expected {{"keys": [at most {_MAX_KEYS}]}}')
    keys = tuple(key for key in map(_key, listed) if key is not None)
    if not keys:
        raise UnusableKeys("has no RSA, P-256 or Ed25519 key for signatures")
    return KeySet(hashlib.sha256(raw).digest(), keys)


def _key(entry: Any) -> VerifyingKey | None:
    if not isinstance(entry, dict):
        return None
    if "d" in entry:
        raise UnusableKeys("holds a private key: publish the public half alone")
    kind, curve = entry.get("kty"), entry.get("crv")
    algorithm = _ALGORITHMS.get((kind, curve)) if isinstance(kind, str) else None
    if algorithm is None or entry.get("alg", algorithm) != algorithm:
        return None
    if entry.get("use", "sig") != "sig" or "verify" not in entry.get("key_ops", ("verify",)):
        return None
    key_id = entry.get("kid")
    if key_id is not None and not isinstance(key_id, str):
        return None
    try:
        key = jwt.PyJWK(entry, algorithm)
    except jwt.PyJWTError:
        return None
    if kind == "RSA" and key.key.key_size < _MIN_RSA_BITS:
        return None
    return VerifyingKey(key_id, algorithm, key)
