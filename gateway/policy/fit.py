"""What must fit together across settings: time-outs, addresses, places on disk, keys.

Checks over a draft, which read no file but follow links; sections that are missing from it are not
looked at (decisions, "Defaults", "Access", "Control API").
"""

from __future__ import annotations

from collections.abc import Iterator
from os.path import join, realpath
from pathlib import Path as FilePath
from typing import Final

from gateway.policy.auth_fit import fit_auth
from gateway.policy.complaint import Complaints
from gateway.policy.document import (
    Address,
    DatabaseSettings,
    FilesSettings,
    HttpSettings,
    Limits,
    MariadbSettings,
    PostgresSettings,
    S3Settings,
    ServerSettings,
    SqliteSettings,
    StoreSettings,
)
from gateway.policy.lines import Path
from gateway.policy.mariadb_fit import mariadb_misfits
from gateway.policy.origin_settings import origin_misfits
from gateway.policy.registry_settings import registry_misfits
from gateway.policy.shape import Draft
from gateway.policy.telemetry_settings import telemetry_misfits
from gateway.policy.tls_settings import tls_misfits
from gateway.policy.token_settings import token_key_misfits

RESERVED_MOUNTS: Final = ("/v1", "/metrics", "/healthz", "/readyz", "/ui")

# (key, key, the first may not be larger than the second divided by this, why)
_ORDER: Final = (
    (
        "registry_timeout_ms",
        "member_ttl_ms",
        2,
        "a renewal that times out must leave time for another one",
    ),
    ("registry_timeout_ms", "drain_timeout_ms", 1, "a drain asks the registry at least once"),
    ("lock_timeout_ms", "drain_timeout_ms", 1, "a drain can wait for a lock"),
    ("lock_timeout_ms", "statement_timeout_ms", 1, "a statement can wait for a lock"),
    (
        "upstream_connect_timeout_ms",
        "upstream_first_byte_timeout_ms",
        1,
        "the connection comes before the first byte",
    ),
    ("hold_back_bytes", "max_spool_bytes", 1, "what is held back is spooled"),
)
_RESET_AFTER_MS: Final = 1_000


def fit(draft: Draft, complaints: Complaints) -> None:
    """Check everything but the rules."""
    if draft.limits is not None:
        _limits(draft.limits, complaints)
    for store in draft.stores.values():
        _dialect_place(store, complaints)
        if isinstance(store, HttpSettings):
            for key, message in origin_misfits(store):
                complaints.add(("stores", store.name, key), message)
        if isinstance(store, MariadbSettings):
            for key, message in mariadb_misfits(store):
                complaints.add(("stores", store.name, key), message)
        if isinstance(store, DatabaseSettings) and not store.tables:
            path = ("stores", store.name, "tables")
            complaints.add(path, f"name a table at least: [stores.{store.name}.tables.jobs]")
    _mounts(draft, complaints)
    _listeners(draft, complaints)
    _apart(draft, complaints)
    fit_auth(draft, complaints)
    _open_stores(draft, complaints)
    _registry(draft, complaints)
    _stamp_keys(draft, complaints)
    _telemetry(draft, complaints)
    _tls(draft, complaints)
    _tokens(draft, complaints)


def _tokens(draft: Draft, complaints: Complaints) -> None:
    if draft.tokens is None:
        return
    for index, key, message in token_key_misfits(draft.tokens):
        complaints.add(("tokens", "keys", index, key), message)


def _limits(limits: Limits, complaints: Complaints) -> None:
    for small, large, times, why in _ORDER:
        value, bound = getattr(limits, small), getattr(limits, large)
        if value * times > bound:
            part = f"{large} / {times}" if times > 1 else large
            message = f"is {value}, expected at most {part} = {bound // times}: {why}"
            complaints.add(("limits", small), message)
    if limits.drain_timeout_ms <= _RESET_AFTER_MS:
        message = f"expected more than {_RESET_AFTER_MS}: a drain resets slow writes after that"
        complaints.add(("limits", "drain_timeout_ms"), message)


def _dialect_place(store: StoreSettings, complaints: Complaints) -> None:
    """http and rows live on a mount of the server, s3 on a listener of its own."""
    path: Path = ("stores", store.name)
    if not isinstance(store, FilesSettings):
        return
    if store.dialect == "s3":
        if store.mount is not None:
            message = "the s3 dialect needs a listener of its own: set listen, remove mount"
            complaints.add((*path, "mount"), message)
        if store.listen is None:
            message = 'is required for the s3 dialect: "127.0.0.1:9000", for example'
            complaints.add((*path, "listen"), message)
        if not store.buckets:
            message = 'is required for the s3 dialect: ["demo"], for example'
            complaints.add((*path, "buckets"), message)
        return
    if store.listen is not None:
        message = "the http dialect is mounted on server.listen: set mount, remove listen"
        complaints.add((*path, "listen"), message)
    if store.buckets:
        complaints.add((*path, "buckets"), 'only the s3 dialect has buckets (dialect = "s3")')


def _mounts(draft: Draft, complaints: Complaints) -> None:
    taken: list[tuple[str, str]] = []
    for name, store in draft.stores.items():
        if store.mount is None:
            continue
        path = ("stores", name, "mount")
        for reserved in RESERVED_MOUNTS:
            if _overlap(store.mount, reserved):
                complaints.add(
                    path, f'"{store.mount}" belongs to the gateway itself; choose another'
                )
        if any(segment in (".", "..") for segment in store.mount.split("/")):
            complaints.add(path, '"." and ".." are no path segments here')
        for other, mount in taken:
            if _overlap(store.mount, mount):
                complaints.add(path, f'"{store.mount}" overlaps "{mount}" of store {other}')
        taken.append((name, store.mount))


