"""The stamp: which token wrote an object, kept in the object's metadata (decisions, "Stamps")."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

METADATA_NAME: Final = "fencegate"
_MAC_CHARS: Final = 32


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who wrote an object last: era and token of its scope, and the id of that one write."""

    era: int
    token: int
    write_id: str


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_MAC_CHARS]


def _mac(secret: bytes, body: str) -> str:
    return hmac.new(secret, body.encode(), hashlib.sha256).hexdigest()[:_MAC_CHARS]


def seal_stamp(stamp: Stamp, *, scope: str, resource: str, secret: bytes) -> str:
    """Write `v1.<scope hash>.<resource hash>.<era>.<token>.<write id>.<mac>`."""
    where = f"{_digest(scope)}.{_digest(resource)}"
    body = f"v1.{where}.{stamp.era}.{stamp.token}.{stamp.write_id}"
    return f"{body}.{_mac(secret, body)}"


def read_stamp(text: str | None, *, scope: str, resource: str, secret: bytes) -> Stamp | None:
    """Read a stamp back; None when any part does not match.

    A copy, a replication or an object of another scope carries a stamp that says nothing about
    this resource in this scope, and a forged one has no valid mac.
    """
    if text is None:
        return None
    parts = text.split(".")
    if len(parts) != 7 or parts[0] != "v1":
        return None
    body = ".".join(parts[:6])
    if not hmac.compare_digest(parts[6].encode(), _mac(secret, body).encode()):
        return None
    if parts[1] != _digest(scope) or parts[2] != _digest(resource):
        return None
    return Stamp(era=int(parts[3]), token=int(parts[4]), write_id=parts[5])
