"""Which texts of a policy the workers of one gateway go by, and which they are being offered.

Theory. A worker that starts must go by what the others go by. An offer that one of them has taken
is in force; until each has answered, nobody knows, so a worker that starts meanwhile gets the
texts in force and then the open offers, in their order, as every other worker did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.policy.texts import Texts


class Offers:
    """The texts in force, and the offers that somebody has yet to answer."""

    def __init__(self, texts: Texts) -> None:
        self._number = self._last = 0
        self._texts = texts
        self._open: dict[int, tuple[Texts, set[int]]] = {}

    def joined(self, worker: int) -> Iterator[tuple[int, Texts]]:
        """What a worker that starts is handed: the first it starts by, the others are offers."""
        yield self._number, self._texts
        for number, (texts, asked) in self._open.items():
            asked.add(worker)
            yield number, texts

    def offer(self, texts: Texts, workers: Iterable[int]) -> int:
        """Texts that these workers are about to be offered. Returns the offer's number."""
        self._last += 1
        self._open[self._last] = texts, set(workers)
        return self._last

    def answered(self, worker: int, number: int, *, taken: bool) -> None:
        """A worker has taken an offer, or refused it."""
        if taken and number in self._open:
            self._number, self._texts = number, self._open[number][0]
            self._open = {n: o for n, o in self._open.items() if n > number}
        elif number in self._open:
            asked = self._open[number][1]
            asked.discard(worker)
            if not asked:
                del self._open[number]

    def left(self, worker: int) -> None:
        """A worker has ended and answers nothing; an offer stays open until somebody has."""
        for _, asked in self._open.values():
            asked.discard(worker)
