"""The decision: what scope an operation is fenced in, and how.

Theory. First match wins, rule by rule, over `Operation.route` in normal form. Without a rule the
resource is its own scope, `{store}:{resource}`; rule scopes contain no ":" and so never meet those.
An operation has exactly one scope (wire contract, "Compare rule"). In a rows store an operation may
not know which rows it touches (`Resource.exact` is False). It then has a scope only if the first
rule that any row of its table could match covers all of them in one scope; else it is refused,
because one token cannot be compared in several scopes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from gateway.model.mark import Scope
from gateway.model.operation import Operation
from gateway.model.origin_request import OriginRequest
from gateway.model.problem import Code, Problem
from gateway.policy.document import (
    DatabaseSettings,
    HttpSettings,
    Mode,
    OnMissingToken,
    PolicySet,
    Reads,
    RuleSettings,
    StoreSettings,
)
from gateway.policy.pattern import (
    Pattern,
    Template,
    bounded_scope,
    is_digest,
    normal_path,
    parse_pattern,
    parse_template,
)

_ONE_SCOPE_OF_ROWS: Final = (
    "Name the whole primary key with eq., or give the table one scope with a rule whose match ends "
    "at the table."
)
_ONE_SCOPE_OF_A_TABLE: Final = "Give the table one scope with a rule whose match ends at the table."
_ONE_SCOPE_OF_A_TREE: Final = (
    "Delete the paths below it one by one, or give all of them one scope with a rule whose match "
    "ends in {rest*}."
)


@dataclass(frozen=True, slots=True)
class Permit:
    """The operation may go on to the fence.

    `mode` off: it passes unfenced, and `scope` is None. Under `shadow` it passes unfenced too;
    `would_be` is what the rule would refuse it with before a mark is looked at. For a mutation
    under `enforce` the scope is set, and the operation carries a token unless the rule lets it pass
    without. For a read a scope of None means that there is nothing to compare with; otherwise
    `reads` says what to do when the read carries a token. `rule` is None where the default applied.
    """

    scope: Scope | None
    mode: Mode
    reads: Reads
    rule: RuleSettings | None
    would_be: Problem | None = None

    @property
    def max_jump(self) -> int | None:
        """The most that the token may lie above the mark; None: any number."""
        return None if self.rule is None else self.rule.max_jump


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule, compiled for one store. `touches` and what follows are for inexact resources.

    `table` is set where everything there gets this rule, `as_one` where all of it in one scope.
    `depth` is the number of path segments that it matches, None when it takes the rest.
    """

    settings: RuleSettings
    prefix: str
    path: re.Pattern[str]
    template: Template | None
    yields: re.Pattern[str] | None = None
    touches: re.Pattern[str] | None = None
    table: re.Pattern[str] | None = None
    as_one: bool = True
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class Decider:
    """All rules, compiled. Pure: the same operation always gets the same answer."""

    _rules: Mapping[str, tuple[_Rule, ...]]
    _rows: frozenset[str]
    _stores: Mapping[str, StoreSettings]

    @classmethod
    def compile(cls, policy: PolicySet) -> Decider:
        """Compile the rules of a checked policy, per store."""
        stores = policy.stores.values()
        rules = {store.name: _compile_store(store, policy.rules) for store in stores}
        return cls(rules, frozenset(s.name for s in stores if s.dialect == "rows"), policy.stores)

    def decide(self, operation: Operation) -> Permit | Problem:
        """Find the operation's scope and mode, or what it is refused with."""
        resource = operation.resource
        rules = self._rules[resource.store]
        route = normal_path(operation.route)
        permit: Permit | Problem
        if resource.exact:
            permit = _exact(operation, route, rules)
        elif resource.store in self._rows:
            permit = _inexact(operation, route, rules)
            if operation.routes and isinstance(permit, Problem):
                permit = _in_one_scope(operation, rules) or permit
        elif isinstance(self._stores[resource.store], HttpSettings):
            permit = _subtree(operation, route, rules)
        elif operation.kind.mutates:
            permit = _undetermined(operation, None)
        else:
            permit = _exact(operation, route, rules)
        return _with_token(operation, permit)

    def reach(self, scope: Scope) -> frozenset[str]:
        """The stores in which operations can have this scope (protocol, "State").

        Empty when none can: nobody will ever compare a token with it.
        """
        owner, colon, _ = scope.partition(":")
        if colon:
            return frozenset({owner} & self._rules.keys())
        return frozenset(
            store
            for store, rules in self._rules.items()
            if any(_can_yield(rule.template, scope) for rule in rules)
        )

    def matched(self, rule: RuleSettings) -> frozenset[str]:
        """The stores in which a rule, or one that names the same scopes, stands."""
        return frozenset(
            store
            for store, rules in self._rules.items()
            if any(_is_kin(other.settings, rule) for other in rules)
        )

    def meets(self, scope: Scope) -> frozenset[str]:
        """The stores in which a request can really have this scope, spelt as it is.

        Narrower than `reach`, which may name a store too many: what an operator types is checked
        with this, because a misspelt seal would shut nobody out.
        """
        if is_digest(scope):
            return self.reach(scope)
        owner, colon, path = scope.partition(":")
        if colon:
            known = owner in self._rules and self._is_own(self._stores[owner], path)
            return frozenset({owner} if known else ())
        return frozenset(
            store
            for store, rules in self._rules.items()
            if any(_enforces(r, scope) for r in rules) and normal_path(scope) == scope
        )

    def _is_own(self, store: StoreSettings, path: str) -> bool:
        """True when a resource of this path exists in the dialect, and no rule names its scope."""
        route = f"{store.mount or ''}/{path}"
        first = next((r for r in self._rules[store.name] if r.path.fullmatch(route)), None)
        if first is not None and (
            first.template is not None or first.settings.mode is not Mode.ENFORCE
        ):
            return False
        if store.dialect == "rows":
            table, slash, key = path.partition("/")
            plain = key.replace(",", "")
            return bool(slash and key) and table in _tables(store) and normal_path(plain) == plain
        if normal_path(path) != path:
            return False
        segments = path.split("/")
        if store.dialect == "s3":
            return len(segments) > 1 and bool(segments[0]) and path != f"{segments[0]}/"
        if isinstance(store, HttpSettings) and not segments[-1]:
            segments.pop()  # a path of an origin may end in a slash, and its root is one
        return not {"", ".", ".."} & set(segments)


