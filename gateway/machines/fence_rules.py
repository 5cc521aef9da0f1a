"""The decisions that the protocol stands on, one pure method each (protocol, rules 1-9).

The explorer replaces them one by one; every replacement must be refuted.
"""

from __future__ import annotations

from typing import Final

from gateway.machines.fence_state import Held, Here, Phase, Ticket, View, Why
from gateway.model.claim import Generation, Registration
from gateway.model.mark import Mark
from gateway.model.token import Holder, Token

_SENT: Final = (Phase.COMMITTING, Phase.UNKNOWN)


class Rules:
    """The decisions of the protocol, one method each, all pure."""

    def is_ready(self, view: View, token: Token | None, holder: Holder | None) -> bool:
        """Rule 1: registered and seen drained in this generation; the cached mark is not enough."""
        ready = view.ready
        return (
            ready is not None
            and ready.token == token
            and (holder is None or ready.holder == holder)
            and not view.evicting
        )

    def is_known_stale(self, view: View, token: Token | None) -> bool:
        """Rule 1: the local mark is above the token, while registered in that era."""
        return (
            token is not None
            and bool(view.registrations)
            and (view.mark.era, token, False) < view.mark.rank
        )

    def is_drained(self, lower: tuple[Registration, ...], here: Here, *, raised: bool) -> bool:
        """Rules 3 and 9: nothing lower stands, own registrations included, and no grace runs."""
        del raised  # a grace holds for equal tokens too
        return not lower and not here.in_grace

    def passes_gate(self, view: View, ticket: Ticket, here: Here) -> Why | None:
        """Rule 5: generation current, deadline not passed, mark equal, not burnt, same holder."""
        if here.generation != ticket.generation or here.expired:
            return Why.LAPSED
        mark = view.mark
        if (mark.era, mark.token) != (ticket.era, ticket.token):
            return Why.STALE
        if mark.burnt or (mark.holder and ticket.holder and mark.holder != ticket.holder):
            return Why.DUPLICATE
        return None

    def may_yield(self, view: View, generation: Generation, mark: Mark) -> bool:
        """Rule 4: no lower ticket of the generation is committing, or unknown and not expired."""
        return not any(
            ticket.generation == generation
            and ticket.phase in (Phase.COMMITTING, Phase.UNKNOWN)
            and (ticket.era, ticket.token, False) < mark.rank
            for ticket in view.tickets
        )

    def may_give_up(self, view: View) -> bool:
        """Rule 4: a claim may carry the yield while no ticket and no claim stands below it."""
        idle = all(ticket.phase is Phase.WAITING for ticket in view.tickets)
        return idle and not (view.attempts or view.owed or view.old or view.evicting)

    def after_giving_up(self, view: View, gone: tuple[Held, ...]) -> View:
        """Rule 1: under what a claim gives up nothing is admitted from the moment it is sent."""
        kept = tuple(held for held in view.registrations if held not in gone)
        return view._replace(ready=None, registrations=kept)

    def after_lapse(self, view: View, generation: Generation) -> View:
        """Rule 7: waiting and open tickets die, nothing is ready, registrations become old ones."""
        bound = bool(view.registrations or view.attempts) and generation not in view.old
        old = (*view.old, generation) if bound else view.old
        return view._replace(
            ready=None,
            registrations=(),
            attempts=(),
            owed=None,
            old=old,
            evicting=False,
            tickets=tuple(t for t in view.tickets if t.phase in _SENT),
        )


RULES: Final = Rules()
