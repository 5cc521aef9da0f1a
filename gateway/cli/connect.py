"""`fencegate check --connect`: reach the registry and every store, and say what each rule gets.

Goes on behind what fails, so that one run tells all of it. Nothing is served, joined or claimed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from gateway.app import StartError, build_registry, build_store
from gateway.cli.promise import promise
from gateway.dialects.rows.canonical import escaped
from gateway.dialects.rows.unnamed import nameless
from gateway.model.catalogue import Catalogue
from gateway.model.operation import Kind, Operation
from gateway.model.problem import Code, Problem
from gateway.model.resource import Resource
from gateway.model.row_action import DeleteRows
from gateway.model.token import Token
from gateway.policy.decide import Decider
from gateway.policy.document import Mode, PolicySet, RuleSettings
from gateway.ports.registry import RegistryUnavailable
from gateway.ports.store import ProbeFailed, Store


@runtime_checkable
class HasTables(Protocol):
    """A store of rows."""

    def catalogue(self) -> Catalogue:
        """Its tables."""
        ...


_CANNOT = (StartError, ProbeFailed, RegistryUnavailable, OSError)


async def connect(policy: PolicySet) -> AsyncIterator[tuple[bool, str, str]]:
    """Yield (it worked, name, text) lines."""
    yield await _registry(policy)
    for name in policy.stores:
        yield await _store(policy, name)
    for rule in policy.rules:
        yield True, "rule", f"{rule.match}: {_guarantee(policy, rule)}"


async def _registry(policy: PolicySet) -> tuple[bool, str, str]:
    kind = policy.registry.type
    try:
        registry = build_registry(policy, alone=False)
        try:
            risks = await registry.probe()
        finally:
            await registry.aclose()
    except _CANNOT as failed:
        return False, "registry", f"{kind}: {failed}"
    return True, "registry", "; ".join((f"{kind}: reached", *risks))


async def _store(policy: PolicySet, name: str) -> tuple[bool, str, str]:
    try:
        store = build_store(policy.stores[name], policy)
        try:
            found = await store.probe()
            warned = _warned(policy, store)
        finally:
            await store.aclose()
    except _CANNOT as failed:
        return False, "store", f"{name}: {failed}"
    return True, "store", "; ".join((f"{name}: {found.guarantee}", *warned))


def _warned(policy: PolicySet, store: Store) -> list[str]:
    """The tables that nobody can write, unless a rule gives all of their rows one scope."""
    if not isinstance(store, HasTables):
        return []
    settings, decider, warned = policy.stores[store.name], Decider.compile(policy), []
    catalogue = store.catalogue()
    for name, table in catalogue.tables.items():
        why = nameless(table)
        resource = Resource(store.name, escaped(name), exact=False)
        route = f"{settings.mount}/{resource.path}"
        write = Operation(
            resource, route, Kind.DELETE, "DELETE", DeleteRows(name, ()), Token(1), unnamed=why
        )
        decided = decider.decide(write)
        if why and isinstance(decided, Problem) and decided.code is Code.SCOPE_UNDETERMINED:
            warned.append(
                f"WARNING: no write of table {name} can be fenced, so each is refused: {why}; give "
                "it one scope with a rule whose match ends at the table"
            )
    return warned


def _guarantee(policy: PolicySet, rule: RuleSettings) -> str:
    """The promise of the weakest store that the rule's scopes can be met in."""
    if rule.mode is not Mode.ENFORCE:
        return f"none: its mode is {rule.mode}"
    stores = Decider.compile(policy).matched(rule)
    return promise([policy.stores[name] for name in sorted(stores)], policy.registry).text
