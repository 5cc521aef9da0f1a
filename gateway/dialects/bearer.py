"""Bearer keys of workers, for the dialects that speak plain HTTP (RFC 6750, section 2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.model.problem import Code, Problem
from gateway.model.worker import Grant, WorkerKey, secret_digest
from gateway.ports.dialect import RawRequest
from gateway.ports.identity import TokenVerifier

_SCHEME: Final = b"bearer "
_JWT_DOTS: Final = 2  # RFC 7515, section 7.1


def authenticate(
    request: RawRequest,
    keys: Mapping[str, WorkerKey] | None,
    store: str,
    tokens: TokenVerifier | None = None,
) -> Grant | Problem | None:
    """Tell whose key the request's Authorization field carries, and what it is good for.

    Returns the grant, or None where authentication is off (`keys` is None). An unknown or expired
    key is 401, one that does not cover the store 403. Every key is compared, in constant time
    each, so that the time of an answer tells nothing about any of them. What no key is, and has the
    form of a JSON Web Token, is asked of `tokens`.
    """
    if keys is None:
        return None
    fields = request.values(b"authorization")
    if len(fields) > 1:
        return Problem(Code.REQUEST_MALFORMED, "send exactly one Authorization field")
    secret = _secret(fields[0]) if fields else None
    if secret is None:
        return Problem(
            Code.UNAUTHENTICATED, "send the worker's key as Authorization: Bearer <secret>"
        )
    grant = grant_of(secret, keys, request.arrived_s, tokens)
    if isinstance(grant, Problem):
        return grant
    if not grant.may_use(store):
        text = f"the key {grant.worker} does not cover the store {store}; see its `stores`"
        return Problem(Code.ACCESS_DENIED, text)
    return grant


def grant_of(
    secret: bytes, keys: Mapping[str, WorkerKey], now_s: float, tokens: TokenVerifier | None
) -> Grant | Problem:
    """What a bearer secret is good for now, whichever store it is shown to."""
    grant: Grant | Problem | None = _of_key(secret, keys)
    if grant is None and tokens is not None and secret.count(b".") == _JWT_DOTS:
        grant = tokens.verify(secret, now_s)
    if isinstance(grant, Problem):
        return grant
    if grant is None:
        return Problem(Code.UNAUTHENTICATED, "this key is not known; see [[auth.keys]]")
    if grant.expired(now_s):
        text = f"the key {grant.worker} has expired; ask for a new one (`fencegate keys new`)"
        return Problem(Code.UNAUTHENTICATED, text)
    return grant


def _of_key(secret: bytes, keys: Mapping[str, WorkerKey]) -> Grant | None:
    digest, found = secret_digest(secret), None
    for key in keys.values():
        if key.has(digest):
            found = key.grant
    return found


def _secret(field: bytes) -> bytes | None:
    if field[: len(_SCHEME)].lower() != _SCHEME:
        return None
    return field[len(_SCHEME) :].strip(b" ") or None
