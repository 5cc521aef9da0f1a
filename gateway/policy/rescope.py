"""What a new policy changes under way: the derivation of scopes, settings that need a start, rules.

Theory. A mark fences whoever is compared with it. A policy that derives another scope for a
resource compares its writers with another mark, which the holders of old tokens have never raised:
that un-fences in silence (decisions, "Reload"). A rule that begins to fence takes nothing away.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import zip_longest
from typing import Any, Final, assert_never
from urllib.parse import parse_qs, urlsplit

from gateway.policy.document import PolicySet, RuleSettings, StoreSettings
from gateway.policy.origin_settings import HttpSettings
from gateway.policy.rule_settings import Mode
from gateway.policy.store_settings import (
    FilesSettings,
    MariadbSettings,
    PostgresSettings,
    S3Settings,
    SqliteSettings,
)

Derivation = Mapping[str, Any]
"""All that scopes are derived from, as JSON values."""

_LIVE: Final = frozenset(
    {"rules", "auth", "tokens", "sources", "digest", "overrides", "scope_places"}
)
_STORE: Final = ("type", "dialect", "mount", "place")
_RULE: Final = ("store", "match", "scope", "mode")


def derivation(
    stores: Mapping[str, StoreSettings], rules: Sequence[RuleSettings]
) -> dict[str, Any]:
    """What two policies must have in common to give every resource one scope.

    A scope without a rule carries its store's name, so which data a name stands for is part of it.
    """
    return {
        "stores": {s.name: [s.type, s.dialect, s.mount, _place(s)] for s in stores.values()},
        "rules": [[r.store, r.match, r.scope, r.mode.value] for r in rules],
    }


def rescoped(old: Derivation, new: Derivation) -> tuple[str, ...]:
    """The changes by which a resource may get another scope, or none; empty: no resource does."""
    found = []
    for name, store in old["stores"].items():
        other = new["stores"].get(name)
        if other is None:
            found.append(f"stores.{name} went")
            continue
        # What was kept by a release that knew no places has none to compare.
        keys = [k for k, b, a in zip(_STORE, store, other, strict=False) if b != a]
        if keys:
            found.append(f"stores.{name} is another store than before: {' and '.join(keys)}")
    for index, (before, after) in enumerate(zip_longest(old["rules"], new["rules"])):
        if before is None or after is None:
            found.append(f"rules[{index}] {'came' if before is None else 'went'}")
        elif before[:3] != after[:3] or not _keeps_fencing(before[3], after[3]):
            keys = [k for k, b, a in zip(_RULE, before, after, strict=True) if b != a]
            found.append(f"rules[{index}] has another {' and '.join(keys)}")
    return tuple(found)


def _place(store: StoreSettings) -> str:
    """Which data a store holds, as a digest: kept in a file, where no credential may lie."""
    match store:
        case FilesSettings():
            place = str(store.root)
        case SqliteSettings():
            place = str(store.path)
        case PostgresSettings():
            place = f"{_database(store.dsn)} {store.schema}"
        case MariadbSettings():
            place = _database(store.dsn)
        case S3Settings() | HttpSettings():
            place = store.endpoint.rstrip("/")
        case _:
            assert_never(store)
    return hashlib.sha256(place.encode()).hexdigest()


def _database(dsn: str) -> str:
    """The server and the database of a connection string, whoever connects and how."""
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    named = [f"{key}={query[key]}" for key in ("host", "port", "dbname") if key in query]
    return " ".join((parts.netloc.rpartition("@")[2], parts.path, *named))


def _keeps_fencing(before: str, after: str) -> bool:
    return after in (before, Mode.ENFORCE.value)


def needs_start(old: PolicySet, new: PolicySet) -> tuple[str, ...]:
    """The sections that differ, and that a running gateway cannot exchange."""
    new = replace(new, admin=replace(new.admin, keys=old.admin.keys))  # admins' keys are live too
    names = (f.name for f in fields(PolicySet) if f.name not in _LIVE)
    return tuple(name for name in names if getattr(old, name) != getattr(new, name))


def changed_rules(old: PolicySet, new: PolicySet) -> tuple[str, ...]:
    """Each rule that differs, with its place."""
    found = []
    for index, (before, after) in enumerate(zip_longest(old.rules, new.rules)):
        if after is None:
            found.append(f"rules[{index}] went")
        elif before is None:
            found.append(f"rules[{index}] came ({after.where})")
        elif before != after:
            names = (f.name for f in fields(RuleSettings) if f.compare)
            keys = [name for name in names if getattr(before, name) != getattr(after, name)]
            found.append(f"rules[{index}] has another {' and '.join(keys)} ({after.where})")
    return tuple(found)
