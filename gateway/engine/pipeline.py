"""The road of a request: decide, look, admit, write, settle (ARCHITECTURE.md, "Flow").

The order is the protocol's: the version is read *before* the claim (rule 12), the mark is durable
before any byte goes upstream (rule 10), and the store asks the gate at the last moment (rule 5).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final, assert_never
from uuid import uuid4

from gateway.engine.compared_body import compared
from gateway.engine.fences import Admission, Fences
from gateway.engine.live_policy import LivePolicy
from gateway.engine.refusals import duplicate, interrupted, stale
from gateway.engine.retries import Retries
from gateway.engine.shadow import ShadowMarks
from gateway.engine.signatures import Signatures
from gateway.model.event import Faulted, OutcomeLost, TokenMissing, UpstreamCalled
from gateway.model.mark import Era, Mark, Scope
from gateway.model.object_action import PutObject
from gateway.model.operation import Operation
from gateway.model.outcome import Applied, Outcome, ReadFailed, ReadOk, Refused, Unknown
from gateway.model.problem import Code, Problem
from gateway.model.version import Look, NotLooked, Present
from gateway.policy.access import granted
from gateway.policy.decide import Permit
from gateway.policy.document import Mode, Reads
from gateway.ports.body import Body
from gateway.ports.clock import Clock
from gateway.ports.dialect import Parsed
from gateway.ports.journey import current, stage
from gateway.ports.observer import Observer
from gateway.ports.store import (
    BehindRegistry,
    CarryFailed,
    FencedByStore,
    MaybeWritten,
    NotWritten,
    ReadDone,
    ReadRefused,
    Store,
    WriteFence,
    WriteResult,
    Written,
)

_UNFENCED: Final = Mark(Era(1), 1)


class Pipeline:
    """Takes parsed requests to their outcome."""

    def __init__(
        self,
        decider: LivePolicy,
        stores: Mapping[str, Store],
        fences: Fences,
        retries: Retries,
        clock: Clock,
        observer: Observer,
        signatures: Signatures | None = None,
    ) -> None:
        self._signatures = signatures
        self._decider = decider
        self._stores = stores
        self._fences = fences
        self._retries = retries
        self._clock = clock
        self._observer = observer
        self._open: set[str] = set()
        self._shadow = ShadowMarks()

    def decide(self, operation: Operation) -> Permit | Problem:
        """Decide where an operation is fenced; `handle` takes the answer."""
        permit = granted(operation, self._decider.decide(operation))
        return permit if self._signatures is None else self._signatures.judged(operation, permit)

    async def handle(self, parsed: Parsed, permit: Permit | Problem) -> Outcome:
        """Answer one request as decided. Never raises for what a store or a client can do."""
        operation = parsed.operation
        store = self._stores[operation.resource.store]
        if isinstance(permit, Permit) and permit.mode is Mode.SHADOW:
            return await self._shadowed(parsed, permit, store)
        if not operation.kind.mutates:
            return await self._read(operation, permit, store)
        if isinstance(permit, Problem):
            return Refused(permit)
        if permit.mode is Mode.OFF or permit.scope is None:
            return await self._write_unfenced(operation, parsed.body, store)
        if operation.token is None:
            self._observer.emit(TokenMissing(store.name))
            return await self._write_unfenced(operation, parsed.body, store)
        work = self._write_fenced(parsed, store, permit)
        return await self._retries.requests.track(operation, permit.scope, work)

    # --- reads ----------------------------------------------------------------------------------
    async def _read(self, operation: Operation, permit: Permit | Problem, store: Store) -> Outcome:
        if isinstance(permit, Problem):
            return ReadFailed(permit)
        problem = await self._read_fence(operation, permit)
        if problem is not None:
            return ReadFailed(problem)
        return await self._read_store(operation, store)

    async def _read_store(self, operation: Operation, store: Store) -> Outcome:
        with stage("upstream"):
            result = await store.read(operation)
        match result:
            case ReadDone(reply):
                return ReadOk(reply)
            case ReadRefused(refused):
                return ReadFailed(refused)
            case _:
                assert_never(result)

    async def _read_fence(self, operation: Operation, permit: Permit) -> Problem | None:
        token, scope = operation.token, permit.scope
        if token is None or scope is None:
            return None
        match permit.reads:
            case Reads.IGNORE:
                return None
            case Reads.CHECK:
                return await self._fences.check(scope, token, operation.holder)
            case Reads.SEAL:
                sealed = await self._fences.seal(scope, token, operation.holder, permit.max_jump)
                return sealed if isinstance(sealed, Problem) else None
            case _:
                assert_never(permit.reads)

    # --- writes ---------------------------------------------------------------------------------
    async def _write_fenced(self, parsed: Parsed, store: Store, permit: Permit) -> Outcome:
        """A write; if it names its logical request, an earlier attempt's success is the answer."""
        assert permit.scope is not None
        key = self._retries.key(parsed.operation, permit.scope)
        if key is None:
            return await self._write(parsed, store, permit, uuid4().hex, None)

        body = compared(parsed.operation, parsed.body)
        seen = dataclasses.replace(parsed, body=body)

        async def attempt(write_id: str, previous: str | None) -> Outcome:
            return await self._write(seen, store, permit, write_id, previous)

        once = self._retries.once
        return await once(parsed.operation, store, permit.scope, key, body, attempt)

    async def _write(
        self, parsed: Parsed, store: Store, permit: Permit, write_id: str, previous: str | None
    ) -> Outcome:
        operation, scope = parsed.operation, permit.scope
        token = operation.token
        assert token is not None
        assert scope is not None
        with stage("look"):
            looked = await store.look(operation, scope)
        if isinstance(looked, ReadRefused):
            return Refused(looked.problem)
        with stage("admit"):
            admission = await self._fences.admit(
                scope, token, operation.holder, store.name, permit.max_jump
            )
        if isinstance(admission, Problem):
            return Refused(admission)
        outlived = _stamped_above(looked, admission.mark)
        if outlived is not None:
            admission.settle()
            await self._fences.witnessed(scope, outlived)
            return Refused(stale(scope, token, outlived))
        fence = WriteFence(
            scope, admission.mark, write_id, looked, admission.gate, previous, admission.on_haste
        )
        return await self._commit(operation, parsed.body, store, admission, fence)

    async def _commit(
        self,
        operation: Operation,
        body: Body,
        store: Store,
        admission: Admission,
        fence: WriteFence,
    ) -> Outcome:
        gated = _Gated(fence)
        result: WriteResult | None = None
        began_s = self._clock.boottime_s()
        try:
            with stage("upstream"):
                result = await store.write(operation, body, gated.fence)
                if isinstance(result, BehindRegistry):
                    result = await self._carry_again(operation, body, store, fence, gated)
            with stage("settle"):
                return await self._outcome(operation, admission.scope, result)
        except Exception as error:
            self._observer.emit(Faulted(f"write to {store.name}", repr(error)))
            if not gated.passed:
                result = NotWritten(Problem(Code.INTERNAL, "the write failed before it was sent"))
                return Refused(result.problem)
            return self._lost(operation, admission.scope, interrupted(admission.scope))
        finally:
            self._observer.emit(UpstreamCalled(store.name, self._clock.boottime_s() - began_s))
            known = result is not None and not isinstance(result, MaybeWritten)
            if known or not gated.passed:
                admission.settle()
            else:
                admission.lose(store.capabilities.settle_ms / 1000)
                self._retries.lost(operation, store, fence, admission.settle)

    async def _carry_again(
        self,
        operation: Operation,
        body: Body,
        store: Store,
        fence: WriteFence,
        gated: _Gated,
    ) -> WriteResult:
        """The store's own fence had forgotten the mark: commit it there, and write once more."""
        try:
            above = await store.carry(fence.scope, fence.mark)
        except CarryFailed as failed:
            return NotWritten(Problem(Code.BUSY, str(failed), retry_after_s=1))
        if above is not None:
            return FencedByStore(above)
        if isinstance(operation.action, PutObject):  # its body has been read
            text = "the store's fence had to be renewed; nothing was written: retry"
            return NotWritten(Problem(Code.BUSY, text, retry_after_s=1))
        gated.passed = False
        again = await store.write(operation, body, gated.fence)
        if isinstance(again, BehindRegistry):
            text = f"store {store.name} does not keep its fence row; see `fencegate migrate`"
            return NotWritten(Problem(Code.UPSTREAM_FAILED, text))
        return again

    async def _outcome(self, operation: Operation, scope: Scope, result: WriteResult) -> Outcome:
        match result:
            case Written(reply, earlier):
                return Applied(reply, replayed=earlier)
            case NotWritten(problem):
                return Refused(problem)
            case FencedByStore(mark):
                await self._fences.witnessed(scope, mark)
                same = mark.token == operation.token and mark.burnt
                return Refused((duplicate if same else stale)(scope, operation.token, mark))
            case MaybeWritten(problem):
                return self._lost(operation, scope, problem)
            case BehindRegistry():
                text = "the store's fence is behind the registry; nothing was written: retry"
                return Refused(Problem(Code.BUSY, text, retry_after_s=1))
            case _:
                assert_never(result)

    def _lost(self, operation: Operation, scope: Scope, problem: Problem) -> Unknown:
        store = operation.resource.store
        self._observer.emit(OutcomeLost(store, scope, operation.request_id))
        return Unknown(problem)

    # --- mode = "shadow" ------------------------------------------------------------------------
    async def _shadowed(self, parsed: Parsed, permit: Permit, store: Store) -> Outcome:
        """Pass a request on unfenced, and say what an enforced rule would have refused it for."""
        operation = parsed.operation
        reason = self._shadow.reason(operation, permit)
        if operation.kind.mutates:
            if operation.token is None and reason is None:
                self._observer.emit(TokenMissing(store.name))
            outcome = await self._write_unfenced(operation, parsed.body, store)
        else:
            outcome = await self._read_store(operation, store)
        return outcome if reason is None else dataclasses.replace(outcome, shadow=reason)

    # --- unfenced ---------------------------------------------------------------------------------
    async def _write_unfenced(self, operation: Operation, body: Body, store: Store) -> Outcome:
        """Pass a write on without a fence. All of these share one scope with one fixed mark.

        No resource has it: a "%" in a canonical path stands before two hexadecimal digits.
        """
        scope = Scope(f"{store.name}:%off")
        try:
            if store.name not in self._open:
                await store.carry(scope, _UNFENCED)
                self._open.add(store.name)
            fence = WriteFence(scope, _UNFENCED, uuid4().hex, NotLooked(), _always_open)
            with stage("upstream"):
                result = await store.write(operation, body, fence)
        except CarryFailed as failed:
            return Refused(Problem(Code.BUSY, str(failed), retry_after_s=1))
        return await self._outcome(operation, scope, result)


class _Gated:
    """Remembers whether the gate was passed: before it, nothing can have taken effect."""

    __slots__ = ("_ask", "_journey", "fence", "passed")

    def __init__(self, fence: WriteFence) -> None:
        self.passed = False
        self._ask = fence.gate
        self._journey = current()
        self.fence = dataclasses.replace(fence, gate=self._gate)

    def _gate(self) -> Problem | None:
        problem = self._ask()
        self.passed = problem is None
        if self._journey is not None:
            self._journey.passed_gate()
        return problem


def _always_open() -> Problem | None:
    return None


def _stamped_above(looked: Look, mark: Mark) -> Mark | None:
    """The mark that the object's stamp proves, when it stands above ours (rule 12)."""
    if not isinstance(looked, Present) or looked.stamp is None:
        return None
    stamp = looked.stamp
    if (stamp.era, stamp.token) <= (mark.era, mark.token):
        return None
    return Mark(Era(stamp.era), stamp.token)
