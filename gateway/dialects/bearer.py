"""Bearer tokens of workers: who sends a request (RFC 6750 section 2.1; decisions, "Access")."""

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
    """Find the worker of a request by its Authorization fields.

    `keys` None means that the store is open: anybody may write, and the worker has no name.
    Returns the id of the key, or 401 without a valid token, or 403 for a key of other stores.
    Every key is compared, in constant time, so that the time taken tells nothing.
    """
    if keys is None:
        return None
    if len(fields) != 1 or not fields[0].lower().startswith(_SCHEME):
        message = "send exactly one field Authorization: Bearer <the worker key's secret>"
        return Problem(Code.UNAUTHENTICATED, message)
    sent = fields[0][len(_SCHEME) :].strip(b" ")
    found: WorkerKey | None = None
    for key in keys.values():
        if hmac.compare_digest(sent, key.secret.encode()):
            found = key
    if found is None:
        return Problem(Code.UNAUTHENTICATED, "the bearer token is none of the configured keys")
    if not found.may_use(store):
        message = f'key "{found.id}" may not use the store "{store}"; add it to the key\'s stores'
        return Problem(Code.ACCESS_DENIED, message)
    return found.id
