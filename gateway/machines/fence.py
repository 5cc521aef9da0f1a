"""The fence machine: what one replica may let through on one scope (protocol, rules 1-7, 14, 15).

Theory of operation. A replica keeps a `View` of each scope it works on: the highest mark it has
heard of, which token is *ready* (registered at the registry, and the registry was seen drained
below it, in this generation), and its tickets. A write arrives and gets a ticket: `open` at once
when its token is ready, else `waiting` while an *attempt* claims the token and waits for the
drain. The gate turns an open ticket into a `committing` one in the same instant in which its last
bytes leave; when the answer is lost it becomes `unknown` until it can no longer take effect. A
higher mark, from the registry's answer or from the inbox, shuts the gate for everything lower and
leaves a debt: to yield the lower registrations as soon as nothing lower is on its way.

    Arrived --ready--> OPEN --GateAsked--> COMMITTING --Settled--> (gone)
       |                 |                     |
       v                 v gate shut           v AnswerLost
    WAITING --drained-> OPEN / (gone)        UNKNOWN --UnknownExpired--> (gone)

Nothing here awaits or reads a clock. `step(view, event, here)` gives the view after the event and
the effects that the driver must carry out; views are plain values, so the explorer searches this
very code. `Rules` holds the decisions that the protocol stands on; the explorer replaces them one
by one, and every replacement must be refuted.
"""

from __future__ import annotations

from typing import Final, assert_never

from gateway.machines.fence_events import (
    Admit,
    AnswerLost,
    Arrived,
    AwaitDrain,
    ClaimAnswered,
    ClaimFailed,
    DrainSeen,
    DrainTimedOut,
    Effect,
    Effects,
    Event,
    EvictionAsked,
    Forget,
    Forgotten,
    GateAsked,
    Hasten,
    LapseCame,
    Pass,
    Refuse,
    Rejoin,
    SendClaim,
    Settled,
    Told,
    UnknownExpired,
    Yield,
)
from gateway.machines.fence_rules import RULES, Rules
from gateway.machines.fence_state import (
    Attempt,
    Held,
    Here,
    Phase,
    Ready,
    Ticket,
    View,
    Why,
)
from gateway.model.claim import (
    ClaimAnswer,
    ClaimBurnt,
    Claimed,
    ClaimImplausible,
    ClaimStale,
    EraDiffers,
    Generation,
    GenerationEnded,
    RegistrationId,
)
from gateway.model.mark import Era, Mark
from gateway.model.token import MAX_TOKEN, Token

Next = tuple[View, Effects]
_NOTHING: Final[Effects] = ()


def step(view: View, event: Event, here: Here, rules: Rules = RULES) -> Next:
    """Apply one event to a view. Events about tickets or attempts that are gone change nothing."""
    match event:
        case Arrived():
            return arrive(view, event, here, rules)
        case GateAsked(ticket):
            return ask_gate(view, ticket, here, rules)
        case Settled(ticket) | UnknownExpired(ticket):
            return settle(view, ticket, here, rules)
        case ClaimAnswered(registration, answer):
            return _answered(view, registration, answer, here, rules)
        case ClaimFailed(registration):
            return _abandon(view, registration, Why.UNAVAILABLE)
        case DrainSeen(registration):
            return _drained(view, registration, here, rules)
        case DrainTimedOut(registration):
            return _abandon(view, registration, Why.NOT_DRAINED)
        case AnswerLost(ticket):
            return _lost(view, ticket), _NOTHING
        case Told(mark):
            return _heard(view, mark, here, rules)
        case LapseCame(generation):
            return _lapse(view, generation, here, rules)
        case EvictionAsked():
            return _evict(view)
        case Forgotten(registrations):
            return _forget(view, registrations)
        case _:
            assert_never(event)


# --- arriving -----------------------------------------------------------------------------------
def arrive(view: View, event: Arrived, here: Here, rules: Rules = RULES) -> Next:
    """Admit, refuse or start to claim (rule 1)."""
    number, token, holder, max_jump = event
    if here.generation is None or here.expired:
        return view, (Refuse(number, Why.LAPSED, view.mark),)
    if rules.is_known_stale(view, token):
        return view, (Refuse(number, _why_below(view.mark, token), view.mark),)
    era = view.mark.era
    if token is not None and rules.is_ready(view, token, holder):
        ticket = Ticket(number, era, token, holder, here.generation, Phase.OPEN)
        return view._replace(tickets=(*view.tickets, ticket)), (Admit(number, view.mark),)
    ticket = Ticket(number, era, token or 0, holder, here.generation, Phase.WAITING)
    return _wait(view, ticket, token, max_jump, rules)


