"""What is promised for a scope, and what is not (wire contract, "What is promised").

A scope over several stores has the promise of its weakest one, and the gaps of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from gateway.policy.document import (
    FilesSettings,
    HttpSettings,
    MariadbSettings,
    PostgresSettings,
    RegistrySettings,
    S3Settings,
    SqliteSettings,
    StoreSettings,
)

_SIDE_EFFECTS: Final = (
    "triggers and foreign-key actions of the database that change rows of other scopes; "
    "give tables that change together one scope"
)

_RESET: Final = "tokens from before a reset of the scope: they carry no era"


@dataclass(frozen=True, slots=True)
class Promise:
    """One line of promise, and a line for each thing that it does not cover."""

    text: str
    not_covered: tuple[str, ...]


def promise(stores: Sequence[StoreSettings], registry: RegistrySettings) -> Promise:
    """The promise of a scope that can be met in these stores (at least one)."""
    weakest = min(stores, key=_strength)
    text = _text(weakest)
    if len(stores) > 1:
        names = ", ".join(store.name for store in stores)
        text += f" (the scope spans {names}; this is the promise of the weakest, {weakest.name})"
    gaps = ["writers that bypass the gateway"]
    for store in stores:
        gaps += _gaps(store)
    gaps += [*_registry_gaps(registry), _RESET]
    return Promise(text, tuple(dict.fromkeys(gaps)))


def _strength(store: StoreSettings) -> int:
    match store:
        case S3Settings(conditions="none") | HttpSettings(conditions="none"):
            return 0
        case S3Settings() | HttpSettings():
            return 1
        case _:
            return 2


def _text(store: StoreSettings) -> str:
    match store:
        case FilesSettings():
            return "exact: the last check and the rename happen under the scope's file lock"
        case SqliteSettings():
            return "exact, whatever crashes: the mark is checked in the transaction that writes"
        case PostgresSettings() | MariadbSettings():
            return (
                "exact, whatever crashes, as long as the database loses no commit: the mark is "
                "checked in the transaction that writes"
            )
        case S3Settings(conditions="none") | HttpSettings(conditions="none"):
            return f"exact while a write takes effect within {_settle(store)} of its last byte"
        case S3Settings():
            return (
                f"exact while a write takes effect within {_settle(store)} of its last byte; later "
                "than that, objects that the newer holder has rewritten with other bytes are safe"
            )
        case HttpSettings():
            return (
                f"exact while a write takes effect within {_settle(store)} of its last byte; later "
                "than that, what the newer holder has changed by PUT, PATCH or DELETE is safe"
            )


def _settle(store: S3Settings | HttpSettings) -> str:
    return f"settle_ms = {store.settle_ms}"


def _gaps(store: StoreSettings) -> list[str]:
    match store:
        case FilesSettings():
            return ["programs that change the directory without the gateway's locks"]
        case SqliteSettings():
            return [_SIDE_EFFECTS]
        case PostgresSettings():
            return [
                _SIDE_EFFECTS,
                "a fail-over to a standby that lacks commits; make it synchronous",
            ]
        case MariadbSettings():
            return [_SIDE_EFFECTS, "a fail-over to a replica that lacks commits"]
        case S3Settings() | HttpSettings():
            gaps = [
                f"effects later than {_settle(store)} after the last byte of a write",
                "a gateway process that is frozen between its last check and its last byte for "
                f"longer than {_settle(store)}",
            ]
            own = _origin_gaps(store) if isinstance(store, HttpSettings) else _server_gaps(store)
            return gaps + own


def _server_gaps(store: S3Settings) -> list[str]:
    gaps = []
    if store.conditions == "etag":
        gaps.append("ETags that repeat: an S3 ETag is a hash of the content")
    if store.probe_bucket is None:
        gaps.append("a server that keeps half a body; set probe_bucket to have it found out")
    return gaps


def _origin_gaps(store: HttpSettings) -> list[str]:
    gaps = [
        "what the origin changes at other paths than the one asked for; give paths that change "
        "together one scope",
        "an origin that keeps half a body: one that acts on it before it is complete",
        "work that the origin does after its answer (202 is reported as unknown)",
    ]
    if store.conditions == "etag" and store.probe_path is None:
        gaps.append("an origin that does not honour If-Match; set probe_path to prove that it does")
    return gaps


def _registry_gaps(registry: RegistrySettings) -> list[str]:
    restored = "a registry restored from a backup; restore it with the data, then seal every scope"
    match registry.type:
        case "memory":
            return ["a restart: the memory registry forgets its marks"]
        case "sqlite":
            return [restored]
        case "redis":
            lossy = (
                "a Redis that loses acknowledged writes, in a crash (appendfsync always keeps "
                "them) or in a fail-over (registry.replicas), or that runs with two primaries"
            )
        case "postgres":
            lossy = (
                "a registry without durability: fsync = off, or a fail-over to a standby that "
                "lacks commits"
            )
        case "etcd":
            lossy = "a registry without durability: etcd with --unsafe-no-fsync"
        case _:
            assert_never(registry.type)
    return [lossy, restored]
