"""Which keys a new policy adds, takes away or changes: by their names, never by what they hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from gateway.policy.document import PolicySet


def changed_keys(old: PolicySet, new: PolicySet) -> tuple[str, ...]:
    """Each key, issuer and signer of tokens that differs."""
    return (
        *_changed("auth.keys", "id", old.auth.keys, new.auth.keys),
        *_changed("auth.issuers", "issuer", old.auth.issuers, new.auth.issuers),
        *_changed("admin.keys", "id", old.admin.keys, new.admin.keys),
        *_changed("tokens.keys", "id", old.tokens.keys, new.tokens.keys),
    )


def _changed(list_: str, name: str, old: Iterable[Any], new: Iterable[Any]) -> Iterable[str]:
    before = {getattr(key, name): key for key in old}
    after = {getattr(key, name): key for key in new}
    for key in (*before, *(key for key in after if key not in before)):
        if key not in after:
            yield f"{list_} {key} went"
        elif key not in before:
            yield f"{list_} {key} came"
        elif before[key] != after[key]:
            names = (f.name for f in fields(before[key]))
            keys = [n for n in names if getattr(before[key], n) != getattr(after[key], n)]
            yield f"{list_} {key} has another {' and '.join(keys)}"