def _why_below(mark: Mark, token: int | None) -> Why:
    return Why.DUPLICATE if mark.burnt and mark.token == token else Why.STALE


def _wait(
    view: View, ticket: Ticket, token: Token | None, max_jump: int | None, rules: Rules
) -> Next:
    """Let a ticket wait for an attempt that claims the same, or start one."""
    if token is not None:
        wanted = (token, ticket.holder, max_jump)
        for attempt in view.attempts:
            if (attempt.token, attempt.holder, attempt.max_jump) == wanted:
                waiting = ticket._replace(attempt=attempt.registration)
                return view._replace(tickets=(*view.tickets, waiting)), _NOTHING
    registration = RegistrationId(f"{ticket.generation}.{ticket.id}")
    attempt = Attempt(registration, token, ticket.holder, None, max_jump)
    if rules.may_give_up(view):
        view, attempt = _give_up(view, attempt, rules)
    after = view._replace(
        tickets=(*view.tickets, ticket._replace(attempt=registration)),
        attempts=(*view.attempts, attempt),
    )
    if view.evicting:  # claims queue until the registry has removed the old registrations
        return after, _NOTHING
    return after, (_sent(attempt, view.mark.era),)


def _give_up(view: View, attempt: Attempt, rules: Rules) -> tuple[View, Attempt]:
    """Let the claim carry the yield of what is lower."""
    token = attempt.token
    gone = tuple(h for h in view.registrations if token is None or h.token < token)
    if not gone:
        return view, attempt
    return rules.after_giving_up(view, gone), attempt._replace(gives_up=gone)


def _take_back(view: View, attempt: Attempt) -> View:
    """The claim was refused: what it would have removed stands as before."""
    return view._replace(registrations=(*view.registrations, *attempt.gives_up))


def _attempt(view: View, registration: RegistrationId) -> Attempt | None:
    return next((a for a in view.attempts if a.registration == registration), None)


def _without(view: View, registration: RegistrationId) -> View:
    """Drop an attempt and the tickets that wait for it."""
    return view._replace(
        attempts=tuple(a for a in view.attempts if a.registration != registration),
        tickets=tuple(t for t in view.tickets if t.attempt != registration),
    )


def _abandon(view: View, registration: RegistrationId, why: Why) -> Next:
    """Give an attempt up. Whether its claim took place is not known: what it gave up must go."""
    waiting = _waiting(view, registration)
    attempt = _attempt(view, registration)
    after = _without(view, registration)
    refused = tuple(Refuse(t.id, why, view.mark) for t in waiting)
    if attempt is None or attempt.mark is not None or not attempt.gives_up:
        return after, refused
    return after, (*refused, Forget(tuple(held.id for held in attempt.gives_up)))


def _waiting(view: View, registration: RegistrationId) -> tuple[Ticket, ...]:
    return tuple(t for t in view.tickets if t.attempt == registration)


# --- the registry's answers ---------------------------------------------------------------------
def _answered(
    view: View, registration: RegistrationId, answer: ClaimAnswer, here: Here, rules: Rules
) -> Next:
    attempt = _attempt(view, registration)
    if attempt is None or attempt.mark is not None:
        # A lapse or a higher mark was faster. What the claim registered is lower than that mark
        # and yielded with it, or belongs to an old generation.
        return view, _NOTHING
    match answer:
        case Claimed():
            return _claimed(view, attempt, answer, here, rules)
        case ClaimStale(mark) | ClaimBurnt(mark) | ClaimImplausible(mark):
            why = _why_refused(answer)
            view = _take_back(view, attempt)
            owes = bool(view.registrations)
            after, effects = _heard(view, mark, here, rules, own=registration, owes=owes)
            refused = tuple(Refuse(t.id, why, mark) for t in _waiting(after, registration))
            return _without(after, registration), (*refused, *effects)
        case EraDiffers(era):
            return _era(view, attempt, era)
        case GenerationEnded():
            after, effects = _abandon(view, registration, Why.LAPSED)
            return after, (*effects, Rejoin())
        case _:
            assert_never(answer)


def _why_refused(answer: ClaimStale | ClaimBurnt | ClaimImplausible) -> Why:
    match answer:
        case ClaimStale():
            return Why.STALE
        case ClaimBurnt():
            return Why.DUPLICATE
        case ClaimImplausible():
            return Why.IMPLAUSIBLE
        case _:
            assert_never(answer)


