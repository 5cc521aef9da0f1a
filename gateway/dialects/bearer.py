"""Bearer keys of workers, for the dialects that speak plain HTTP (RFC 6750, section 2.1)."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from gateway.model.problem import Code, Problem
from gateway.model.worker import WorkerKey

_SCHEME: Final = b"bearer "


def authenticate(
    fields: list[bytes], keys: Mapping[str, WorkerKey] | None, store: str
) -> str | Problem | None:
    """Tell whose key the request's Authorization fields carry.

    Returns the key's id, or None where authentication is off (`keys` is None). An unknown key is
    401, one that does not cover the store 403. Every key is compared, in constant time each, so
    that the time of an answer tells nothing about any of them.
    """
    if keys is None:
        return None
    if len(fields) > 1:
        return Problem(Code.REQUEST_MALFORMED, "send exactly one Authorization field")
    secret = _secret(fields[0]) if fields else None
    if secret is None:
        return Problem(
            Code.UNAUTHENTICATED, "send the worker's key as Authorization: Bearer <secret>"
        )
    found: WorkerKey | None = None
    for key in keys.values():
        if hmac.compare_digest(key.secret.encode(), secret):
            found = key
    if found is None:
        return Problem(Code.UNAUTHENTICATED, "this key is not known; see [[auth.keys]]")
    if not found.may_use(store):
        text = f"the key {found.id} does not cover the store {store}; see its `stores`"
        return Problem(Code.ACCESS_DENIED, text)
    return found.id


def _secret(field: bytes) -> bytes | None:
    if field[: len(_SCHEME)].lower() != _SCHEME:
        return None
    return field[len(_SCHEME) :].strip(b" ") or None
