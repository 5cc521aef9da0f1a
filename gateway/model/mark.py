"""The mark: the highest token learnt for a scope (protocol, "State")."""

from __future__ import annotations

from typing import NamedTuple, NewType

from gateway.model.token import Holder

Scope = NewType("Scope", str)
"""What tokens are compared in: one resource, or the name a policy rule gives to several."""

Era = NewType("Era", int)
"""Counts the resets of a scope, from 1. Marks of different eras are ordered by era first."""


class Mark(NamedTuple):
    """The highest (era, token, burnt) of a scope with the holder it is bound to, if any.

    Ordered by `rank`, lexicographically; burnt stands above unburnt. Token 0 means that the era
    has seen no token yet.
    """

    era: Era
    token: int
    burnt: bool = False
    holder: Holder | None = None

    @property
    def rank(self) -> tuple[int, int, bool]:
        """What marks are compared by. "Lower" always means lower in this order."""
        return (self.era, self.token, self.burnt)


NO_MARK = Mark(Era(1), 0)
"""The mark of a scope nobody has written to yet."""
