"""The mark that a store keeps itself: how it rises when a mark is carried to it.

Theory. A fence row or a lock file outlives the registry. So it rises as the registry's mark does
(rule 11), never falls within an era, and finds a token in two hands by itself when the registry has
forgotten the first of them (rule 9).
"""

from __future__ import annotations

from gateway.model.mark import Mark


def carried(standing: Mark | None, mark: Mark) -> Mark:
    """What stands after `mark` was carried to where `standing` stood."""
    if standing is None or standing.rank < mark.rank:
        return mark
    if standing.rank > mark.rank or mark.burnt:
        return standing
    if in_two_hands(standing, mark):
        return standing._replace(burnt=True, holder=None)
    return standing._replace(holder=standing.holder or mark.holder)


def in_two_hands(one: Mark, other: Mark) -> bool:
    """Whether marks of one rank are bound to two holders. No holder matches any."""
    return one.holder is not None and other.holder is not None and one.holder != other.holder
