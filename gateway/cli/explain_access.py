"""Whom a store lets in: what `explain` says of the key that a request shows, or lacks."""

from __future__ import annotations

import re
from typing import Final

from gateway.dialects.bearer import authenticate
from gateway.model.problem import Code, Problem
from gateway.model.worker import Grant, WorkerKey
from gateway.policy.document import PolicySet, StoreSettings
from gateway.ports.dialect import RawRequest

_CREDENTIAL: Final = re.compile(rb"AWS4-HMAC-SHA256\b.*?\bCredential=([^/,\s]+)/")
_JWT: Final = re.compile(rb"(?i:bearer) +[^.\s]+\.[^.\s]+\.[^.\s]+")


def admitted(
    policy: PolicySet, store: StoreSettings, request: RawRequest
) -> tuple[str, Grant | None] | Problem:
    """What to say of a request's key, and what it grants; or the refusal.

    Signatures are not verified: neither their secret nor an issuer's keys are asked for here.
    """
    fields = request.values(b"authorization")
    if not policy.covered(store.name):
        return ("none needed: the store is open" if fields else ""), None
    if not fields:
        return _needed(policy, store), None
    keys = {key.id: key.worker_key() for key in policy.keys}
    if store.dialect == "s3":
        return _signed(fields[0], keys, store, request.arrived_s)
    grant = authenticate(request, keys, store.name)
    if isinstance(grant, Problem):
        unverified = policy.auth.issuers and grant.code is Code.UNAUTHENTICATED
        if unverified and len(fields) == 1 and _JWT.fullmatch(fields[0]):
            return "a token of an issuer, which is not verified here", None
        return grant
    return ("" if grant is None else f"{grant.worker}, which covers the store"), grant


def _needed(policy: PolicySet, store: StoreSettings) -> str:
    names = [key.id for key in policy.worker_keys(store.name)]
    issuers = [
        issuer.issuer
        for issuer in policy.auth.issuers
        if store.dialect != "s3" and (issuer.stores is None or store.name in issuer.stores)
    ]
    whose = f"a key of {', '.join(names)}" if names else ""
    tokens = f"a token of {', '.join(issuers)}" if issuers else ""
    either = " or ".join(text for text in (whose, tokens) if text) or "a key, and there is none yet"
    status = "403" if store.dialect == "s3" else "401 unauthenticated"
    how = "a signature" if store.dialect == "s3" else '-H "Authorization: Bearer ..."'
    return f"needs {either}: {status} without; what follows is for one that covers it ({how})"


def _signed(
    field: bytes, keys: dict[str, WorkerKey], store: StoreSettings, now_s: float
) -> tuple[str, Grant | None] | Problem:
    found = _CREDENTIAL.match(field)
    key = None if found is None else keys.get(found[1].decode("latin-1"))
    if found is None:
        return Problem(Code.ACCESS_DENIED, "this Authorization is no Signature Version 4")
    if key is None:
        return Problem(Code.ACCESS_DENIED, "this access key id is not known; see [[auth.keys]]")
    if key.grant.expired(now_s):
        return Problem(Code.ACCESS_DENIED, f"the key {key.id} has expired")
    if not key.may_use(store.name):
        text = f"the key {key.id} does not cover the store {store.name}; see its `stores`"
        return Problem(Code.ACCESS_DENIED, text)
    return f"{key.id}, which covers the store; its signature is not verified here", key.grant
