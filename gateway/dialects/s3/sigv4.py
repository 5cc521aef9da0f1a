"""The signature arithmetic of AWS Signature Version 4, and the signer for requests to a store.

Source: S3 API reference, "Authenticating Requests: Using the Authorization Header", tasks 2 and 3.
Pure functions: the time is passed in.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from gateway.dialects.s3.canonical import (
    Pair,
    canonical_path,
    canonical_query,
    canonical_request,
    canonical_value,
    parse_query,
)

ALGORITHM: Final = b"AWS4-HMAC-SHA256"
UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()

# A hop, a proxy or the HTTP library may change these on the way, so a signature must not cover
# them (RFC 9110 section 7.6.1; the list the AWS SDKs skip too).
_UNSIGNED_FIELDS: Final = frozenset(
    {
        b"authorization",
        b"connection",
        b"expect",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"user-agent",
        b"x-amzn-trace-id",
    }
)


@dataclass(frozen=True, slots=True)
class AccessKey:
    """Credentials of a store. The secrets never appear in a representation."""

    id: str
    secret: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class UnsignedRequest:
    """What is to be signed: the exact bytes that will be sent.

    `path` and `query` are raw (percent-encoded; `query` without its question mark). `fields` must
    hold `host`, names in lower case, and not x-amz-date, x-amz-content-sha256, authorization or
    x-amz-security-token: the signer makes these. `payload_hash` is the body's SHA-256 in hex, or
    "UNSIGNED-PAYLOAD".
    """

    method: str
    path: bytes
    query: bytes
    fields: Sequence[Pair]
    payload_hash: str = UNSIGNED_PAYLOAD


def amz_date(at_s: float) -> str:
    """Write Unix seconds in the one form the signature knows: 20150830T123600Z."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at_s))


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


@lru_cache(maxsize=1024)
def day_key(secret: str, day: str, region: str, service: str = "s3") -> bytes:
    """Derive the signing key of one day (four HMACs, remembered for the last 1024 in use)."""
    key = _hmac(b"AWS4" + secret.encode(), day.encode())
    for part in (region, service, "aws4_request"):
        key = _hmac(key, part.encode())
    return key


def credential_scope(day: str, region: str, service: str = "s3") -> str:
    """Name what a signing key is good for: day/region/service/aws4_request."""
    return f"{day}/{region}/{service}/aws4_request"


def string_to_sign(date: str, scope: str, canonical: bytes) -> bytes:
    """Task 2: algorithm, date, scope and the hash of the canonical request."""
    digest = hashlib.sha256(canonical).hexdigest()
    return b"\n".join((ALGORITHM, date.encode(), scope.encode(), digest.encode()))


def signature(key: bytes, text: bytes) -> str:
    """Task 3: the HMAC in lower-case hex."""
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def signed_fields(fields: Sequence[Pair]) -> list[Pair]:
    """Bring fields into signed form: sorted, one line per name; those hops may change left out."""
    names: dict[bytes, list[bytes]] = {}
    for name, value in fields:
        if name not in _UNSIGNED_FIELDS:
            names.setdefault(name, []).append(value)
    return [(name, canonical_value(names[name])) for name in sorted(names)]


def sign(
    request: UnsignedRequest, key: AccessKey, region: str, at_s: float
) -> tuple[tuple[bytes, bytes], ...]:
    """Sign a request to a store; returns the fields to add to it.

    These are x-amz-date, x-amz-content-sha256, x-amz-security-token for a temporary key, and
    authorization. Every field of the request is covered except those that hops may change.
    """
    date = amz_date(at_s)
    added: list[Pair] = [
        (b"x-amz-date", date.encode()),
        (b"x-amz-content-sha256", request.payload_hash.encode()),
    ]
    if key.session_token is not None:
        added.append((b"x-amz-security-token", key.session_token.encode()))
    fields = signed_fields([*request.fields, *added])
    canonical = canonical_request(
        request.method,
        canonical_path(request.path),
        canonical_query(parse_query(request.query)),
        fields,
        request.payload_hash.encode(),
    )
    day = date[:8]
    scope = credential_scope(day, region)
    mac = signature(day_key(key.secret, day, region), string_to_sign(date, scope, canonical))
    names = b";".join(name for name, _ in fields).decode()
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={key.id}/{scope}, SignedHeaders={names}, Signature={mac}"
    )
    return (*added, (b"authorization", authorization.encode()))
