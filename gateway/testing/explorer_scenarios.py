"""What is searched: scenarios in which the promise must hold, and shortcuts that must break it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TextIO

from gateway.machines import ledger
from gateway.machines.fence_rules import Rules
from gateway.machines.fence_state import Held, Here, Phase, Ticket, View, Why
from gateway.machines.ledger import Record, Ruling
from gateway.model.claim import Claim, Generation, Registration, RegistrationId
from gateway.model.mark import Mark
from gateway.model.token import Holder, Token
from gateway.testing.explorer import Verdict, search
from gateway.testing.explorer_world import Budget, Laws, Stage, World, Write


def requests(text: str) -> tuple[Write, ...]:
    """Read requests: `A@R0` is a write of token 1 on replica 0, `B` has 2, `C` has 3.

    `Aq@R0` comes from holder q, `A@R0:Y` goes to object Y, `A@R0!` is a seal.
    """
    return tuple(_request(word) for word in text.split())


def _request(word: str) -> Write:
    who, _, where = word.partition("@")
    where, seal = where.removesuffix("!"), where.endswith("!")
    replica, _, target = where.partition(":")
    holder = Holder(who[1:]) if who[1:] else None
    return Write(" ABC".index(who[0]), int(replica[1:]), holder, target or "X", seal)


_ONE_EACH: Final = Budget()


@dataclass(frozen=True, slots=True)
class Scenario:
    """Requests, and what may go wrong on the way. `laws` are the shipped ones by default."""

    requests: str
    budget: Budget = field(default=_ONE_EACH)
    laws: Callable[[], Laws] = Laws

    def search(self) -> Verdict:
        """Search all interleavings."""
        return search(requests(self.requests), self.laws(), self.budget)


class SlowYields(Laws):
    """The protocol, with yields that reach the registry at any later time."""

    slow_yields = True


class Conditional(Laws):
    """The protocol over a conditional store: looked before the claim, written with a condition."""

    conditional = True


CALM: Final = Budget(crashes=0, lapses=0)
HOLDS: Final = MappingProxyType(
    {
        "two replicas, old holder on both": Scenario("A@R0 A@R1 B@R1"),
        "old holder writes twice": Scenario("A@R0 A@R0 B@R1"),
        "three holders": Scenario("A@R0 B@R1 C@R0"),
        "two tokens on one replica": Scenario("A@R0 B@R0"),
        "a seal": Scenario("A@R0 B@R1!"),
        "yields come late": Scenario("A@R0 B@R1", Budget(1, 1), SlowYields),
        "yields come late, three holders": Scenario("A@R0 B@R0 C@R1", CALM, SlowYields),
        "answers get lost": Scenario("A@R0 B@R1", Budget(1, 1, losses=2)),
        "answers get lost, one replica": Scenario("A@R0 B@R0 B@R0", Budget(0, 1, losses=1)),
        "one token in two hands": Scenario("Ap@R0 Aq@R1 B@R0", Budget(0, 1)),
        "two hands on one replica": Scenario("Ap@R0 Aq@R0 A@R1", CALM),
        "a reset and a crash": Scenario("A@R0 B@R1", Budget(1, 0, resets=1)),
        "a reset and a lapse": Scenario("A@R0 B@R1", Budget(0, 1, resets=1)),
        "a reset under three requests": Scenario("A@R0 B@R1 A@R1", Budget(0, 0, resets=1)),
        "the registry forgets registrations": Scenario("A@R0 B@R1", Budget(1, 1, amnesias=1)),
        "forgets, and a raise is tried again": Scenario("A@R0 B@R1 B@R1", Budget(0, 0, amnesias=1)),
        "the cache forgets scopes": Scenario("A@R0 A@R0 B@R1", Budget(0, 0, 1, evictions=1)),
        "the cache forgets, a crash, a lapse": Scenario("A@R0 B@R1", Budget(1, 1, 0, evictions=2)),
        "two objects, conditional store": Scenario("A@R0:X B@R1:Y", Budget(1, 1), Conditional),
    }
)
SLOW: Final = MappingProxyType(
    {
        "four requests, two by two": Scenario("A@R0 A@R1 B@R0 B@R1", Budget(1, 0)),
        "four requests, with a lapse": Scenario("A@R0 A@R1 B@R0 B@R1", Budget(0, 1)),
    }
)


# --- shortcuts: one pure rule replaced in each --------------------------------------------------
class BlindCache(Rules):
    """Trusts the cached mark."""

    def is_ready(self, view: View, token: Token | None, holder: Holder | None) -> bool:
        del holder
        return bool(view.registrations) and view.mark.token == token


class StaleReady(Rules):
    """Stays ready over a lapse."""

    def after_lapse(self, view: View, generation: Generation) -> View:
        return super().after_lapse(view, generation)._replace(ready=view.ready)


class NoDrain(Rules):
    """Waits for nobody."""

    def is_drained(self, lower: tuple[Registration, ...], here: Here, *, raised: bool) -> bool:
        return True


class NoGate(Rules):
    """Looks no more at the gate."""

    def passes_gate(self, view: View, ticket: Ticket, here: Here) -> Why | None:
        return None


class IgnoreOwn(Rules):
    """Does not wait for its own lower registration."""

    def is_drained(self, lower: tuple[Registration, ...], here: Here, *, raised: bool) -> bool:
        others = tuple(r for r in lower if r.generation != here.generation)
        return super().is_drained(others, here, raised=raised)


class YieldEarly(Rules):
    """Yields while something is on its way."""

    def may_yield(self, view: View, generation: Generation, mark: Mark) -> bool:
        return True


class GiveUpBusy(Rules):
    """Lets a claim carry the yield while something is on its way."""

    def may_give_up(self, view: View) -> bool:
        return True


class GiveUpReady(Rules):
    """Admits under what a claim on its way gives up."""

    def after_giving_up(self, view: View, gone: tuple[Held, ...]) -> View:
        return super().after_giving_up(view, gone)._replace(ready=view.ready)


class UnknownSettles(Rules):
    """Takes an unknown ticket for settled."""

    def may_yield(self, view: View, generation: Generation, mark: Mark) -> bool:
        known = tuple(t for t in view.tickets if t.phase is not Phase.UNKNOWN)
        return super().may_yield(view._replace(tickets=known), generation, mark)


class TicketsSurvive(Rules):
    """Lets tickets live over a lapse."""

    def after_lapse(self, view: View, generation: Generation) -> View:
        return super().after_lapse(view, generation)._replace(tickets=view.tickets)


class GraceForRaises(Rules):
    """Keeps the grace for raises only."""

    def is_drained(self, lower: tuple[Registration, ...], here: Here, *, raised: bool) -> bool:
        return not lower and not (here.in_grace and raised)


class CheckThenForward(Rules):
    """What middleware does: compares when the request comes, and looks no more."""

    def is_drained(self, lower: tuple[Registration, ...], here: Here, *, raised: bool) -> bool:
        return True

    def passes_gate(self, view: View, ticket: Ticket, here: Here) -> Why | None:
        return None


def _with(rules: type[Rules]) -> type[Laws]:
    return type(rules.__name__, (Laws,), {"rules": rules()})


class Overwrite(Laws):
    """Overwrites the lower registration of the same replica."""

    def claim(self, record: Record, claim: Claim, *, member: bool) -> Ruling:
        kept = tuple(r for r in record.registrations if r.replica != claim.replica)
        return super().claim(record._replace(registrations=kept), claim, member=member)


class NoSettle(Laws):
    """Lets a generation expire at once."""

    def may_expire(self, world: World, writes: tuple[Write, ...], generation: Generation) -> bool:
        return True


class GateWithTheHead(Laws):
    """What is behind the gate is still streaming, and no settle time bounds it."""

    def may_expire(self, world: World, writes: tuple[Write, ...], generation: Generation) -> bool:
        streaming = tuple(
            p._replace(generation="") if p.stage is Stage.SENT else p for p in world.progress
        )
        return super().may_expire(world._replace(progress=streaming), writes, generation)


class SameGeneration(Laws):
    """Rejoins under the old generation."""

    rules = TicketsSurvive()

    def next_generation(self, replica: int, count: int) -> Generation:
        return super().next_generation(replica, 1)


class DropAtRejoin(Laws):
    """Removes the old registrations at the rejoin."""

    def on_join(self, record: Record, old: Generation) -> Record:
        return ledger.ended(record, old)


class ForgetByOwner(Laws):
    """Deregisters by owner, not by id."""

    def forget(self, record: Record, registration: RegistrationId) -> Record:
        return ledger.ended(record, Generation(registration.rpartition(".")[0]))


class ReadAfterRaise(Laws):
    """Trusts the condition alone: raises, then reads the version, then writes with If-Match."""

    rules = CheckThenForward()
    conditional = True
    looks_after_claim = True


class MarkPerObject(Conditional):
    """Keeps a mark per object."""

    def scope_of(self, write: Write) -> int:
        return "XY".index(write.target)


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A rule left out, and the smallest scenario that shows why it is there."""

    laws: Callable[[], Laws]
    requests: str
    budget: Budget = field(default=CALM)

    def search(self) -> Verdict:
        """Search until the first violation."""
        return search(requests(self.requests), self.laws(), self.budget)


