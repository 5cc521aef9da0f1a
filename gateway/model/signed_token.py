"""Signed tokens: a number that only its issuer can have given for this scope.

`<digits>.<base64url>`, where the base64url (RFC 4648, section 5, without padding) holds 90 bytes:

    version 1 | key id 4 | expires 5 | scope 16 | signature 64

The key id is the head of the SHA-256 of the public key, `expires` is in seconds since 1970 (0 for
never), the scope is the head of the SHA-256 of its name in UTF-8. The signature is Ed25519 (RFC
8032) over `fencegate token v1`, a zero byte, the 26 bytes before it, and the token as 8 bytes. All
numbers are big-endian.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

VERSION: Final = 1
MAX_EXPIRES_S: Final = 2**40 - 1
_CONTEXT: Final = b"fencegate token v1\0"
_KID: Final = slice(1, 5)
_EXPIRES: Final = slice(5, 10)
_SCOPE: Final = slice(10, 26)
_BODY_BYTES: Final = 26
_PROOF_BYTES: Final = 90

KeyId = bytes
"""Four bytes that find the key again."""


class Flaw(Enum):
    """Why a signature does not hold."""

    FORGED = "forged"
    OTHER_SCOPE = "other_scope"
    EXPIRED = "expired"


class Proved(NamedTuple):
    """A signature that holds, and until when; None for ever."""

    expires_s: int | None


def key_id(public: Ed25519PublicKey) -> KeyId:
    """The id of a key."""
    return hashlib.sha256(public.public_bytes_raw()).digest()[:4]


def sign(
    token: int, scope: str, private: Ed25519PrivateKey, *, expires_s: int | None = None
) -> str:
    """Give a token its signed form, for this scope alone."""
    body = b"".join(
        (
            bytes([VERSION]),
            key_id(private.public_key()),
            (expires_s or 0).to_bytes(5, "big"),
            _scope_digest(scope),
        )
    )
    proof = base64.urlsafe_b64encode(body + private.sign(_message(body, token)))
    return f"{token}.{proof.decode('ascii').rstrip('=')}"


def prove(
    token: int, proof: bytes, scope: str, keys: Mapping[KeyId, Ed25519PublicKey], now_s: float
) -> Proved | Flaw:
    """Judge the signature of a token. What is not signed by one of `keys` is forged.

    Only of a signature that holds it is told what else is wrong: the scope, or the time.
    """
    raw = _decoded(proof)
    if raw is None or len(raw) != _PROOF_BYTES or raw[0] != VERSION:
        return Flaw.FORGED
    body, key = raw[:_BODY_BYTES], keys.get(raw[_KID])
    if key is None:
        return Flaw.FORGED
    try:
        key.verify(raw[_BODY_BYTES:], _message(body, token))
    except InvalidSignature:
        return Flaw.FORGED
    if raw[_SCOPE] != _scope_digest(scope):
        return Flaw.OTHER_SCOPE
    expires_s = int.from_bytes(raw[_EXPIRES], "big") or None
    if expires_s is not None and now_s >= expires_s:
        return Flaw.EXPIRED
    return Proved(expires_s)


def _decoded(proof: bytes) -> bytes | None:
    """The bytes of a proof in its one spelling; None for any other."""
    try:
        raw = base64.b64decode(proof + b"=" * (-len(proof) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.urlsafe_b64encode(raw).rstrip(b"=") == proof else None


def _message(body: bytes, token: int) -> bytes:
    return _CONTEXT + body + token.to_bytes(8, "big")


def _scope_digest(scope: str) -> bytes:
    return hashlib.sha256(scope.encode()).digest()[:16]
