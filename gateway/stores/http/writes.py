"""Mutations of an origin, from the combined condition to an outcome (protocol, rules 5 and 12).

A PUT streams and holds its last bytes back. The effect of the other methods may start with their
head, so that all of them waits for the gate, out of a bounded spool. Nothing is sent twice: without
a stamp nobody can tell whether the first one had its effect.
"""

from __future__ import annotations

from typing import Final, assert_never

from gateway.engine.holdback import HoldBack, Replayed
from gateway.machines.condition import NO_GUARD, Cause, Guard, Mismatch, Sent, guard, judge_refused
from gateway.model.conditions import Conditions
from gateway.model.origin_request import OriginRequest
from gateway.model.problem import Problem
from gateway.model.version import Absent
from gateway.ports.body import Body
from gateway.ports.store import MaybeWritten, NotWritten, WriteFence, WriteResult, Written
from gateway.stores.http import answers
from gateway.stores.http.looks import look
from gateway.stores.http.site import Site
from gateway.stores.http.spool import Spool
from gateway.stores.http.verdict import Verdict, verdict
from gateway.upstream.exchange import Answer, AnswerLost, GatedResult, NotSent, Shut

CONDITIONAL: Final = frozenset({"PUT", "PATCH", "DELETE"})
_STREAMED: Final = "PUT"


async def write(
    site: Site, action: OriginRequest, client: Conditions, body: Body, fence: WriteFence
) -> WriteResult:
    """Carry a mutation out. Raises `BodyError`, with nothing written."""
    carried = _guard(site, action, client, fence)
    if isinstance(carried, Problem):
        return NotWritten(carried)
    if action.method == _STREAMED:
        hold = HoldBack(body, keep_bytes=site.hold_back_bytes)
        message = site.requests.write(action, carried, body.length)
        result = await site.client.send_gated(message, hold, fence)
    else:
        sent = await _send_whole(site, action, carried, body, fence)
        if isinstance(sent, Problem):
            return NotWritten(sent)
        result = sent
    return await _concluded(site, action, client, carried, fence, result)


def _guard(
    site: Site, action: OriginRequest, client: Conditions, fence: WriteFence
) -> Guard | Problem:
    if not site.conditions or action.method not in CONDITIONAL:
        return answers.conditions_refused(site, action.method) if client else NO_GUARD
    combined = guard(client, fence.looked)
    return answers.mismatch(combined) if isinstance(combined, Mismatch) else combined


async def _send_whole(
    site: Site, action: OriginRequest, carried: Guard, body: Body, fence: WriteFence
) -> GatedResult | Problem:
    most = site.max_spool_bytes
    # A body that announces too much is refused unread.
    if body.length is not None and body.length > most:
        return answers.too_large(most, action.method)
    async with Spool(site.spool_bytes, most) as spool:
        if not await spool.fill(body):
            return answers.too_large(most, action.method)
        message = site.requests.write(action, carried, spool.size)
        hold = HoldBack(Replayed(spool.first), keep_bytes=max(len(spool.first), 1))
        return await site.client.send_gated(
            message, hold, fence, long_end=spool.size > site.hold_back_bytes, rest=spool.rest()
        )


async def _concluded(
    site: Site,
    action: OriginRequest,
    client: Conditions,
    carried: Guard,
    fence: WriteFence,
    result: GatedResult,
) -> WriteResult:
    match result:
        case Shut(problem):
            return NotWritten(problem)
        case NotSent(why, busy):
            return NotWritten(answers.not_sent(site, why, busy=busy))
        case AnswerLost(why):
            return MaybeWritten(answers.unknown(site, why))
        case Answer():
            return await _answered(site, action, client, carried, fence, result)
        case _:
            assert_never(result)


async def _answered(
    site: Site,
    action: OriginRequest,
    client: Conditions,
    carried: Guard,
    fence: WriteFence,
    answer: Answer,
) -> WriteResult:
    status = answer.status
    said = answers.relay(site, answer.head, answer.body)
    conditional = carried != NO_GUARD
    match verdict(status, early=answer.early, cut=answer.cut, conditional=conditional):
        case Verdict.APPLIED:
            return Written(said)
        case Verdict.REFUSED:
            return NotWritten(answers.refused(site, said))
        case Verdict.CONDITION:
            sent = Sent(fence.mark, (), fence.looked, client)
            return NotWritten(await _why_refused(site, action, sent, answers.refused(site, said)))
        case Verdict.UNKNOWN:
            return MaybeWritten(answers.unknown(site, f"it answered {status}", said))
        case Verdict.REDIRECTED:
            return NotWritten(answers.redirected(site, status))
        case Verdict.ASTRAY:
            return MaybeWritten(answers.unknown(site, f"it answered with a redirect, {status}"))


async def _why_refused(site: Site, action: OriginRequest, sent: Sent, said: Problem) -> Problem:
    """Our condition failed, or the origin had a reason of its own: what is there now, tells."""
    now = await look(site, action)
    if isinstance(now, Problem):
        return said
    match judge_refused(sent, now):
        case Cause.CLIENT:
            return answers.CLIENT_FAILED
        case Cause.CHANGED if isinstance(now, Absent) and said.status == 404:
            return said
        case Cause.CHANGED:
            return answers.CHANGED
        case _:
            return said