def _overlap(one: str, other: str) -> bool:
    one, other = one.rstrip("/"), other.rstrip("/")
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _addresses(draft: Draft) -> Iterator[tuple[Path, Address]]:
    if draft.server is not None:
        yield ("server", "listen"), draft.server.listen
    for name, store in draft.stores.items():
        if store.listen is not None:
            yield ("stores", name, "listen"), store.listen


def _listeners(draft: Draft, complaints: Complaints) -> None:
    taken: list[tuple[Path, Address]] = []
    for path, address in _addresses(draft):
        for other, used in taken:
            if address.port == used.port != 0 and _same_host(address, used):
                where = complaints.place(other)
                complaints.add(path, f"{address} is taken already by {used} at {where}")
        taken.append((path, address))


def _same_host(one: Address, other: Address) -> bool:
    return one.host == other.host or one.wildcard or other.wildcard


def _apart(draft: Draft, complaints: Complaints) -> None:
    """Two stores over one place would give one thing two scopes, and none may hold our state."""
    base = str(draft.server.data_dir) if draft.server is not None else "."
    taken: list[tuple[str, str]] = []
    for name, store in draft.stores.items():
        key, place = _upstream(store, base)
        for other, used in taken:
            nested = key in _ON_DISK or isinstance(store, HttpSettings)
            if place == used or (nested and _overlap(place, used)):
                message = f"reaches what store {other} reaches: one thing would have two scopes"
                complaints.add(("stores", name, key), message)
        taken.append((name, place))
        if key in _ON_DISK:
            _holds_no_state(draft, base, name, key, place, complaints)


_ON_DISK: Final = ("root", "path")


def _holds_no_state(
    draft: Draft, base: str, name: str, key: str, place: str, complaints: Complaints
) -> None:
    """A store's place neither is nor holds what the gateway keeps for itself."""
    state = [(_placed(base, "stamp-key"), "the key of the stamps")]
    if draft.admin is not None:
        state.append((_placed(base, draft.admin.key_file), "the admin key"))
        state.append((_placed(base, draft.admin.audit_file), "the audit log"))
    if draft.registry is not None and draft.registry.type == "sqlite":
        marks = "the registry's file; marks must outlive the data they protect"
        state.append((_placed(base, draft.registry.path), marks))
    for file, what in state:
        if place == file:
            complaints.add(("stores", name, key), f"is {what}")
        elif _overlap(place, file):
            message = f"holds {what}: give the store a directory of its own"
            complaints.add(("stores", name, key), message)


def _placed(base: str, path: FilePath | str) -> str:
    """Where a path of the document really lies, links resolved (realpath(3))."""
    return realpath(join(base, path))


def _upstream(store: StoreSettings, base: str) -> tuple[str, str]:
    """The key that says where a store's data lies, and a text that is equal for one place."""
    match store:
        case FilesSettings():
            return "root", _placed(base, store.root)
        case SqliteSettings():
            return "path", _placed(base, store.path)
        case PostgresSettings():
            return "dsn", f"{store.dsn} {store.schema}"
        case MariadbSettings():
            return "dsn", store.dsn.partition("://")[2].rpartition("@")[2]
        case S3Settings():
            return "endpoint", f"{store.endpoint.rstrip('/')} {store.access_key_id}"
        case HttpSettings():
            return "endpoint", f"{store.endpoint.rstrip('/')}/"


def _telemetry(draft: Draft, complaints: Complaints) -> None:
    if draft.telemetry is not None:
        for key, message in telemetry_misfits(draft.telemetry):
            complaints.add(("telemetry", key), message)


def _registry(draft: Draft, complaints: Complaints) -> None:
    if draft.registry is not None:
        for key, message in registry_misfits(draft.registry):
            complaints.add(("registry", key), message)


def _stamp_keys(draft: Draft, complaints: Complaints) -> None:
    """Replicas that share a registry must recognise each other's stamps."""
    if draft.registry is None or not draft.registry.beyond_one_machine:
        return
    for name, store in draft.stores.items():
        if isinstance(store, S3Settings) and store.stamp_key is None:
            message = (
                f'is required with registry.type = "{draft.registry.type}": replicas recognise '
                'each other\'s writes by it; set stamp_key = "${NAME}" with one secret for all, '
                "or, after one gateway on a local registry, what its data_dir has in stamp-key"
            )
            complaints.add(("stores", name, "stamp_key"), message)


def _tls(draft: Draft, complaints: Complaints) -> None:
    if draft.tls is not None:
        for key, message in tls_misfits(draft.tls):
            complaints.add(("tls", key), message)


def _open_stores(draft: Draft, complaints: Complaints) -> None:
    """A store without a key is open: on loopback, or where the policy says that it is meant."""
    if draft.server is None or draft.auth is None or draft.server.auth == "none":
        return
    for name, store in draft.stores.items():
        if draft.auth.covers(name, store.dialect):
            continue
        _open_store(store, draft.server, complaints)


def _open_store(store: StoreSettings, server: ServerSettings, complaints: Complaints) -> None:
    path: Path = ("stores", store.name)
    address = store.listen or server.listen
    way_out = f'add [[auth.keys]] with stores = ["{store.name}"], or set server.auth = "none"'
    if server.auth == "keys":
        complaints.add(path, f'no key covers it, and server.auth is "keys": {way_out}')
    elif not address.loopback:
        complaints.add(path, f"would be open to everyone who reaches {address}: {way_out}")
    elif store.dialect == "s3":
        complaints.add(path, f"s3 clients sign what they send, and no key covers it: {way_out}")
