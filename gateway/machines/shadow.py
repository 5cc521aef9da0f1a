"""What a fence would have said, had it been enforced (decisions, "Shadow mode").

Marks of their own, compared and raised by the compare rule; nobody waits, drains or is refused.
"""

from __future__ import annotations

from typing import NamedTuple

from gateway.machines.fence_state import Why
from gateway.model.mark import Mark
from gateway.model.token import Holder, Token


class Judged(NamedTuple):
    """The mark after a token was seen, and why it would have been refused; None: it would not."""

    mark: Mark
    why: Why | None


def judge(mark: Mark, token: Token, holder: Holder | None, max_jump: int | None) -> Judged:
    """Compare a mutation's token, and raise the mark where an enforced rule would (rule 2)."""
    if token < mark.token:
        return Judged(mark, Why.STALE)
    if token == mark.token:
        return _same(mark, holder)
    if max_jump is not None and 0 < mark.token < token - max_jump:
        return Judged(mark, Why.IMPLAUSIBLE)
    return Judged(Mark(mark.era, token, burnt=False, holder=holder), None)


def _same(mark: Mark, holder: Holder | None) -> Judged:
    if mark.burnt:
        return Judged(mark, Why.DUPLICATE)
    if None not in (mark.holder, holder) and mark.holder != holder:
        return Judged(mark._replace(burnt=True, holder=None), Why.DUPLICATE)
    return Judged(mark._replace(holder=mark.holder or holder), None)


def look(mark: Mark, token: Token) -> Why | None:
    """Compare a read's token; nothing is raised."""
    if (token, False) >= (mark.token, mark.burnt):
        return None
    return Why.DUPLICATE if token == mark.token else Why.STALE