LAPSE: Final = Budget(crashes=0, lapses=1)
CRASH: Final = Budget(crashes=1, lapses=0)
SHORTCUTS: Final = MappingProxyType(
    {
        "trust the cached mark before the own raise has drained": Shortcut(
            _with(BlindCache), "A@R0 B@R1 B@R1"
        ),
        "readiness kept over a lapse": Shortcut(_with(StaleReady), "A@R0 A@R0 B@R1", LAPSE),
        "no drain": Shortcut(_with(NoDrain), "A@R0 B@R1"),
        "no check at the gate": Shortcut(_with(NoGate), "A@R0 B@R1"),
        "registration overwritten by the same replica's newer token": Shortcut(
            Overwrite, "A@R0 B@R0"
        ),
        "own lower registration not waited for": Shortcut(_with(IgnoreOwn), "A@R0 B@R0"),
        "yield while committing": Shortcut(_with(YieldEarly), "A@R0 B@R1"),
        "a claim gives up what a write stands on": Shortcut(_with(GiveUpBusy), "A@R0 B@R0"),
        "still ready under what a claim gives up": Shortcut(_with(GiveUpReady), "A@R0 A@R0 B@R0"),
        "an unknown ticket counts as settled": Shortcut(_with(UnknownSettles), "A@R0 B@R1"),
        "expiry without settle": Shortcut(NoSettle, "A@R0 B@R1", CRASH),
        "rejoin without a new generation": Shortcut(SameGeneration, "A@R0 B@R1 B@R1", LAPSE),
        "the gate passes with the head while the body streams on": Shortcut(
            GateWithTheHead, "A@R0 B@R1", LAPSE
        ),
        "grace only for raises": Shortcut(
            _with(GraceForRaises), "A@R0 B@R1 B@R1", Budget(0, 1, amnesias=1)
        ),
        "old generation's registrations removed at the rejoin": Shortcut(
            DropAtRejoin, "A@R0 B@R1", LAPSE
        ),
        "a delayed deregistration without an id": Shortcut(
            ForgetByOwner, "A@R0 A@R0 B@R1", Budget(0, 0, losses=1, evictions=1)
        ),
        "check then forward": Shortcut(_with(CheckThenForward), "A@R0:X B@R1:X"),
        "raise, then read ETag, then If-Match": Shortcut(ReadAfterRaise, "A@R0:X B@R1:X"),
        "mark per object instead of per scope": Shortcut(MarkPerObject, "A@R0:Y B@R1:X"),
    }
)


def report(out: TextIO, *, slow: bool = False) -> int:
    """Search everything and write the verdicts; 0 if all are as they must be."""
    wrong = 0
    for name, scenario in {**HOLDS, **(SLOW if slow else {})}.items():
        verdict = scenario.search()
        wrong += not verdict.holds
        found = "holds" if verdict.holds else "VIOLATED"
        out.write(f"{found:<9} {verdict.states:>9,} states  {name}\n")
        out.writelines(f"            {line}\n" for line in verdict.story)
    for name, shortcut in SHORTCUTS.items():
        verdict = shortcut.search()
        wrong += verdict.holds
        found = "NOT SEEN" if verdict.holds else "refuted"
        out.write(f"{found:<9} {verdict.states:>9,} states  shortcut: {name}\n")
        out.writelines(f"            {line}\n" for line in verdict.story)
    return int(wrong > 0)
