"""How an operation ended, for all who tell it (wire contract, "Three answers, never two").

Every consumer matches all members; a new one does not type-check until each of them handles it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.model.problem import Problem
from gateway.model.reply import ReadReply, WriteReply


@dataclass(frozen=True, slots=True)
class Applied:
    """The mutation took effect. `replayed`: this is the answer of an earlier attempt.

    `retried` here and below: an earlier attempt at the same logical request was known. `shadow`:
    what an enforced rule would have refused the request for, as in `Problem.reason`.
    """

    reply: WriteReply
    replayed: bool = False
    retried: bool = False
    shadow: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The mutation certainly did not take effect (or the read was refused by the gateway)."""

    problem: Problem
    retried: bool = False
    shadow: str | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The mutation may have taken effect: the answer was lost after the gate."""

    problem: Problem
    retried: bool = False
    shadow: str | None = None


@dataclass(frozen=True, slots=True)
class ReadOk:
    """The read was answered by the store."""

    reply: ReadReply
    shadow: str | None = None


@dataclass(frozen=True, slots=True)
class ReadFailed:
    """The store or the gateway could not answer the read (also: no such thing)."""

    problem: Problem
    shadow: str | None = None


Outcome = Applied | Refused | Unknown | ReadOk | ReadFailed