def _claimed(view: View, attempt: Attempt, answer: Claimed, here: Here, rules: Rules) -> Next:
    registration, mark = attempt.registration, answer.mark
    held = Held(registration, mark.token)
    known = view._replace(registrations=(*view.registrations, held))
    owes = any(r.generation == here.generation for r in answer.lower)
    after, effects = _heard(known, mark, here, rules, own=registration, owes=owes)
    if after.mark.rank > mark.rank:  # something higher was heard of meanwhile
        refused, more = _outrun(after, registration)
        return refused, (*effects, *more)
    known_attempt = attempt._replace(mark=mark)
    after = after._replace(
        attempts=tuple(known_attempt if a == attempt else a for a in after.attempts),
        tickets=tuple(
            t._replace(token=mark.token, era=mark.era) if t.attempt == registration else t
            for t in after.tickets
        ),
    )
    raised = answer.raised_from is not None
    drained = rules.is_drained(answer.lower, here, raised=raised)
    if drained and not here.carries:
        after, admitted = _open(after, known_attempt)
        return after, (*effects, *admitted)
    return after, (*effects, AwaitDrain(registration, mark, seen=drained))


def _outrun(view: View, registration: RegistrationId) -> Next:
    mark = view.mark
    waiting = _waiting(view, registration)
    refused = tuple(Refuse(t.id, _why_below(mark, t.token), mark) for t in waiting)
    return _without(view, registration), refused


def _open(view: View, attempt: Attempt) -> Next:
    """The drain is complete: the token is ready, and everybody who waited is admitted."""
    mark = view.mark
    waiting = _waiting(view, attempt.registration)
    tickets = tuple(
        t._replace(phase=Phase.OPEN, attempt=None) if t.attempt == attempt.registration else t
        for t in view.tickets
    )
    after = view._replace(
        ready=Ready(mark.token, mark.holder),
        attempts=tuple(a for a in view.attempts if a.registration != attempt.registration),
        tickets=tickets,
    )
    return after, tuple(Admit(t.id, mark) for t in waiting)


def _drained(view: View, registration: RegistrationId, here: Here, rules: Rules) -> Next:
    attempt = _attempt(view, registration)
    if attempt is None or attempt.mark is None:
        return view, _NOTHING
    if view.mark.rank > attempt.mark.rank:
        return _outrun(view, registration)
    if not rules.is_drained((), here, raised=True):
        return view, (AwaitDrain(registration, attempt.mark),)
    return _open(view, attempt)


def _era(view: View, attempt: Attempt, era: Era) -> Next:
    """The scope was reset: drop what is known of it and claim again (rule 15)."""
    if era < view.mark.era:  # the registry has gone back: nothing of it can be trusted
        return _abandon(view, attempt.registration, Why.UNAVAILABLE)
    after = _renewed(view, Mark(era, 0)) if era > view.mark.era else view
    again = attempt._replace(gives_up=())  # a reset waits until nothing is registered
    attempts = tuple(again if a == attempt else a for a in after.attempts)
    return after._replace(attempts=attempts), (_sent(again, era),)


def _sent(attempt: Attempt, era: Era) -> SendClaim:
    gives_up = tuple(held.id for held in attempt.gives_up)
    registration, token, holder = attempt.registration, attempt.token, attempt.holder
    return SendClaim(registration, era, token, holder, attempt.max_jump, gives_up)


def _renewed(view: View, mark: Mark) -> View:
    """Forget everything of the older era except what has been sent and what still waits."""
    tickets = tuple(
        t._replace(era=mark.era) if t.phase is Phase.WAITING else t
        for t in view.tickets
        if t.phase is not Phase.OPEN
    )
    return view._replace(mark=mark, ready=None, registrations=(), tickets=tickets)


# --- hearing of a higher mark -------------------------------------------------------------------
def _heard(
    view: View,
    mark: Mark,
    here: Here,
    rules: Rules,
    own: RegistrationId | None = None,
    *,
    owes: bool = True,
) -> Next:
    """Take over a mark (rule 4): shut out what is lower, and owe the yield of it.

    `own` is the attempt that brought the mark, and is not itself outrun by it. `owes` is False
    when the registry's answer showed that nothing of ours stands below.
    """
    owed = max(mark, view.mark, key=_rank) if owes else view.owed
    if mark.rank <= view.mark.rank:
        kept = view.mark
        if mark.rank == kept.rank:
            kept = kept._replace(holder=kept.holder or mark.holder)
        return _pay(view._replace(mark=kept, owed=owed), here, rules)
    renewed = _renewed(view, mark) if mark.era != view.mark.era else view
    after = renewed._replace(mark=mark, ready=None, owed=owed)
    effects: list[Effect] = []
    for attempt in after.attempts:
        if attempt.registration != own and _is_outrun(attempt, mark):
            after, refused = _outrun(after, attempt.registration)
            effects += refused
    effects += (
        Hasten(t.id)
        for t in after.tickets
        if t.phase is Phase.COMMITTING and (t.era, t.token, False) < mark.rank
    )
    after, yields = _pay(after, here, rules)
    return after, (*effects, *yields)


