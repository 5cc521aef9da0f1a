"""PUT of an object, from the combined condition to a settled outcome (protocol, rules 5 and 12).

    guard → send with hold-back and gate → answered?  success: written
                                           refused: look again, judge: own | stale | again | …
                                           lost: look again for our write id, else unknown

Again means a new attempt over the version that was just seen, which our own holder wrote, out of
the bounded spool, and through the gate once more.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Final, assert_never

from gateway.dialects.s3.sigv4 import UNSIGNED_PAYLOAD
from gateway.engine.holdback import HoldBack, Replayed, spool_whole
from gateway.engine.refusals import key_reused
from gateway.machines.condition import (
    NO_GUARD,
    Cause,
    Guard,
    Mismatch,
    Sent,
    guard,
    judge_lost,
    judge_race_error,
    judge_refused,
)
from gateway.model.conditions import Conditions
from gateway.model.object_action import PutObject
from gateway.model.problem import Code, Problem
from gateway.model.reply import ObjectPut
from gateway.model.version import Absent, Look, Present
from gateway.model.write_id import Kin, kin, name_in
from gateway.ports.body import Body
from gateway.ports.store import MaybeWritten, NotWritten, WriteFence, WriteResult, Written
from gateway.stores.s3 import answers
from gateway.stores.s3.looks import resource_name
from gateway.stores.s3.site import Site
from gateway.stores.s3.verdict import (
    MAX_ATTEMPTS,
    Again,
    conclude,
    condition_failed,
    fenced_at_look,
    is_unclear,
)
from gateway.stores.s3.wire import STAMP_FIELD, allowed, object_path
from gateway.upstream.exchange import Answer, AnswerLost, Message, NotSent, Shut

# A store that lost our connection may be committing right now; a short wait often tells.
_SETTLE_WAITS_S: Final = (0.0, 0.25, 1.0)
_SETTLE_LOOK_S: Final = 2.0


async def put_object(
    site: Site, action: PutObject, client: Conditions, body: Body, fence: WriteFence
) -> WriteResult:
    """Replace an object. Raises `BodyError`, with nothing written."""
    if (stale := fenced_at_look(fence.looked, fence.mark)) is not None:
        return stale
    if (known := await _by_earlier_attempt(site, action, body, fence)) is not None:
        return known
    carried = _guard(site, client, fence.looked)
    if isinstance(carried, Problem):
        return NotWritten(carried)
    ready = await _prepared(site, body)
    if isinstance(ready, Problem):
        return NotWritten(ready)
    body = ready
    sent = Sent(fence.mark, _write_ids(fence), fence.looked, client)
    for _ in range(MAX_ATTEMPTS):
        hold = _hold(site, body)
        verdict = await _Attempt(site, action, fence, carried, sent).run(hold)
        if not isinstance(verdict, Again):
            return verdict
        if (content := await _whole(hold)) is None:
            break
        body = Replayed(content)
        carried = _guard(site, client, verdict.now)
        if isinstance(carried, Problem):
            return NotWritten(carried)
        sent = replace(sent, looked=verdict.now)
    return NotWritten(answers.BUSY_WRITERS)


async def _prepared(site: Site, body: Body) -> Body | Problem:
    """The body as it can be sent: whole in memory, where the store or the client demands it."""
    if not site.profile.keeps_half and body.length is not None:
        return body
    limit_bytes = site.max_spool_bytes if site.profile.keeps_half else site.spool_bytes
    # A body that announces too much is refused unread.
    content = None
    if body.length is None or body.length <= limit_bytes:
        content = await spool_whole(body, limit_bytes)
    if content is not None:
        return Replayed(content)
    return answers.too_large(limit_bytes) if site.profile.keeps_half else answers.LENGTH_NEEDED


def _hold(site: Site, body: Body) -> HoldBack:
    if site.profile.keeps_half:
        whole = site.max_spool_bytes
        return HoldBack(body, keep_bytes=whole, spool_bytes=whole)
    return HoldBack(body, keep_bytes=site.hold_back_bytes, spool_bytes=site.spool_bytes)


async def _by_earlier_attempt(
    site: Site, action: PutObject, body: Body, fence: WriteFence
) -> WriteResult | None:
    """The object holds what an earlier attempt of the same request wrote: own lost answer."""
    looked = fence.looked
    if not isinstance(looked, Present) or looked.stamp is None:
        return None
    if looked.stamp.era != fence.mark.era:
        return None
    match kin(looked.stamp.write_id, name_in(fence.write_id), fence.previous_write_id):
        case Kin.NONE:
            return None
        case Kin.REUSED:
            return NotWritten(key_reused())
        case Kin.EARLIER:
            pass
    if site.profile.keeps_half:
        now, size = await site.looker.measure(action.bucket, action.key, fence.scope)
        if now != looked or size != body.length:
            return None
    return Written(ObjectPut(looked.etag), earlier=True)


def _guard(site: Site, client: Conditions, looked: Look) -> Guard | Problem:
    if not site.profile.conditions:
        if client:
            return answers.conditions_refused(site.store, "conditional writes")
        return NO_GUARD
    combined = guard(client, looked)
    return answers.mismatch(combined) if isinstance(combined, Mismatch) else combined


def _write_ids(fence: WriteFence) -> tuple[str, ...]:
    if fence.previous_write_id is None:
        return (fence.write_id,)
    return (fence.write_id, fence.previous_write_id)


async def _whole(hold: HoldBack) -> bytes | None:
    """The body from the spool, read to its end where the store answered before; else None."""
    if hold.spooling:
        async for _ in hold:
            pass
    return hold.spooled


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One PUT over one version."""

    site: Site
    action: PutObject
    fence: WriteFence
    carried: Guard
    sent: Sent

    async def run(self, hold: HoldBack) -> WriteResult | Again:
        try:
            message = self._message(hold.length)
        except ValueError as error:
            return NotWritten(Problem(Code.REQUEST_MALFORMED, f"{error}."))
        result = await self.site.client.send_gated(
            message, hold, self.fence, long_end=self.site.profile.keeps_half
        )
        match result:
            case Shut(problem):
                return NotWritten(problem)
            case NotSent(why, busy):
                return NotWritten(answers.not_sent(self.site.store, why, busy=busy))
            case AnswerLost(why):
                return await self._settle(why, hold.length)
            case Answer():
                return await self._answered(result, hold.length)
            case _:
                assert_never(result)

    def _message(self, length: int | None) -> Message:
        action, fence = self.action, self.fence
        resource = resource_name(action.bucket, action.key)
        stamp = self.site.stamper.seal(fence.scope, fence.mark, fence.write_id, resource)
        return self.site.requests.write(
            "PUT",
            object_path(action.bucket, action.key),
            fields=[
                *allowed(action.metadata),
                (STAMP_FIELD.encode(), stamp.encode()),
                *self.site.profile.fields(self.carried),
            ],
            length=length,
            payload_hash=action.sha256 or UNSIGNED_PAYLOAD,
        )

    async def _answered(self, answer: Answer, length: int | None) -> WriteResult | Again:
        status, code = answer.status, answers.error_code(answer.body)
        if status < 300:
            if answer.early:
                why = f"it answered {status} before it had the whole body"
                return await self._settle(why, length)
            if answers.is_embedded_error(answer.body):
                return await self._settle(f"it answered {status} with the error {code}", length)
            return await self._done(answer)
        if self.carried != NO_GUARD and condition_failed(status, code, self.carried):
            return await self._refused()
        if is_unclear(status, code):
            why = f"it answered {status} {code}".rstrip()
            if answer.early:
                return NotWritten(answers.not_sent(self.site.store, why, busy=False))
            if self.carried != NO_GUARD and (status, code) in self.site.profile.race_answers:
                return await self._race_error(why, length)
            return await self._settle(why, length)
        return NotWritten(answers.refusal(self.site.store, status, answer.body))

    async def _done(self, answer: Answer) -> WriteResult:
        etag = answer.head.get("etag")
        if not etag:
            now = await self._look()
            etag = now.etag if isinstance(now, Present) and self._is_ours(now) else ""
        created = isinstance(self.sent.looked, Absent)
        return Written(ObjectPut(etag, created, answers.store_fields(answer.head)))

    async def _refused(self) -> WriteResult | Again:
        """The condition failed: nothing landed. Why, is written in the object."""
        now = await self._look()
        if isinstance(now, Problem):
            return NotWritten(answers.BUSY_WRITERS)
        return conclude(judge_refused(self.sent, now), now, store=self.site.store)

    async def _race_error(self, why: str, length: int | None) -> WriteResult | Again:
        now = await self._look()
        if isinstance(now, Problem):
            return MaybeWritten(answers.unknown(self.site.store, why))
        cause = judge_race_error(self.sent, now)
        if cause is Cause.UNCLEAR:
            return await self._settle(why, length)
        return conclude(cause, now, store=self.site.store)

    async def _settle(self, why: str, length: int | None) -> WriteResult:
        """The answer was lost: ask the object for our write id, a few times.

        With our write id and another size it is the half of an upload that some stores keep.
        """
        for wait_s in _SETTLE_WAITS_S:
            await asyncio.sleep(wait_s)
            try:
                async with asyncio.timeout(_SETTLE_LOOK_S):
                    now, size = await self._measure()
            except TimeoutError:
                continue
            if not isinstance(now, Present):
                continue
            if self.site.profile.keeps_half and size != length:
                continue
            if judge_lost(self.sent, now) is Cause.OWN:
                return Written(ObjectPut(now.etag, isinstance(self.sent.looked, Absent)))
        return MaybeWritten(answers.unknown(self.site.store, why))

    async def _look(self) -> Present | Absent | Problem:
        return await self.site.looker.look(self.action.bucket, self.action.key, self.fence.scope)

    async def _measure(self) -> tuple[Present | Absent | Problem, int]:
        action = self.action
        return await self.site.looker.measure(action.bucket, action.key, self.fence.scope)

    def _is_ours(self, now: Present) -> bool:
        return now.stamp is not None and now.stamp.write_id == self.fence.write_id
