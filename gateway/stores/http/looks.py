"""What an origin holds at a path now: its version, by HEAD (protocol, rule 12).

An origin keeps no stamp for us, so that a version tells that something changed, never who did it.
"""

from __future__ import annotations

from gateway.model.origin_request import OriginRequest
from gateway.model.problem import Problem
from gateway.model.version import Absent, Present
from gateway.stores.http import answers
from gateway.stores.http.site import Site
from gateway.upstream.exchange import UpstreamFailed


async def look(site: Site, action: OriginRequest) -> Present | Absent | Problem:
    """The version at the target of a mutation. A `Problem` when the origin could not tell."""
    try:
        answer = await site.client.ask(site.requests.look(action))
    except UpstreamFailed as error:
        return answers.unreadable(site, error)
    status = answer.status
    if status in {404, 410}:
        return Absent()
    if status in {405, 501}:
        return answers.no_version(site, f"answered HEAD with {status}")
    if 300 <= status < 400:
        return answers.redirected(site, status)
    if status >= 400:
        return answers.refused(site, answers.relay(site, answer.head))
    etags = answer.head.all("etag")
    if len(etags) != 1 or not _strong(etags[0]):
        return answers.no_version(site, "answered HEAD without a strong ETag")
    return Present(etags[0])


def _strong(etag: str) -> bool:
    """An entity tag that If-Match can name (RFC 9110, section 13.1.1)."""
    return len(etag) >= 2 and etag[0] == etag[-1] == '"' and '"' not in etag[1:-1]
