"""The explorer: searches every interleaving of a few requests for a broken promise.

The promise: once an operation with a token was admitted (or a seal of it answered), no operation
with a lower token of the scope takes effect. Breadth first, so a violation comes with its shortest
story. `python -m gateway.testing.explorer` prints the verdicts of all scenarios and shortcuts.
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass
from typing import Final

from gateway.testing.explorer_steps import Steps
from gateway.testing.explorer_world import Budget, Laws, Stage, World, Write, start

MOST_STATES: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a search found. `story` is the shortest way to the violation, empty if there is none.

    `reached` are the stages that some request came to, `admitted` the tokens that were admitted.
    """

    holds: bool
    states: int
    story: tuple[str, ...]
    law: str
    reached: frozenset[Stage]
    admitted: frozenset[tuple[int, int]]


def search(
    writes: tuple[Write, ...],
    laws: Laws | None = None,
    budget: Budget | None = None,
    most: int = MOST_STATES,
) -> Verdict:
    """Search all interleavings. Raises `MemoryError` past `most` states: nothing was proven."""
    steps = Steps(writes, laws or Laws())
    first = start(writes, steps.laws, budget or Budget())
    cause: dict[World, tuple[World, str] | None] = {first: None}
    queue = deque([first])
    reached: set[Stage] = set()
    admitted: set[tuple[int, int]] = set()
    while queue:
        world = queue.popleft()
        reached.update(p.stage for p in world.progress)
        admitted.add(world.admitted)
        for label, after, broken in steps.after(world):
            if broken:
                story = (*_story(cause, world), label)
                found = frozenset(reached), frozenset(admitted)
                return Verdict(False, len(cause), story, broken, *found)
            if after not in cause:
                cause[after] = (world, label)
                queue.append(after)
        if len(cause) > most:
            raise MemoryError(f"unfinished after {len(cause):,} states: nothing is proven")
    return Verdict(True, len(cause), (), "", frozenset(reached), frozenset(admitted))


def _story(cause: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    told: list[str] = []
    link = cause[world]
    while link is not None:
        told.append(link[1])
        link = cause[link[0]]
    return tuple(reversed(told))


def main() -> int:
    """Print every verdict; 0 if all are as they must be."""
    from gateway.testing.explorer_scenarios import report

    return report(sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
