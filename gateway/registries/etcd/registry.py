"""The `etcd` registry: what the ledger rules is committed if nothing has changed since."""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from gateway.machines import ledger
from gateway.machines.ledger import Record
from gateway.model.claim import (
    Claim,
    ClaimAnswer,
    Generation,
    GenerationEnded,
    Identity,
    Member,
    Notice,
    Registration,
    RegistrationId,
    ReplicaId,
    ScopePage,
    ScopeRow,
)
from gateway.model.mark import Era, Mark, Scope
from gateway.registries.etcd import client
from gateway.registries.etcd.client import Etcd, Json, Stored, Txn
from gateway.registries.etcd.inbox import Inbox
from gateway.registries.etcd.records import mark_text, read_record, record_text

_MOST_REMEMBERED: Final = 10_000


T = TypeVar("T")


class _Seen(NamedTuple):
    """A scope's record, and the text that it was read from; None: the key was not there."""

    record: Record
    text: str | None

    def stands(self, key: str) -> Json:
        """Compares: the key still says so."""
        return client.is_at(key, 0) if self.text is None else client.holds(key, self.text)


_UNKNOWN: Final = _Seen(ledger.EMPTY, None)


class EtcdRegistry:
    """Marks, registrations and members in etcd, shared by all replicas.

    A scope is one key, which a transaction changes only if it holds what was ruled on; what this
    process wrote last is tried first, so that a claim is one round trip as long as nobody else has
    claimed. A generation lives as long as its key: registrations of others are void. The
    incarnation is the cluster's id with a key made once, and made anew by a replica that sees
    revisions go back (a restored snapshot).
    """

    shared = True

    def __init__(self, etcd: Etcd, *, prefix: str = "fg") -> None:
        self._etcd = etcd
        self._scopes = f"/{prefix}/scopes/"
        self._members = f"/{prefix}/members/"
        self._inbox_prefix = f"/{prefix}/inbox/"
        self._audit = f"/{prefix}/audit/"
        self._identity = f"/{prefix}/identity"
        self._vouched = f"/{prefix}/vouched"
        self._rules = f"/{prefix}/rules"
        self._seen: OrderedDict[Scope, _Seen] = OrderedDict()
        self._inboxes: dict[Generation, Inbox] = {}
        self._joined: dict[Generation, str] = {}
        self._revision = 0
        self._went_back = False

    # --- membership -----------------------------------------------------------------------------
    async def join(self, replica: ReplicaId) -> Generation:
        """See `Registry.join`."""
        generation = Generation(secrets.token_hex(9))
        identity = (await self.identity()).id
        self._joined[generation] = identity
        await self._txn(then=[client.put(self._member(generation), replica)])
        return generation

    async def agree(self, generation: Generation, rules: str) -> bool:
        """See `Registry.agree`: one key for all, changed only if it is what was looked at."""
        looks = [client.get(self._rules), client.get_all(self._members)]
        while True:
            found, members = (await self._txn(then=looks)).found
            alive = {self._generation(one) for one in members}
            agreed: dict[str, str] = json.loads(found[0].value) if found else {}
            agreed = {gen: theirs for gen, theirs in agreed.items() if gen in alive}
            others = {theirs for gen, theirs in agreed.items() if gen != generation}
            if generation not in alive or others - {rules}:
                return False
            seen = client.holds(self._rules, found[0].value) if found else None
            same = seen or client.is_at(self._rules, 0)
            new = client.written({**agreed, generation: rules})
            compares = [*self._is_current(generation), same]
            if (await self._txn(compares, [client.put(self._rules, new)])).succeeded:
                return True

    async def beat(self, replica: ReplicaId, generation: Generation) -> bool:
        """See `Registry.beat`: the counter is how often the key was written."""
        member = self._member(generation)
        done = await self._txn(self._is_current(generation), [client.put(member, replica)])
        return done.succeeded and self._is_of(done, generation)

    async def members(self) -> tuple[Member, ...]:
        """See `Registry.members`."""
        (found,) = (await self._txn(then=[client.get_all(self._members)])).found
        return tuple(
            Member(ReplicaId(one.value), self._generation(one), one.version - 1) for one in found
        )

    async def leave(self, replica: ReplicaId, generation: Generation) -> None:
        """See `Registry.leave`."""
        del replica
        await self._txn(then=self._ended(generation))
        inbox = self._inboxes.pop(generation, None)
        if inbox is not None:
            await inbox.aclose()

    async def evict(self, replica: ReplicaId, generation: Generation, beat_seen: int) -> bool:
        """See `Registry.evict`."""
        member = self._member(generation)
        done = await self._txn(
            [client.holds(member, replica), client.was_changed(member, beat_seen + 1)],
            self._ended(generation),
        )
        return done.succeeded

    def _ended(self, generation: Generation) -> list[Json]:
        return [client.delete(self._member(generation)), client.delete_all(self._inbox(generation))]

    def _is_current(self, generation: Generation) -> list[Json]:
        """Compares: the member is there, and so is the registry that it joined."""
        _, _, identity = self._joined.get(generation, "").partition(".")
        return [
            client.exists(self._member(generation)),
            client.holds(self._identity, identity),
        ]

    def _is_of(self, done: Txn, generation: Generation) -> bool:
        return done.cluster == self._joined.get(generation, "").partition(".")[0]

    # --- scopes ---------------------------------------------------------------------------------
    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `Registry.claim`."""

        def rule(record: Record) -> tuple[Record, list[Json], ClaimAnswer]:
            ruling = ledger.claim(record, claim, member=True)
            told = self._tell(claim.scope, ruling.record.mark, ruling.told)
            return ruling.record, told, ruling.answer

        answer = await self._change(claim.scope, rule, claim.generation)
        return GenerationEnded() if answer is None else answer

    async def pending(
        self, scope: Scope, mark: Mark, generation: Generation
    ) -> tuple[Registration, ...] | None:
        """See `Registry.pending`."""
        done = await self._txn(self._is_current(generation), self._looks(scope))
        if not done.succeeded or not self._is_of(done, generation):
            return None
        return ledger.below(self._remember(scope, done).record, mark)

    async def yield_(
        self, scope: Scope, replica: ReplicaId, generation: Generation, mark: Mark
    ) -> None:
        """See `Registry.yield_`."""
        del replica
        await self._change(
            scope, lambda record: (ledger.yielded(record, generation, mark), [], None)
        )

    async def forget(self, scope: Scope, registration: RegistrationId) -> None:
        """See `Registry.forget`."""
        await self._change(scope, lambda record: (ledger.forgotten(record, registration), [], None))

    async def reset(self, scope: Scope, era: Era, reason: str) -> Mark | None:
        """See `Registry.reset`."""

        def rule(record: Record) -> tuple[Record, list[Json], Mark | None]:
            step = ledger.reset(record, era)
            also = self._tell(scope, step.record.mark, step.told)
            if step.done is not None:
                before = [str(part) for part in record.mark.rank]
                text = client.written({"action": "reset", "reason": reason, "before": before})
                also.append(client.put(f"{self._audit}{scope}/{era}", text))
            return step.record, also, step.done

        return await self._change(scope, rule)

    async def recall(self, scope: Scope, mark: Mark) -> Mark:
        """See `Registry.recall`."""

        def rule(record: Record) -> tuple[Record, list[Json], Mark]:
            after = ledger.recalled(record, mark)
            return after, [], after.mark

        found = await self._change(scope, rule)
        assert found is not None, "no generation was asked for"
        return found

    async def scope(self, scope: Scope) -> ScopeRow | None:
        """See `Registry.scope`."""
        record = self._remember(scope, await self._txn(then=self._looks(scope))).record
        return None if record == ledger.EMPTY else _row(scope, record)

    async def scopes(self, after: str | None, limit: int) -> ScopePage:
        """See `Registry.scopes`: the cursor is the last scope of the page before."""
        first = self._scopes if after is None else f"{self._scopes}{after}\0"
        wanted = client.get_range(first, client.after(self._scopes), limit)
        found, members = (await self._txn(then=[wanted, client.get_all(self._members)])).found
        rows = tuple(
            _row(Scope(one.key.removeprefix(self._scopes)), _live(read_record((one,)), members))
            for one in found
        )
        return ScopePage(rows, rows[-1].scope if len(rows) == limit else None)

    async def _change(
        self,
        scope: Scope,
        rule: Callable[[Record], tuple[Record, list[Json], T]],
        asker: Generation | None = None,
    ) -> T | None:
        """Change a record as `rule` says, on what is there. None: the asker's generation ended.

        What was ruled on a memory is committed only if the memory was right; a rule that changes
        nothing is asked again on what is there.
        """
        seen, fresh = self._seen.get(scope, _UNKNOWN), False
        alive = [] if asker is None else self._is_current(asker)
        while True:
            after, also, answer = rule(seen.record)
            if after == seen.record and not also:
                if fresh:
                    return answer
                done = await self._txn(alive, self._looks(scope), self._looks(scope))
                ended = asker is not None and not (done.succeeded and self._is_of(done, asker))
            else:
                key = self._scopes + scope
                compares = [*alive, seen.stands(key)]
                then = [client.put(key, record_text(after)), *also]
                look = [*self._looks(scope), client.get(self._identity)]
                done = await self._txn(compares, [*then, *self._looks(scope)], look)
                if done.succeeded and (asker is None or self._is_of(done, asker)):
                    self._remember(scope, done)
                    return answer
                ended = asker is not None and self._has_ended(done, asker)
            if ended:
                return None
            seen, fresh = self._remember(scope, done), True

    def _has_ended(self, done: Txn, asker: Generation) -> bool:
        """Whether the member or its registry is gone, by the ranges of a failed transaction."""
        _, members, identity = done.found
        here = any(self._generation(one) == asker for one in members)
        same = [f"{done.cluster}.{one.value}" for one in identity] == [self._joined.get(asker)]
        return not (here and same)

    def _looks(self, scope: Scope) -> list[Json]:
        return [client.get(self._scopes + scope), client.get_all(self._members)]

    def _remember(self, scope: Scope, done: Txn) -> _Seen:
        """What a transaction saw of a scope, without what ended generations left there."""
        stored, members, *_ = done.found
        text = stored[0].value if stored else None
        seen = _Seen(_live(read_record(stored), members), text)
        self._seen[scope] = seen
        self._seen.move_to_end(scope)
        while len(self._seen) > _MOST_REMEMBERED:
            self._seen.popitem(last=False)
        return seen

    def _tell(
        self, scope: Scope, mark: Mark, told: tuple[tuple[ReplicaId, Generation], ...]
    ) -> list[Json]:
        text = mark_text(mark)  # in the key too, so that a later notice overwrites none
        return [client.put(f"{self._inbox(to)}{scope}\0{text}", text) for _, to in told]

    # --- inboxes --------------------------------------------------------------------------------
    async def inbox(
        self, replica: ReplicaId, generation: Generation, seen: int
    ) -> tuple[Notice, ...]:
        """See `Registry.inbox`."""
        del replica
        return await self._inbox_of(generation).read(seen)

    async def wait(self, replica: ReplicaId, generation: Generation, timeout_s: float) -> None:
        """See `Registry.wait`."""
        del replica
        await self._inbox_of(generation).wait(timeout_s)

    def _inbox_of(self, generation: Generation) -> Inbox:
        if generation not in self._inboxes:
            self._inboxes[generation] = Inbox(self._etcd, self._inbox(generation))
        return self._inboxes[generation]

    # --- the registry itself --------------------------------------------------------------------
    async def identity(self) -> Identity:
        """See `Registry.identity`."""
        made = secrets.token_hex(9)
        ranges = [client.get(self._identity), client.get(self._vouched)]
        renewed = [client.put(self._identity, made), *ranges]
        if self._went_back:
            done = await self._txn(then=renewed)
            self._went_back = False
        else:
            done = await self._txn([client.exists(self._identity)], ranges, renewed)
        (identity,), vouched = done.found
        incarnation = f"{done.cluster}.{identity.value}"
        return Identity(incarnation, any(one.value == incarnation for one in vouched))

    async def vouch(self, incarnation: str) -> None:
        """See `Registry.vouch`."""
        cluster, _, identity = incarnation.partition(".")
        if (await self.identity()).id.partition(".")[0] == cluster:
            await self._txn(
                [client.holds(self._identity, identity)],
                [client.put(self._vouched, incarnation)],
            )

    async def probe(self) -> tuple[str, ...]:
        """See `Registry.probe`: etcd syncs its log before it answers, so nothing is to be named."""
        await self.identity()
        return ()

    async def aclose(self) -> None:
        """See `Registry.aclose`."""
        for inbox in self._inboxes.values():
            await inbox.aclose()
        await self._etcd.aclose()

    async def _txn(
        self,
        compares: list[Json] | tuple[()] = (),
        then: list[Json] | tuple[()] = (),
        otherwise: list[Json] | tuple[()] = (),
    ) -> Txn:
        before = self._revision  # of what was answered before this was asked
        done = await self._etcd.txn(compares, then, otherwise)
        if done.revision < before:
            self._went_back = True
            self._seen.clear()
            self._revision = done.revision
        self._revision = max(self._revision, done.revision)
        return done

    def _member(self, generation: Generation) -> str:
        return self._members + generation

    def _generation(self, member: Stored) -> Generation:
        return Generation(member.key.removeprefix(self._members))

    def _inbox(self, generation: Generation) -> str:
        return f"{self._inbox_prefix}{generation}/"


def _live(record: Record, members: tuple[Stored, ...]) -> Record:
    """The record without registrations of generations that are no members (rules 7 and 8)."""
    alive = {one.key.rpartition("/")[2] for one in members}
    kept = tuple(r for r in record.registrations if r.generation in alive)
    return record if len(kept) == len(record.registrations) else Record(record.mark, kept)


def _row(scope: Scope, record: Record) -> ScopeRow:
    return ScopeRow(scope, record.mark, len(record.registrations))
