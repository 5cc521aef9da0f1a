"""Rules that can never match, or never do what they say (decisions, "Scope names").

A rule is dead when no store has such paths, or when earlier rules take all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gateway.policy.complaint import Complaints, nearest
from gateway.policy.decide import fits_rows, names_table, rows_depth
from gateway.policy.document import (
    FilesSettings,
    Mode,
    OnMissingToken,
    Reads,
    RuleSettings,
    StoreSettings,
)
from gateway.policy.lines import Path
from gateway.policy.pattern import (
    Capture,
    Literal,
    Pattern,
    PatternError,
    Segment,
    covers,
    parse_pattern,
    parse_template,
)
from gateway.policy.rule_settings import KNOWN_METHODS
from gateway.policy.shape import Draft


@dataclass(frozen=True, slots=True)
class _Live:
    """A rule whose pattern is sound, with the stores it can match in."""

    rule: RuleSettings
    pattern: Pattern
    stores: frozenset[str]


def check_rules(draft: Draft, complaints: Complaints) -> None:
    """Complain of every rule that is malformed, dead, or contradicts itself."""
    earlier: list[_Live] = []
    for index, rule in draft.rules.items():
        path: Path = ("rules", index)
        _contradictions(rule, path, draft, complaints)
        live = _live(rule, path, draft, complaints)
        if live is not None:
            _shadowed(live, earlier, path, draft, complaints)
            earlier.append(live)


def _contradictions(rule: RuleSettings, path: Path, draft: Draft, complaints: Complaints) -> None:
    if rule.mode is Mode.OFF:
        for key, default in _NOT_WITH_OFF.items():
            if getattr(rule, key) != default:
                message = 'has no effect with mode = "off"; remove one of the two'
                complaints.add((*path, key), message)
    if rule.signed and draft.tokens is not None and not draft.tokens.keys:
        message = "needs a key to check signatures with: [[tokens.keys]], see `fencegate tokens`"
        complaints.add((*path, "signed"), message)
    _methods(rule, path, complaints)


_NOT_WITH_OFF: Final[Mapping[str, object]] = MappingProxyType(
    {
        "scope": None,
        "reads": Reads.CHECK,
        "on_missing_token": OnMissingToken.REFUSE,
        "max_jump": None,
        "signed": False,
    }
)


def _methods(rule: RuleSettings, path: Path, complaints: Complaints) -> None:
    if rule.methods == ():
        message = "lets nothing through; name a method, or leave it away for all"
        complaints.add((*path, "methods"), message)
    for index, method in enumerate(rule.methods or ()):
        if method in KNOWN_METHODS:
            continue
        upper = method.upper()
        hint = f"write {upper}" if upper in KNOWN_METHODS else nearest(upper, KNOWN_METHODS)
        complaints.add((*path, "methods", index), f'"{method}" is no method that can pass', hint)


def _live(rule: RuleSettings, path: Path, draft: Draft, complaints: Complaints) -> _Live | None:
    if rule.store is not None and rule.store not in draft.store_names:
        hint = nearest(rule.store, draft.store_names)
        complaints.add((*path, "store"), f'there is no store "{rule.store}"', hint)
        return None
    try:
        pattern = parse_pattern(rule.match)
    except PatternError as error:
        complaints.add((*path, "match"), str(error))
        return None
    if rule.scope is not None:
        try:
            parse_template(rule.scope, pattern)
        except PatternError as error:
            complaints.add((*path, "scope"), str(error))
    candidates = [s for s in draft.stores.values() if rule.store in (None, s.name)]
    stores = frozenset(s.name for s in candidates if _can_match(pattern, s))
    unseen = draft.store_names - draft.stores.keys()
    if unseen and rule.store in (None, *unseen):
        return _Live(rule, pattern, stores)
    if not stores:
        complaints.add((*path, "match"), *_no_such_path(pattern, candidates))
        return None
    return _Live(rule, pattern, stores)


def _can_match(pattern: Pattern, store: StoreSettings) -> bool:
    """True when a store can have a path that the pattern matches."""
    if store.mount is not None:
        mount = parse_pattern(store.mount).segments
        if not _can_begin_with(pattern, mount):
            return False
        depth = rows_depth(store)
        return depth is None or (fits_rows(pattern, depth) and _names_known_table(pattern, store))
    first = pattern.segments[0]
    if isinstance(store, FilesSettings) and isinstance(first, Literal):
        return first.text in store.buckets
    return True


def _can_begin_with(pattern: Pattern, mount: tuple[Segment, ...]) -> bool:
    """True when the pattern matches something below the mount, not just the mount itself."""
    for index, segment in enumerate(mount):
        if index >= len(pattern.segments):
            return False
        own = pattern.segments[index]
        if isinstance(own, Capture) and own.rest:
            return True
        if isinstance(own, Literal) and own != segment:
            return False
    return len(pattern.segments) > len(mount)


def _names_known_table(pattern: Pattern, store: StoreSettings) -> bool:
    depth = rows_depth(store)
    tables = getattr(store, "tables", {})
    if depth is None or len(pattern.segments) < depth:
        return True
    table = pattern.segments[depth - 1]
    return not isinstance(table, Literal) or table.text in tables


def _no_such_path(pattern: Pattern, stores: list[StoreSettings]) -> tuple[str, str | None]:
    """Say why a rule is dead, and which beginning was probably meant."""
    beginnings: list[str] = []
    for store in stores:
        if store.mount is None:
            buckets = store.buckets if isinstance(store, FilesSettings) else ()
            beginnings += [f"/{bucket}" for bucket in buckets]
        elif store.dialect == "rows":
            beginnings += [f"{store.mount}/{table}" for table in getattr(store, "tables", {})]
        else:
            beginnings.append(store.mount)
    message = "can never match: no store has such paths"
    return message, nearest(pattern.prefix.rstrip("/") or "/", beginnings)


def _shadowed(
    live: _Live, earlier: list[_Live], path: Path, draft: Draft, complaints: Complaints
) -> None:
    """Complain when earlier rules take every path of every store that this rule could match."""
    blamed: list[str] = []
    for name in sorted(live.stores):
        store = draft.stores[name]
        cover = next((e for e in earlier if name in e.stores and _takes_all(e, live, store)), None)
        if cover is None:
            return
        blamed.append(cover.rule.where)
    if blamed:
        where = ", ".join(dict.fromkeys(blamed))
        message = f"can never match: the rule at {where} takes all of it, and the first match wins"
        complaints.add((*path, "match"), message, "put the narrower rule first")


def _takes_all(wide: _Live, narrow: _Live, store: StoreSettings) -> bool:
    depth = rows_depth(store)
    if depth is not None and names_table(wide.pattern, depth):
        return covers(wide.pattern, Pattern(narrow.pattern.segments[:depth]))
    return covers(wide.pattern, narrow.pattern)
