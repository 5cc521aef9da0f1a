"""DELETE of an object (protocol, rules 5 and 12).

It has no body, so the whole request waits for the gate. It leaves no stamp either, so that a lost
answer stays unknown: an object that is gone may have been removed by somebody else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from gateway.machines.condition import NO_GUARD, Guard, Mismatch, Sent, guard, judge_refused
from gateway.model.conditions import Conditions
from gateway.model.object_action import DeleteObject
from gateway.model.problem import Problem
from gateway.model.reply import ObjectDeleted
from gateway.model.version import Absent, Look, Present
from gateway.ports.store import MaybeWritten, NotWritten, WriteFence, WriteResult, Written
from gateway.stores.s3 import answers
from gateway.stores.s3.site import Site
from gateway.stores.s3.verdict import (
    MAX_ATTEMPTS,
    Again,
    conclude,
    condition_failed,
    fenced_at_look,
    is_unclear,
)
from gateway.stores.s3.wire import object_path
from gateway.upstream.exchange import Answer, AnswerLost, NotSent, Shut


async def delete_object(
    site: Site, action: DeleteObject, client: Conditions, fence: WriteFence
) -> WriteResult:
    """Remove an object."""
    if (stale := fenced_at_look(fence.looked, fence.mark)) is not None:
        return stale
    sent = Sent(fence.mark, (), fence.looked, client)
    for _ in range(MAX_ATTEMPTS):
        carried = _guard(site, client, sent.looked)
        if isinstance(carried, Problem):
            return NotWritten(carried)
        if site.profile.delete_if_match and isinstance(sent.looked, Absent):
            verdict = await _delete_nothing(site, action, fence, sent)
        else:
            verdict = await _delete_once(site, action, fence, carried, sent)
        if not isinstance(verdict, Again):
            return verdict
        sent = replace(sent, looked=verdict.now)
    return NotWritten(answers.BUSY_WRITERS)


def _guard(site: Site, client: Conditions, looked: Look) -> Guard | Problem:
    if not site.profile.delete_if_match:
        if client:
            return answers.conditions_refused(site.store, "conditions on DELETE")
        return NO_GUARD
    combined = guard(client, looked)
    return answers.mismatch(combined) if isinstance(combined, Mismatch) else combined


async def _delete_nothing(
    site: Site, action: DeleteObject, fence: WriteFence, sent: Sent
) -> WriteResult | Again:
    """There was no object before admission, and no condition can say "still none".

    So nothing is sent: an unconditional DELETE could arrive late and remove a newer holder's
    object. If one has appeared since, it is judged as a failed condition would be.
    """
    now = await site.looker.look(action.bucket, action.key, fence.scope)
    if isinstance(now, Problem):
        return NotWritten(now)
    if isinstance(now, Present):
        return conclude(judge_refused(sent, now), now, store=site.store)
    problem = fence.gate()
    return NotWritten(problem) if problem is not None else Written(ObjectDeleted(existed=False))


async def _delete_once(
    site: Site, action: DeleteObject, fence: WriteFence, carried: Guard, sent: Sent
) -> WriteResult | Again:
    message = site.requests.write(
        "DELETE", object_path(action.bucket, action.key), fields=site.profile.fields(carried)
    )
    result = await site.client.send_gated(message, None, fence)
    match result:
        case Shut(problem):
            return NotWritten(problem)
        case NotSent(why, busy):
            return NotWritten(answers.not_sent(site.store, why, busy=busy))
        case AnswerLost(why):
            return MaybeWritten(answers.unknown(site.store, why))
        case Answer():
            return await _answered(site, action, fence, carried, sent, result)
        case _:
            assert_never(result)


async def _answered(
    site: Site, action: DeleteObject, fence: WriteFence, carried: Guard, sent: Sent, answer: Answer
) -> WriteResult | Again:
    status, code = answer.status, answers.error_code(answer.body)
    if status < 300:
        existed = not isinstance(sent.looked, Absent)
        return Written(ObjectDeleted(existed, answers.store_fields(answer.head)))
    if carried != NO_GUARD and condition_failed(status, code, carried):
        return await _refused(site, action, fence, sent)
    if is_unclear(status, code):
        return MaybeWritten(answers.unknown(site.store, f"it answered {status} {code}".rstrip()))
    return NotWritten(answers.refusal(site.store, status, answer.body))


async def _refused(
    site: Site, action: DeleteObject, fence: WriteFence, sent: Sent
) -> WriteResult | Again:
    now = await site.looker.look(action.bucket, action.key, fence.scope)
    if isinstance(now, Problem):
        return NotWritten(answers.BUSY_WRITERS)
    if isinstance(now, Absent) and not sent.client:
        # Gone already, which is all that a DELETE without a condition asks for.
        return Written(ObjectDeleted(existed=False))
    return conclude(judge_refused(sent, now), now, store=site.store)