def _rank(mark: Mark) -> tuple[int, int, bool]:
    return mark.rank


def _is_outrun(attempt: Attempt, mark: Mark) -> bool:
    if attempt.mark is not None:
        return attempt.mark.rank < mark.rank
    return attempt.token is not None and (mark.era, attempt.token, False) < mark.rank


def _pay(view: View, here: Here, rules: Rules) -> Next:
    """Yield what is owed, as far as nothing lower is on its way any more (rules 4 and 7)."""
    effects: list[Effect] = []
    owed = view.owed
    if owed and here.generation and rules.may_yield(view, here.generation, owed):
        effects.append(Yield(here.generation, owed))
        kept = tuple(h for h in view.registrations if (owed.era, h.token, False) >= owed.rank)
        view = view._replace(owed=None, registrations=kept)
    for generation in view.old:
        if rules.may_yield(view, generation, _TOP):
            effects.append(Yield(generation, _TOP._replace(era=view.mark.era)))
            view = view._replace(old=tuple(g for g in view.old if g != generation))
    return view, tuple(effects)


_TOP: Final = Mark(Era(MAX_TOKEN), MAX_TOKEN, burnt=True)


# --- the gate and what follows ------------------------------------------------------------------
def ask_gate(view: View, number: int, here: Here, rules: Rules = RULES) -> Next:
    """The last check before the bytes that make a write take effect (rule 5).

    A committing ticket asks again when the store certainly did not apply its first try.
    """
    ticket = next((t for t in view.tickets if t.id == number), None)
    if ticket is None or ticket.phase not in (Phase.OPEN, Phase.COMMITTING):
        return view, (Refuse(number, Why.LAPSED, view.mark),)
    why = rules.passes_gate(view, ticket, here)
    if why is not None and ticket.phase is Phase.COMMITTING:
        return view, (Refuse(number, why, view.mark),)  # whoever holds it settles it
    if why is not None:
        rest = tuple(t for t in view.tickets if t is not ticket)
        return view._replace(tickets=rest), (Refuse(number, why, view.mark),)
    sent = ticket._replace(phase=Phase.COMMITTING)
    tickets = tuple(sent if t is ticket else t for t in view.tickets)
    return view._replace(tickets=tickets), (Pass(number),)


def settle(view: View, number: int, here: Here, rules: Rules = RULES) -> Next:
    """The ticket can take effect no more, or has: remove it and pay what waited for it."""
    rest = tuple(t for t in view.tickets if t.id != number)
    after = view._replace(tickets=rest)
    if after.owed is None and not after.old:
        return after, _NOTHING
    return _pay(after, here, rules)


def _lost(view: View, number: int) -> View:
    tickets = tuple(
        t._replace(phase=Phase.UNKNOWN) if t.id == number and t.phase is Phase.COMMITTING else t
        for t in view.tickets
    )
    return view._replace(tickets=tickets)


# --- membership and cache -----------------------------------------------------------------------
def _lapse(view: View, generation: Generation, here: Here, rules: Rules) -> Next:
    waiting = tuple(t for t in view.tickets if t.phase is Phase.WAITING)
    after = rules.after_lapse(view, generation)
    refused = tuple(Refuse(t.id, Why.LAPSED, view.mark) for t in waiting)
    after, effects = _pay(after, here, rules)
    return after, (*refused, *effects)


def _evict(view: View) -> Next:
    """Start to forget a scope, never with tickets, claims or debts (rule 14)."""
    if view.tickets or view.attempts or view.owed or view.old or view.evicting:
        return view, _NOTHING
    ids = tuple(held.id for held in view.registrations)
    return view._replace(evicting=True, ready=None), (Forget(ids),)


def _forget(view: View, registrations: tuple[RegistrationId, ...]) -> Next:
    """The registrations are gone: start afresh with whoever queued meanwhile."""
    if not view.evicting or not {h.id for h in view.registrations} <= set(registrations):
        return view, _NOTHING
    fresh = View(
        mark=Mark(view.mark.era, 0),
        tickets=view.tickets,
        attempts=view.attempts,
        owed=view.owed,
        old=view.old,
    )
    claims = tuple(_sent(a, fresh.mark.era) for a in view.attempts if a.mark is None)
    return fresh, claims


def is_idle(view: View) -> bool:
    """True when nothing would be lost by dropping the view, once its registrations are gone."""
    return not (view.tickets or view.attempts or view.owed or view.old or view.evicting)