def _is_kin(one: RuleSettings, other: RuleSettings) -> bool:
    return one.where == other.where or (one.scope is not None and one.scope == other.scope)


def _enforces(rule: _Rule, scope: Scope) -> bool:
    if rule.yields is None or rule.settings.mode is not Mode.ENFORCE:
        return False
    return rule.yields.fullmatch(scope) is not None


def _tables(store: StoreSettings) -> Collection[str]:
    return store.tables if isinstance(store, DatabaseSettings) else ()


def rows_depth(store: StoreSettings) -> int | None:
    """The number of path segments down to the table; None unless the dialect is rows."""
    if store.dialect != "rows" or store.mount is None:
        return None
    return store.mount.count("/") + 1


def fits_rows(pattern: Pattern, depth: int) -> bool:
    """True when a pattern can match a table or a row: `/mount/table` or `/mount/table/key`."""
    length = len(pattern.segments)
    return length <= depth + 1 and (length >= depth or pattern.has_rest)


def names_table(pattern: Pattern, depth: int) -> bool:
    """True when a pattern ends at the table of a rows store, and so covers all its rows."""
    return len(pattern.segments) == depth and not pattern.has_rest


def _compile_store(store: StoreSettings, rules: tuple[RuleSettings, ...]) -> tuple[_Rule, ...]:
    mine = [(r, parse_pattern(r.match)) for r in rules if r.store in (None, store.name)]
    depth = rows_depth(store)
    if depth is None:
        return tuple(_compile_path(rule, pattern) for rule, pattern in mine)
    return tuple(_compile_rows(r, p, depth) for r, p in mine if fits_rows(p, depth))


