"""An issuer of JSON Web Tokens for tests: its keys, its JWK Set, tokens good and bad."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
ISSUER = "https://id.tests"
AUDIENCE = "fencegate"


def new_key(algorithm: str) -> PrivateKey:
    """A private key for an algorithm."""
    if algorithm == "RS256":
        return rsa.generate_private_key(65537, 2048)
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    return ed25519.Ed25519PrivateKey.generate()


def jwk_of(key: PrivateKey, algorithm: str, key_id: str | None) -> dict[str, Any]:
    """The public half as a JWK."""
    encoder = jwt.get_algorithm_by_name(algorithm)
    made = dict(encoder.to_jwk(key.public_key(), as_dict=True))  # type: ignore[call-overload]
    made |= {"alg": algorithm, "use": "sig"}
    return made if key_id is None else made | {"kid": key_id}


class TokenIssuer:
    """Signs tokens with one key of each algorithm; the key's id is the algorithm's name."""

    def __init__(self) -> None:
        self.keys = {name: new_key(name) for name in ("RS256", "ES256", "EdDSA")}

    def key_set(self, *algorithms: str) -> bytes:
        """Its JWK Set; only these keys, or all."""
        names = algorithms or tuple(self.keys)
        return json.dumps({"keys": [jwk_of(self.keys[n], n, n) for n in names]}).encode()

    def token(
        self, algorithm: str = "ES256", *, header: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """A token; a claim of None is left out."""
        told = {"iss": ISSUER, "aud": AUDIENCE, "sub": "w", "exp": 4_000_000_000} | claims
        told = {name: value for name, value in told.items() if value is not None}
        named = {"kid": algorithm} | (header or {})
        named = {name: value for name, value in named.items() if value is not None}
        payload = json.dumps(told).encode()  # as it is, also what the library would refuse to sign
        return jwt.PyJWS().encode(payload, self.keys[algorithm], algorithm, headers=named)

    def confused(self, header: dict[str, Any], secret: bytes) -> str:
        """A token whose signature is an HMAC under something public."""
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "w", "exp": 4_000_000_000}
        signed = ".".join(_b64(json.dumps(part).encode()) for part in (header, claims))
        return f"{signed}.{_b64(hmac.digest(secret, signed.encode(), hashlib.sha256))}"

    def public_pem(self, algorithm: str) -> bytes:
        """A public key as everybody can have it."""
        return (
            self.keys[algorithm]
            .public_key()
            .public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
