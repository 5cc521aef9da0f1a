"""The steps of the explored world: everything that can happen next, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, assert_never

from gateway.machines import fence, ledger
from gateway.machines.fence_events import (
    Admit,
    AnswerLost,
    Arrived,
    AwaitDrain,
    ClaimAnswered,
    ClaimFailed,
    DrainSeen,
    Effect,
    Event,
    EvictionAsked,
    Forget,
    Forgotten,
    GateAsked,
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
from gateway.machines.fence_state import Here, View
from gateway.model.claim import Claim, ClaimBurnt, Generation
from gateway.model.mark import Scope
from gateway.model.token import Token
from gateway.testing.explorer_world import (
    ON_ITS_WAY,
    AnswerSent,
    ClaimSent,
    ForgetSent,
    Laws,
    Message,
    Progress,
    Replica,
    Stage,
    Watch,
    World,
    Write,
    YieldSent,
    replica_id,
)

Step = tuple[str, World, str]
"""What happens, the world after it, and the law that it breaks ("" for none)."""

_SCOPE: Final = Scope("s")


class Steps(NamedTuple):
    """All that can happen in a scenario under given laws."""

    writes: tuple[Write, ...]
    laws: Laws

    def after(self, world: World) -> Iterator[Step]:
        """Every next step of a world."""
        for index in range(len(self.writes)):
            yield from self._request(world, index)
        for message in world.messages:
            yield from self._message(world, message)
        for index, replica in enumerate(world.replicas):
            if replica.alive:
                yield from self._replica(world, index, replica)
        yield from self._registry(world)

    # --- requests -------------------------------------------------------------------------------
    def _request(self, world: World, index: int) -> Iterator[Step]:
        write, progress = self.writes[index], world.progress[index]
        name = f"write {index} (token {write.token}, R{write.replica})"
        alive = world.replicas[write.replica].alive
        match progress.stage:
            case Stage.IDLE if alive:
                looked = _moved(world, index, version=_version(world, write))
                event = Arrived(index, Token(write.token), write.holder)
                after = _moved(looked, index, stage=Stage.WAITING)
                yield f"{name} arrives", self._apply(after, index, event), ""
            case Stage.ADMITTED if alive and write.seal:
                done = _moved(world, index, stage=Stage.DONE)
                yield f"{name} has sealed", self._apply(done, index, Settled(index)), ""
            case Stage.ADMITTED if alive:
                if self.laws.looks_after_claim:
                    world = _moved(world, index, version=_version(world, write))
                yield f"{name} asks the gate", self._apply(world, index, GateAsked(index)), ""
            case Stage.SENT | Stage.LATE | Stage.ORPHAN:
                yield from self._effect(world, index, name)
            case Stage.LANDED if alive:
                done = _moved(world, index, stage=Stage.DONE)
                yield f"{name} is answered", self._apply(done, index, Settled(index)), ""
            case Stage.GONE if alive:
                done = _moved(world, index, stage=Stage.DONE)
                yield f"{name} is given up", self._apply(done, index, UnknownExpired(index)), ""

    def _effect(self, world: World, index: int, name: str) -> Iterator[Step]:
        """A write past the gate lands at any time, or is lost; or its answer is given up."""
        write, progress = self.writes[index], world.progress[index]
        stage = Stage.LANDED if progress.stage is Stage.SENT else Stage.GONE
        if self.laws.conditional and progress.version != _version(world, write):
            yield f"{name} fails on its condition", _moved(world, index, stage=stage), ""
        else:
            landed = _moved(world, index, stage=stage)
            versions = dict(world.versions) | {write.target: _version(world, write) + 1}
            landed = landed._replace(versions=tuple(sorted(versions.items())))
            yield f"{name} LANDS on {write.target}", landed, self._broken(world, index)
        if progress.stage is Stage.SENT:
            late = _moved(world, index, stage=Stage.LATE)
            yield f"{name} times out", self._apply(late, index, AnswerLost(index)), ""
        else:
            yield f"{name} is lost on the way", _moved(world, index, stage=stage), ""

    def _broken(self, world: World, index: int) -> str:
        write, progress = self.writes[index], world.progress[index]
        if (progress.era, write.token) < world.admitted:
            return "a write took effect after a higher token was admitted"
        if write.token == world.burnt and write.holder is not None:
            others = (
                w.holder
                for w, p in zip(self.writes, world.progress, strict=True)
                if w.token == write.token and p.stage in (Stage.LANDED, Stage.DONE)
            )
            if any(h is not None and h != write.holder for h in others):
                return "two holders of one token took effect after it was found out"
        return ""

    # --- messages -------------------------------------------------------------------------------
    def _message(self, world: World, message: Message) -> Iterator[Step]:
        rest = world._replace(messages=world.messages - {message})
        match message:
            case ClaimSent():
                yield from self._claim(rest, message)
            case AnswerSent(replica, scope, registration, answer):
                if isinstance(answer, ClaimBurnt):
                    rest = rest._replace(burnt=max(rest.burnt, answer.mark.token))
                event = ClaimAnswered(registration, answer)
                after = self._deliver(rest, replica, scope, event)
                yield f"R{replica} hears {type(answer).__name__}", after, ""
                if world.budget.losses:
                    yield self._lose_answer(rest, message)
            case Watch(replica, scope, registration, mark):
                generation = world.replicas[replica].generation
                if generation is not None and generation not in world.members:
                    # Every call meets the incarnation; a new one voids what was registered.
                    yield f"R{replica} meets a new incarnation", self._lapse(rest, replica), ""
                elif not ledger.below(world.records[scope], mark):
                    after = self._deliver(rest, replica, scope, DrainSeen(registration))
                    yield f"R{replica} sees the drain of {mark.token}", after, ""
            case YieldSent():
                yield "a yield arrives", _yield(rest, message), ""
            case ForgetSent(replica, scope, registrations, done):
                if done:
                    after = self._deliver(rest, replica, scope, Forgotten(registrations))
                    yield f"R{replica} has forgotten", after, ""
                else:
                    yield "a deregistration arrives", self._deregister(rest, message), ""
                    if world.budget.losses:
                        yield self._deregister_twice(world, message)
            case _:
                assert_never(message)

    def _claim(self, world: World, message: ClaimSent) -> Iterator[Step]:
        claim, scope = message.claim, message.scope
        member = claim.generation in world.members
        ruling = self.laws.claim(world.records[scope], claim, member=member)
        answer = AnswerSent(message.replica, scope, claim.registration, ruling.answer)
        after = _recorded(world, scope, ruling.record)
        after = after._replace(messages=after.messages | {answer})
        for _, generation in ruling.told:
            after = _notify(after, generation, scope)
        label = f"R{message.replica}'s claim of {claim.token} reaches the registry"
        yield label, after, ""

    def _lose_answer(self, rest: World, message: AnswerSent) -> Step:
        budget = rest.budget._replace(losses=rest.budget.losses - 1)
        event = ClaimFailed(message.registration)
        after = self._deliver(rest._replace(budget=budget), message.replica, message.scope, event)
        return f"R{message.replica}'s answer is lost", after, ""

    def _deregister(self, world: World, message: ForgetSent) -> World:
        record = world.records[message.scope]
        for registration in message.registrations:
            record = self.laws.forget(record, registration)
        after = _recorded(world, message.scope, record)
        return after._replace(messages=after.messages | {message._replace(done=True)})

    def _deregister_twice(self, world: World, message: ForgetSent) -> Step:
        """A retry is answered while the first try is still on its way."""
        budget = world.budget._replace(losses=world.budget.losses - 1)
        after = self._deregister(world._replace(budget=budget), message)
        return "a deregistration arrives, and will once more", after, ""

    # --- replicas -------------------------------------------------------------------------------
    def _replica(self, world: World, index: int, replica: Replica) -> Iterator[Step]:
        budget = world.budget
        if replica.inbox:
            (scope, mark), rest = replica.inbox[0], replica.inbox[1:]
            after = _replaced(world, index, replica._replace(inbox=rest))
            told = self._deliver(after, index, scope, Told(mark))
            yield f"R{index} is told of {mark.token}", told, ""
        if budget.crashes:
            yield f"R{index} CRASHES", self._crash(world, index), ""
        if replica.generation is None:
            yield f"R{index} rejoins", self._rejoin(world, index), ""
        elif budget.lapses:
            spent = world._replace(budget=budget._replace(lapses=budget.lapses - 1))
            yield f"R{index} LAPSES", self._lapse(spent, index), ""
        if budget.evictions:
            for scope, view in enumerate(replica.views):
                if fence.is_idle(view) and view.registrations:
                    left = budget._replace(evictions=budget.evictions - 1)
                    spent = world._replace(budget=left)
                    after = self._deliver(spent, index, scope, EvictionAsked())
                    yield f"R{index} evicts the scope from its cache", after, ""
        if replica.in_grace and self._grace_is_over(world, index):
            yield (
                f"R{index}'s grace ends",
                _replaced(world, index, replica._replace(in_grace=False)),
                "",
            )

    def _grace_is_over(self, world: World, index: int) -> bool:
        """Every member of the older incarnation has lapsed, and nothing of it is on its way."""
        others = (r for i, r in enumerate(world.replicas) if i != index and r.alive)
        if any(r.generation and r.generation not in world.members for r in others):
            return False
        return not any(
            p.stage in ON_ITS_WAY and p.generation not in world.members for p in world.progress
        )

    def _crash(self, world: World, index: int) -> World:
        budget = world.budget._replace(crashes=world.budget.crashes - 1)
        progress = tuple(
            _orphaned(p) if w.replica == index else p
            for w, p in zip(self.writes, world.progress, strict=True)
        )
        messages = frozenset(
            m for m in world.messages if isinstance(m, ClaimSent | YieldSent) or m.replica != index
        )
        replica = world.replicas[index]
        dead = replica._replace(alive=False, views=(View(),) * len(replica.views), inbox=())
        after = world._replace(budget=budget, progress=progress, messages=messages)
        return _replaced(after, index, dead)

    def _lapse(self, world: World, index: int) -> World:
        replica = world.replicas[index]
        generation = replica.generation
        assert generation is not None
        after = _replaced(world, index, replica._replace(generation=None, inbox=()))
        for scope in range(len(replica.views)):
            after = self._deliver(after, index, scope, LapseCame(generation))
        return after

    def _rejoin(self, world: World, index: int) -> World:
        replica = world.replicas[index]
        count = replica.generations + 1
        old = self.laws.next_generation(index, replica.generations)
        new = self.laws.next_generation(index, count)
        grace = replica.in_grace or old not in world.members
        joined = replica._replace(generation=new, generations=count, in_grace=grace)
        after = _replaced(world, index, joined)
        records = tuple(self.laws.on_join(record, old) for record in world.records)
        return after._replace(members=after.members | {new}, records=records)

    # --- the registry by itself -----------------------------------------------------------------
    def _registry(self, world: World) -> Iterator[Step]:
        current = {r.generation for r in world.replicas if r.alive}
        for generation in sorted(world.members - current):
            if self.laws.may_expire(world, self.writes, generation):
                records = tuple(ledger.ended(r, generation) for r in world.records)
                after = world._replace(members=world.members - {generation}, records=records)
                yield f"generation {generation} expires", after, ""
        if world.budget.resets:
            yield from self._reset(world)
        if world.budget.amnesias:
            budget = world.budget._replace(amnesias=world.budget.amnesias - 1)
            records = tuple(r._replace(registrations=()) for r in world.records)
            after = world._replace(records=records, members=frozenset(), budget=budget)
            yield "the registry forgets its members and registrations", after, ""

    def _reset(self, world: World) -> Iterator[Step]:
        record = world.records[0]
        reset = ledger.reset(record, record.mark.era)
        after = _recorded(world, 0, reset.record)
        for _, generation in reset.told:
            after = _notify(after, generation, 0)
        if reset.done is not None:
            budget = world.budget._replace(resets=world.budget.resets - 1)
            after = after._replace(budget=budget)
        if after != world:
            yield f"the scope is reset ({'done' if reset.done else 'draining'})", after, ""

    # --- running the shipped machine ------------------------------------------------------------
    def _apply(self, world: World, index: int, event: Event) -> World:
        write = self.writes[index]
        return self._deliver(world, write.replica, self.laws.scope_of(write), event)

    def _deliver(self, world: World, index: int, scope: int, event: Event) -> World:
        replica = world.replicas[index]
        if not replica.alive:
            return world
        here = Here(replica.generation, in_grace=replica.in_grace)
        view, effects = fence.step(replica.views[scope], event, here, self.laws.rules)
        views = (*replica.views[:scope], view, *replica.views[scope + 1 :])
        world = _replaced(world, index, replica._replace(views=views))
        if isinstance(event, Forgotten) and fence.is_idle(view):
            views = (*views[:scope], View(), *views[scope + 1 :])
            world = _replaced(world, index, replica._replace(views=views))
        for effect in effects:
            world = self._effected(world, index, scope, effect)
        return world

    def _effected(self, world: World, index: int, scope: int, effect: Effect) -> World:
        replica = world.replicas[index]
        match effect:
            case Admit(number, mark):
                generation = replica.generation or ""
                progress = Progress(
                    Stage.ADMITTED, mark.era, generation, world.progress[number].version
                )
                world = _progressed(world, number, progress)
                return world._replace(admitted=max(world.admitted, (mark.era, mark.token)))
            case Refuse(number):
                return _moved(world, number, stage=Stage.FAILED)
            case Pass(number):
                return _moved(world, number, stage=Stage.SENT)
            case SendClaim(registration, era, token, holder, _, gives_up):
                generation = replica.generation or Generation("")
                claim = Claim(
                    _SCOPE,
                    era,
                    token,
                    holder,
                    replica_id(index),
                    generation,
                    registration,
                    gives_up=gives_up,
                )
                return _send(world, ClaimSent(index, scope, claim))
            case AwaitDrain(registration, mark):
                return _send(world, Watch(index, scope, registration, mark))
            case Yield(generation, mark):
                message = YieldSent(scope, generation, mark)
                return _send(world, message) if self.laws.slow_yields else _yield(world, message)
            case Forget(registrations):
                return _send(world, ForgetSent(index, scope, registrations))
            case Rejoin():
                return self._lapse(world, index) if replica.generation else world
            case _:
                return world  # Hasten: a time-out may come at any moment anyway


# --- small changes of a world -------------------------------------------------------------------
def _version(world: World, write: Write) -> int:
    return dict(world.versions)[write.target]


def _progressed(world: World, index: int, progress: Progress) -> World:
    steps = world.progress
    return world._replace(progress=(*steps[:index], progress, *steps[index + 1 :]))


def _moved(
    world: World, index: int, *, stage: Stage | None = None, version: int | None = None
) -> World:
    old = world.progress[index]
    new = old._replace(
        stage=old.stage if stage is None else stage,
        version=old.version if version is None else version,
    )
    return _progressed(world, index, new)


def _orphaned(progress: Progress) -> Progress:
    if progress.stage in (Stage.SENT, Stage.LATE):
        return progress._replace(stage=Stage.ORPHAN)
    if progress.stage in (Stage.LANDED, Stage.GONE):
        return progress._replace(stage=Stage.DONE)
    if progress.stage in (Stage.WAITING, Stage.ADMITTED, Stage.IDLE):
        return progress._replace(stage=Stage.FAILED)
    return progress


def _replaced(world: World, index: int, replica: Replica) -> World:
    old = world.replicas
    return world._replace(replicas=(*old[:index], replica, *old[index + 1 :]))


def _recorded(world: World, scope: int, record: ledger.Record) -> World:
    ordered = record._replace(registrations=tuple(sorted(record.registrations)))
    old = world.records
    return world._replace(records=(*old[:scope], ordered, *old[scope + 1 :]))


def _notify(world: World, generation: Generation, scope: int) -> World:
    mark = world.records[scope].mark
    for index, replica in enumerate(world.replicas):
        if replica.alive and replica.generation == generation:
            inbox = (*replica.inbox, (scope, mark))
            world = _replaced(world, index, replica._replace(inbox=inbox))
    return world


def _send(world: World, message: Message) -> World:
    return world._replace(messages=world.messages | {message})


def _yield(world: World, message: YieldSent) -> World:
    record = ledger.yielded(world.records[message.scope], message.generation, message.mark)
    return _recorded(world, message.scope, record)