def _compile_path(rule: RuleSettings, pattern: Pattern) -> _Rule:
    template = None if rule.scope is None else parse_template(rule.scope, pattern)
    path = _expression(pattern)
    as_one = _covers_rest_as_one(rule, pattern, template)
    whole = path if pattern.has_rest and (as_one or rule.mode is Mode.SHADOW) else None
    yields = _yields(template, pattern)
    depth = None if pattern.has_rest else len(pattern.segments)
    return _Rule(
        rule, pattern.prefix, path, template, yields, table=whole, as_one=as_one, depth=depth
    )


def _compile_rows(rule: RuleSettings, pattern: Pattern, depth: int) -> _Rule:
    """Compile for a rows store: `touches` finds the tables of which some row could match."""
    base = _compile_path(rule, pattern)
    path = _expression(pattern, "(?:/.*)?") if names_table(pattern, depth) else base.path
    touches = _expression(Pattern(pattern.segments[:depth]))
    as_one = _covers_rows_as_one(rule, pattern, base.template, depth)
    whole = rule.mode is Mode.SHADOW and _covers_rows(pattern, depth)
    table = path if as_one or whole else None
    return _Rule(rule, pattern.prefix, path, base.template, base.yields, touches, table, as_one)


def _yields(template: Template | None, pattern: Pattern) -> re.Pattern[str] | None:
    """What the scopes of a rule look like: one segment for `{x}`, anything for `{x*}`."""
    if template is None:
        return None
    rest = [capture.rest for capture in pattern.captures]
    parts = (
        re.escape(p) if isinstance(p, str) else ".*" if rest[p] else "[^/]+" for p in template.parts
    )
    return re.compile("".join(parts), re.DOTALL)


def _expression(pattern: Pattern, more: str = "") -> re.Pattern[str]:
    return re.compile(pattern.expression() + more, re.DOTALL)


def _covers_rows(pattern: Pattern, depth: int) -> bool:
    return names_table(pattern, depth) or pattern.has_rest


def _covers_rows_as_one(
    rule: RuleSettings, pattern: Pattern, template: Template | None, depth: int
) -> bool:
    """True when every row of a matched table gets the same answer from this rule."""
    return _covers_rows(pattern, depth) and _covers_rest_as_one(rule, pattern, template)


def _covers_rest_as_one(rule: RuleSettings, pattern: Pattern, template: Template | None) -> bool:
    """True when everything below what is matched gets the same answer from this rule."""
    if rule.mode is Mode.OFF:
        return True
    if template is None:
        return False
    return not (pattern.has_rest and template.uses(len(pattern.captures) - 1))


def _exact(operation: Operation, route: str, rules: tuple[_Rule, ...]) -> Permit | Problem:
    for rule in rules:
        if route.startswith(rule.prefix):
            found = rule.path.fullmatch(route)
            if found:
                return _permit(operation, rule, found)
    return Permit(_own_scope(operation), Mode.ENFORCE, Reads.CHECK, None)


def _inexact(operation: Operation, route: str, rules: tuple[_Rule, ...]) -> Permit | Problem:
    """Decide for rows that are not known by their keys. `route` ends at the table."""
    blocking = None
    for rule in rules:
        if rule.touches is not None and rule.touches.fullmatch(route):
            # The slash lets a rest behind the table be empty; no such rest is part of the scope.
            found = rule.table and rule.table.fullmatch(route + "/")
            if found:
                return _permit(operation, rule, found)
            blocking = rule.settings
            if blocking.mode is not Mode.SHADOW and not blocking.allows(operation.method):
                return _no_such_method(operation, blocking)
            break
    if operation.kind.mutates or _asks_for_seal(operation, blocking):
        return _undetermined(operation, blocking)
    return Permit(None, Mode.ENFORCE, Reads.IGNORE, blocking)


def _in_one_scope(operation: Operation, rules: tuple[_Rule, ...]) -> Permit | None:
    """Decide for rows that are all known by their keys; None where they are not of one scope."""
    first: Permit | None = None
    for route in operation.routes:
        permit = _exact(operation, normal_path(route), rules)
        if isinstance(permit, Problem) or permit.rule is None:
            return None
        if first is None:
            first = permit
        elif (permit.scope, permit.rule) != (first.scope, first.rule):
            return None
    return first


