"""What the control API answers with: scopes, in one shape for all its routes."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel

from gateway.model.claim import ScopeRow
from gateway.model.mark import Mark, Scope
from gateway.model.problem import Code, Problem

Reach = Callable[[Scope], frozenset[str]]
"""The stores in which operations can have a scope."""


class ScopeView(BaseModel):
    """A scope with its mark. `registrations` counts the replicas that may admit by themselves."""

    scope: str
    era: int
    token: int
    burnt: bool
    holder: str | None
    registrations: int | None = None


class ScopePage(BaseModel):
    """A page of scopes; `next` is the `after` of the following page."""

    scopes: list[ScopeView]
    next: str | None


def row_view(row: ScopeRow) -> ScopeView:
    """A row of the registry."""
    return view(row.scope, row.mark, row.registrations)


def view(scope: str, mark: Mark, registrations: int | None = None) -> ScopeView:
    """A scope with this mark."""
    return ScopeView(
        scope=scope,
        era=mark.era,
        token=mark.token,
        burnt=mark.burnt,
        holder=mark.holder,
        registrations=registrations,
    )


def unreachable(scope: str) -> Problem:
    """No request can ever have this scope: it is misspelt."""
    return Problem(
        Code.NOT_FOUND,
        f"no request can have the scope {scope}: neither a rule nor a resource of a "
        "store has it; check the spelling",
        hint="fencegate explain METHOD URL tells the scope of a request.",
    )
