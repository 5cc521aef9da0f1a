"""The verdict on a signature: who sent the request, if the signature is theirs.

Source: S3 API reference, "Authenticating Requests (AWS Signature Version 4)". Pure: the time of
arrival comes with the request.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.dialects.s3.canonical import (
    Pair,
    canonical_path,
    canonical_query,
    canonical_request,
    canonical_value,
)
from gateway.dialects.s3.credentials import (
    SIGNATURE_PARAMETER,
    Auth,
    Presented,
    date_seconds,
    read_credentials,
)
from gateway.dialects.s3.refused import RefusedError, refused
from gateway.dialects.s3.sigv4 import credential_scope, day_key, signature, string_to_sign
from gateway.model.problem import Code, Problem
from gateway.model.worker import Grant, WorkerKey
from gateway.ports.dialect import RawRequest

MAX_SKEW_S: Final = 900

_MISMATCH: Final = (
    "the signature does not match the request; check the secret key, and that nothing between "
    "client and gateway changes path, query, Host or a signed field"
)


@dataclass(frozen=True, slots=True)
class ChunkSeed:
    """Where a chain of chunk signatures starts: the request's own signature and its key."""

    key: bytes = field(repr=False)
    date: str
    scope: str
    signature: str


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sent the request. `payload` is what was signed for the body; None with auth off."""

    auth: Auth
    grant: Grant | None
    payload: str | None
    seed: ChunkSeed | None = None


def verify(
    request: RawRequest,
    query: Sequence[Pair],
    *,
    keys: Mapping[str, WorkerKey],
    store: str,
    region: str,
) -> Identity:
    """Verify a signed request; `query` is its decoded query. Raises `RefusedError`."""
    presented = read_credentials(request, query)
    _check_scope(presented, region)
    key = keys.get(presented.key_id)
    if key is None or key.secret is None:
        raise refused("InvalidAccessKeyId", "the gateway has no key of this id that can sign")
    _check_time(presented, request.arrived_s)
    fields = _signed_fields(presented, request)
    canonical = canonical_request(
        request.method,
        canonical_path(request.path),
        canonical_query(pair for pair in query if pair[0] != SIGNATURE_PARAMETER),
        fields,
        presented.payload.encode("latin-1"),
    )
    scope = credential_scope(presented.day, region)
    secret = day_key(key.secret, presented.day, region)
    expected = signature(secret, string_to_sign(presented.date, scope, canonical))
    if not hmac.compare_digest(expected.encode(), presented.signature):
        raise refused("SignatureDoesNotMatch", _MISMATCH)
    if key.grant.expired(request.arrived_s):
        raise refused("AccessDenied", f"the key {key.id} has expired; ask for a new one")
    if not key.may_use(store):
        raise RefusedError(_no_access(store))
    seed = ChunkSeed(secret, presented.date, scope, expected)
    return Identity(presented.auth, key.grant, presented.payload, seed)


def _no_access(store: str) -> Problem:
    message = f"this key does not cover the store {store!r}; add it to the key's `stores`"
    return Problem(Code.ACCESS_DENIED, message, native="AccessDenied")


def _check_scope(presented: Presented, region: str) -> None:
    code = (
        "AuthorizationHeaderMalformed"
        if presented.auth is Auth.HEADER
        else "AuthorizationQueryParametersError"
    )
    if presented.region != region:
        raise refused(code, f"the credential is for another region; this one is '{region}'")
    if presented.service != "s3":
        raise refused(code, "the credential is for another service; this one is 's3'")


def _check_time(presented: Presented, now_s: float) -> None:
    try:
        signed_s = date_seconds(presented.date)
    except ValueError:
        raise refused("AccessDenied", "the request's date is no such time") from None
    if presented.expires_s is None:
        if abs(now_s - signed_s) > MAX_SKEW_S:
            raise refused(
                "RequestTimeTooSkewed",
                "the request's time is more than 15 minutes off the gateway's; set the clock",
            )
    elif signed_s - now_s > MAX_SKEW_S:
        raise refused("AccessDenied", "the presigned request is not valid yet")
    elif now_s > signed_s + presented.expires_s:
        raise refused("AccessDenied", "the presigned request has expired")


def _signed_fields(presented: Presented, request: RawRequest) -> list[Pair]:
    """Collect the fields that are signed; all that S3 acts on have to be among them.

    A field of the `x-amz-` family changes what a request means, so one that is not covered by the
    signature could have been added on the way: fail closed.
    """
    values: dict[bytes, list[bytes]] = {}
    for name, value in request.fields:
        values.setdefault(name, []).append(value)
    signed = frozenset(presented.signed)
    loose = [n for n in values if n not in signed and (n == b"host" or n.startswith(b"x-amz-"))]
    if loose or b"host" not in signed:
        names = ", ".join(n.decode("latin-1") for n in loose) or "host"
        raise refused("AccessDenied", f"fields that must be signed were not: {names}")
    absent = [name.decode() for name in presented.signed if name not in values]
    if absent:
        raise refused("SignatureDoesNotMatch", f"signed fields did not arrive: {', '.join(absent)}")
    return [(name, canonical_value(values[name])) for name in presented.signed]
