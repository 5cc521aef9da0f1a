"""From policy files to a checked PolicySet, or to every mistake in them at once."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from gateway.policy.auth_fit import with_secrets
from gateway.policy.complaint import Complaints, Mistake, Place, PolicyError
from gateway.policy.document import PolicySet, RuleSettings, S3Settings, StoreSettings
from gateway.policy.fit import fit
from gateway.policy.reachable import check_rules
from gateway.policy.rescope import derivation
from gateway.policy.rule_settings import Mode
from gateway.policy.shape import Draft, shape
from gateway.policy.source import Source, interpolate, merge, override, parse, read_file

__all__ = ["Mistake", "PolicyError", "load", "loads"]


def load(
    paths: Sequence[Path],
    *,
    environ: Mapping[str, str],
    overrides: Sequence[str] = (),
    read: Callable[[Path], str] = read_file,
) -> PolicySet:
    """Read policy files as one policy. `overrides` are `section.key=value` texts.

    `environ` is what `${NAME}` is looked up in; `read` gives the text of a file.
    Raises `PolicyError` with every mistake found.
    """
    source = Source()
    mistakes: list[Mistake] = []
    for path in paths:
        try:
            merge(source, parse(read(path), str(path)))
        except PolicyError as error:
            mistakes += error.mistakes
    if mistakes:
        raise PolicyError(mistakes)
    for assignment in overrides:
        override(source, assignment)
    return replace(_checked(source, environ, tuple(paths)), overrides=tuple(overrides))


def loads(
    text: str, *, name: str = "policy", environ: Mapping[str, str] = MappingProxyType({})
) -> PolicySet:
    """Read a policy from a text. Raises `PolicyError`."""
    return _checked(parse(text, name), environ, (Path(name),))


def _checked(source: Source, environ: Mapping[str, str], paths: tuple[Path, ...]) -> PolicySet:
    complaints = Complaints(source.places, Place(str(paths[0]) if paths else "policy"))
    interpolate(source, environ, complaints)
    draft = shape(source, complaints)
    with_secrets(draft, complaints)
    fit(draft, complaints)
    check_rules(draft, complaints)
    if complaints.mistakes:
        raise PolicyError(complaints.mistakes)
    places = {
        (index, position): str(complaints.place(("auth", "keys", index, "scopes", position)))
        for index, key in enumerate(draft.auth.keys if draft.auth else ())
        for position in range(len(key.scopes or ()))
    }
    return replace(_policy_set(draft, paths), scope_places=MappingProxyType(places))


def _policy_set(draft: Draft, paths: tuple[Path, ...]) -> PolicySet:
    """Put a draft without mistakes together; every section is there."""
    assert draft.server is not None
    assert draft.registry is not None
    assert draft.admin is not None
    assert draft.limits is not None
    assert draft.telemetry is not None
    assert draft.auth is not None
    assert draft.tls is not None
    assert draft.tokens is not None
    rules = tuple(draft.rules.values())
    return PolicySet(
        server=draft.server,
        registry=draft.registry,
        admin=draft.admin,
        limits=draft.limits,
        auth=draft.auth,
        tls=draft.tls,
        tokens=draft.tokens,
        telemetry=draft.telemetry,
        stores=MappingProxyType(draft.stores),
        rules=rules,
        sources=paths,
        digest=scope_digest(draft.stores, rules),
    )


def scope_digest(stores: Mapping[str, StoreSettings], rules: Sequence[RuleSettings]) -> str:
    """Digest what derives scopes: two policies of one digest give every resource one scope.

    A rule in shadow derives the scope that it will enforce; one that is off derives none. Where a
    store's data lie is left out: replicas may reach the same data by other paths. The stamp keys
    are in: a replica with another one would not know the writes of the others.
    """
    deriving = derivation(stores, rules)
    deriving["stores"] = {name: store[:3] for name, store in deriving["stores"].items()}
    stamps = {
        store.name: hmac.digest(store.stamp_key.encode(), b"whose stamps", "sha256").hex()
        for store in stores.values()
        if isinstance(store, S3Settings) and store.stamp_key is not None
    }
    if stamps:
        deriving["stamps"] = stamps
    deriving["rules"] = [[*rule, mode == Mode.OFF.value] for *rule, mode in deriving["rules"]]
    text = json.dumps(deriving, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
