"""Reads of an origin, streamed: its answer goes on as it is, except redirects."""

from __future__ import annotations

from typing import Final

from gateway.model.origin_request import OriginRequest
from gateway.model.problem import Code, Problem
from gateway.ports.store import ReadDone, ReadRefused, ReadResult
from gateway.stores.http import answers
from gateway.stores.http.site import Site
from gateway.upstream.exchange import Incoming, StreamBroken, UpstreamFailed

_ERROR_BYTES: Final = 1_048_576
_NOT_MODIFIED: Final = 304


async def read(site: Site, action: OriginRequest) -> ReadResult:
    """Answer a request without effect."""
    try:
        incoming = await site.client.open(site.requests.read(action))
    except UpstreamFailed as error:
        return ReadRefused(answers.unreadable(site, error))
    try:
        return await _answered(site, action, incoming)
    except BaseException:
        await incoming.aclose()
        raise


async def _answered(site: Site, action: OriginRequest, incoming: Incoming) -> ReadResult:
    head = incoming.head
    if 300 <= head.status < 400 and head.status != _NOT_MODIFIED:
        await incoming.aclose()
        return ReadRefused(answers.redirected(site, head.status))
    if action.method == "HEAD" or head.status in {204, _NOT_MODIFIED}:
        await incoming.aclose()
        return ReadDone(answers.relay(site, head))
    if head.status >= 500:
        return ReadRefused(await _failed(site, incoming))
    return ReadDone(answers.relay(site, head, chunks=incoming))


async def _failed(site: Site, incoming: Incoming) -> Problem:
    """The origin could not answer, and says so: its words, if they are not too many."""
    head = incoming.head
    try:
        body = await incoming.read(_ERROR_BYTES)
    except StreamBroken as error:
        return answers.unreadable(site, error)
    said = answers.relay(site, head, body)
    text = f"the origin of store {site.store} answered {head.status}"
    return Problem(Code.UPSTREAM_FAILED, text, status_override=head.status, relay=said)
