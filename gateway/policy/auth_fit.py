"""What must fit in `[auth]`: one secret a key, names that exist, patterns that can be read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Final

from gateway.model.scope_pattern import scope_pattern
from gateway.model.worker import secret_digest
from gateway.policy.auth_settings import ADMIN, METHODS, SECRET, KeySettings
from gateway.policy.complaint import Complaints, nearest
from gateway.policy.issuer_settings import issuer_misfits
from gateway.policy.lines import Path
from gateway.policy.secret_source import UnreadableSecret, read_secret
from gateway.policy.shape import Draft

_SECRETS: Final = ("secret_hash", "secret", "secret_file")


def with_secrets(draft: Draft, complaints: Complaints) -> None:
    """Put the secrets that files hold into the draft's keys; what cannot be read is told."""
    if draft.auth is None or draft.server is None:
        return
    base = draft.server.data_dir
    keys = []
    for index, key in enumerate(draft.auth.keys):
        path = ("auth", "keys", index, "secret_file")
        filed = key.secret_file is not None and key.secret is None
        keys.append(_read(key, base, path, complaints) if filed else key)
    draft.auth = replace(draft.auth, keys=tuple(keys))


def _read(key: KeySettings, base: FilePath, path: Path, complaints: Complaints) -> KeySettings:
    assert key.secret_file is not None
    try:
        return replace(key, secret=read_secret(base / key.secret_file, SECRET))
    except UnreadableSecret as wrong:
        complaints.add(path, str(wrong))
        return key


def fit_auth(draft: Draft, complaints: Complaints) -> None:
    """Check every key of `[auth]`."""
    keys = () if draft.auth is None else draft.auth.keys
    ids: set[str] = set()
    digests: set[bytes] = set()
    for index, key in enumerate(keys):
        path = ("auth", "keys", index)
        if key.id in ids:
            complaints.add((*path, "id"), f'"{key.id}" names another key already')
        ids.add(key.id)
        _secret(key, digests, path, complaints)
        _stores(key, draft, path, complaints)
        _methods(key, path, complaints)
        _scopes(key.scopes, draft.store_names, path, complaints)
    _admins(draft, ids, digests, complaints)
    _issuers(draft, complaints)


def _admins(draft: Draft, ids: set[str], digests: set[bytes], complaints: Complaints) -> None:
    """Names that the audit log can tell apart; no worker's key opens the control API."""
    ids = {*ids, ADMIN}
    for index, key in enumerate(() if draft.admin is None else draft.admin.keys):
        path: Path = ("admin", "keys", index)
        if key.id in ids:
            complaints.add((*path, "id"), f'"{key.id}" names another key already')
        ids.add(key.id)
        digest = bytes.fromhex(key.secret_hash.removeprefix("sha256:"))
        if digest in digests:
            complaints.add((*path, "secret_hash"), "is another key's already: make one of its own")
        digests.add(digest)


def _issuers(draft: Draft, complaints: Complaints) -> None:
    named: set[str] = set()
    for index, issuer in enumerate(() if draft.auth is None else draft.auth.issuers):
        path: Path = ("auth", "issuers", index)
        if issuer.issuer in named:
            complaints.add((*path, "issuer"), "is another issuer's already: give it one table")
        named.add(issuer.issuer)
        for key, message in issuer_misfits(issuer):
            complaints.add((*path, key), message)
        for position, name in enumerate(issuer.stores or ()):
            here = (*path, "stores", position)
            if name not in draft.store_names:
                hint = nearest(name, draft.store_names)
                complaints.add(here, f'there is no store "{name}"', hint)
            elif name in draft.stores and draft.stores[name].dialect == "s3":
                message = f"store {name} speaks s3, which has no bearer tokens: give it a key"
                complaints.add(here, message)
        _some(issuer.stores, "stores", path, complaints)


def _secret(key: KeySettings, digests: set[bytes], path: Path, complaints: Complaints) -> None:
    """Exactly one, and not another key's."""
    given = [name for name in _SECRETS if getattr(key, name) is not None]
    if key.secret_file is not None and "secret" in given:
        given.remove("secret")  # it was read from the file
    if not given:
        message = "is required (or secret, or secret_file): `fencegate keys new` makes one"
        complaints.add((*path, "secret_hash"), message)
        return
    if len(given) > 1:
        complaints.add((*path, given[1]), f"is set beside {given[0]}: keep one of them")
        return
    if key.secret is None and key.secret_hash is None:
        return
    hashed = (key.secret_hash or "").removeprefix("sha256:")
    digest = secret_digest(key.secret) if key.secret is not None else bytes.fromhex(hashed)
    if digest in digests:
        complaints.add((*path, given[0]), "is another key's already: who sent it, then?")
    digests.add(digest)


def _stores(key: KeySettings, draft: Draft, path: Path, complaints: Complaints) -> None:
    for position, name in enumerate(key.stores or ()):
        if name not in draft.store_names:
            hint = nearest(name, draft.store_names)
            complaints.add((*path, "stores", position), f'there is no store "{name}"', hint)
    _some(key.stores, "stores", path, complaints)
    if key.secret_hash is None:
        return
    for name, store in draft.stores.items():
        if store.dialect == "s3" and key.covers(name):
            message = (
                f"store {name} speaks s3, whose signatures need the secret itself: "
                'use secret = "${NAME}" or secret_file, or list the other stores in `stores`'
            )
            complaints.add((*path, "secret_hash"), message)


def _methods(key: KeySettings, path: Path, complaints: Complaints) -> None:
    for position, name in enumerate(key.methods or ()):
        if name not in METHODS:
            hint = nearest(name.upper(), METHODS)
            complaints.add((*path, "methods", position), f'there is no method "{name}"', hint)
    _some(key.methods, "methods", path, complaints)


def _scopes(
    scopes: tuple[str, ...] | None, stores: Iterable[str], path: Path, complaints: Complaints
) -> None:
    for position, text in enumerate(scopes or ()):
        here = (*path, "scopes", position)
        try:
            scope_pattern(text)
        except ValueError as wrong:
            complaints.add(here, str(wrong))
            continue
        owner, colon, _ = text.partition(":")
        if colon and "{" not in owner and owner not in stores:
            complaints.add(here, f'there is no store "{owner}"', nearest(owner, stores))
        elif text.startswith("/"):
            complaints.add(here, 'a scope does not start with "/"; see `fencegate explain`')
    _some(scopes, "scopes", path, complaints)


def _some(names: tuple[str, ...] | None, key: str, path: Path, complaints: Complaints) -> None:
    if names == ():
        complaints.add((*path, key), "covers nothing; name one, or leave it away for all")