def _subtree(operation: Operation, route: str, rules: tuple[_Rule, ...]) -> Permit | Problem:
    """Decide for a path with everything below it. `route` ends in a slash."""
    for rule in rules:
        # A rule that may match something below must take all of it, into one scope.
        deep_enough = rule.depth is None or rule.depth >= route.count("/")
        if deep_enough and (rule.prefix.startswith(route) or route.startswith(rule.prefix)):
            found = rule.table and rule.table.fullmatch(route)
            if found:
                return _permit(operation, rule, found)
            return _undetermined(operation, rule.settings)
    return _undetermined(operation, None)


def _asks_for_seal(operation: Operation, rule: RuleSettings | None) -> bool:
    """True when a read relies on a seal that no single scope can give; never skipped silently."""
    return operation.token is not None and rule is not None and rule.reads is Reads.SEAL


def _permit(operation: Operation, rule: _Rule, found: re.Match[str]) -> Permit | Problem:
    settings = rule.settings
    refused = None
    if not settings.allows(operation.method):
        refused = _no_such_method(operation, settings)
        if settings.mode is not Mode.SHADOW:
            return refused
    if settings.mode is Mode.OFF:
        return Permit(None, Mode.OFF, Reads.IGNORE, settings)
    if settings.mode is Mode.SHADOW and not (operation.resource.exact or rule.as_one):
        if operation.kind.mutates or _asks_for_seal(operation, settings):
            refused = refused or _undetermined(operation, settings)
        return Permit(None, Mode.SHADOW, Reads.IGNORE, settings, refused)
    if rule.template is None:
        scope = _own_scope(operation)
    else:
        scope = Scope(bounded_scope(rule.template.expand(found.groups())))
    return Permit(scope, settings.mode, settings.reads, settings, refused)


def _no_such_method(operation: Operation, rule: RuleSettings) -> Problem:
    methods = rule.methods or ()
    allow = ", ".join((*methods, "HEAD") if "GET" in methods else methods)
    return Problem(
        Code.METHOD_NOT_ALLOWED,
        f"{operation.method} is not one of the methods of {operation.route}: {allow}",
        allow=allow,
    )


def _own_scope(operation: Operation) -> Scope:
    resource = operation.resource
    return Scope(bounded_scope(f"{resource.store}:{resource.path}"))


def _with_token(operation: Operation, permit: Permit | Problem) -> Permit | Problem:
    if isinstance(permit, Problem) or permit.mode is Mode.OFF:
        return permit
    if not operation.kind.mutates or operation.token is not None or _may_lack_token(permit.rule):
        return permit
    missing = Problem(
        Code.TOKEN_REQUIRED,
        f"{operation.method} changes the store, so it needs X-Fence-Token: the number that "
        "came with the lease",
        details=f"scope {permit.scope}",
    )
    if permit.mode is not Mode.SHADOW:
        return missing
    return replace(permit, would_be=permit.would_be or missing)


def _may_lack_token(rule: RuleSettings | None) -> bool:
    return rule is not None and rule.on_missing_token is OnMissingToken.ALLOW_AND_COUNT


def _undetermined(operation: Operation, rule: RuleSettings | None) -> Problem:
    tree = isinstance(operation.action, OriginRequest)
    things, own = ("paths", "path below it") if tree else ("rows", "of its rows")
    because = (
        f"the rule at {rule.where} gives its {things} different scopes"
        if rule is not None
        else f"each {own} is its own scope"
    )
    if operation.unnamed:
        because = f"{operation.unnamed}, and {because}"
    return Problem(
        Code.SCOPE_UNDETERMINED,
        f"it is not certain that {operation.method} {operation.route} stays within one scope: "
        f"{because}",
        hint=_hint(operation, tree),
    )


def _hint(operation: Operation, tree: bool) -> str:
    if tree:
        return _ONE_SCOPE_OF_A_TREE
    return _ONE_SCOPE_OF_A_TABLE if operation.unnamed else _ONE_SCOPE_OF_ROWS


def _can_yield(template: Template | None, scope: Scope) -> bool:
    if template is None:
        return False
    if is_digest(scope):
        return True
    return re.fullmatch(template.expression(), scope, re.DOTALL) is not None
