"""The start-up probe of an origin: does it answer, and does it honour conditions (rule 12).

Many origins answer 2xx to a write whose condition does not hold. Only trying it shows which.
"""

from __future__ import annotations

import secrets
from typing import Final, NoReturn

from gateway.engine.holdback import HoldBack, Replayed
from gateway.machines.condition import NO_GUARD, Guard
from gateway.model.mark import NO_MARK, Scope
from gateway.model.origin_request import OriginRequest
from gateway.model.problem import Problem
from gateway.model.version import Absent, NotLooked
from gateway.ports.store import ProbeFailed, WriteFence
from gateway.stores.http.looks import look
from gateway.stores.http.site import Site
from gateway.upstream.exchange import Answer, UpstreamFailed

_SCOPE: Final = Scope("fencegate-probe")
_OPEN: Final = WriteFence(_SCOPE, NO_MARK, "probe", NotLooked(), gate=lambda: None)
_WRONG: Final = Guard(if_match='"fencegate-probe"')
_CREATE: Final = Guard(if_none_match=True)
_REFUSED: Final = frozenset({404, 409, 412})
_GATEWAY_ERRORS: Final = frozenset({502, 503, 504})


async def check(site: Site) -> str | None:
    """Look once, without effect, whether the origin answers; what is wrong, or None."""
    try:
        answer = await site.client.ask(site.requests.read(OriginRequest("HEAD", b"/", b"")))
    except UpstreamFailed as error:
        return (
            f"store {site.store}: its origin {site.origin} cannot be reached: {error}. Check its "
            "endpoint, and that the origin runs."
        )
    if answer.status in _GATEWAY_ERRORS:
        return f"store {site.store}: its origin {site.origin} answers {answer.status}."
    return None


async def prove(site: Site, path: str) -> None:
    """Create, replace and remove under right and wrong conditions. Raises `ProbeFailed`."""
    probe = _Probe(site, f"{path}-{secrets.token_hex(8)}")
    try:
        await probe.run()
    except UpstreamFailed as error:
        raise ProbeFailed(f"store {site.store}: the probe at {path} failed: {error}.") from error
    finally:
        await probe.clean_up()


class _Probe:
    """One run, at a path that nobody else uses."""

    def __init__(self, site: Site, path: str) -> None:
        self._site = site
        self._path = path

    async def run(self) -> None:
        first = await self._send("PUT", _CREATE, b"one")
        if first >= 300:
            raise ProbeFailed(
                f"store {self._site.store}: a PUT with If-None-Match: * to {self._path}, where "
                f"nothing is, was answered {first}. Set probe_path to a place in which the gateway "
                "may write, or remove it."
            )
        await self._must_refuse("PUT", _CREATE, "a second PUT with If-None-Match: *")
        await self._must_refuse("PUT", _WRONG, "a PUT with a wrong If-Match")
        stale = await self._version()
        if await self._send("PUT", stale, b"two") >= 300:
            self._fail("a PUT with the current ETag in If-Match", "refused")
        await self._must_refuse("PUT", stale, "a PUT with the replaced ETag in If-Match")
        await self._must_refuse("DELETE", stale, "a DELETE with the replaced ETag in If-Match")
        if await self._send("DELETE", await self._version(), b"") >= 300:
            self._fail("a DELETE with the current ETag in If-Match", "refused")

    async def clean_up(self) -> None:
        """Remove what a probe that failed has left."""
        try:
            now = await look(self._site, self._action("DELETE"))
            if not isinstance(now, Absent):
                await self._send("DELETE", NO_GUARD, b"")
        except UpstreamFailed:
            return  # what made the probe fail makes this fail as well

    async def _version(self) -> Guard:
        now = await look(self._site, self._action("PUT"))
        if isinstance(now, Problem):
            raise ProbeFailed(f"store {self._site.store}: {now.message}.")
        if isinstance(now, Absent):
            self._fail("a PUT", "answered with success, but nothing is there")
        return Guard(if_match=now.etag)

    async def _must_refuse(self, method: str, guard: Guard, tried: str) -> None:
        status = await self._send(method, guard, b"wrong" if method == "PUT" else b"")
        if status not in _REFUSED:
            self._fail(tried, f"answered {status} instead of 412")

    def _fail(self, tried: str, outcome: str) -> NoReturn:
        raise ProbeFailed(
            f"store {self._site.store}: its origin does not honour conditional writes: {tried} was "
            f'{outcome}. Set conditions = "none", with its weaker guarantee.'
        )

    def _action(self, method: str) -> OriginRequest:
        return OriginRequest(method, self._path.encode("ascii"), b"")

    async def _send(self, method: str, guard: Guard, content: bytes) -> int:
        message = self._site.requests.write(self._action(method), guard, len(content))
        result = await self._site.client.send_gated(message, HoldBack(Replayed(content)), _OPEN)
        if not isinstance(result, Answer):
            raise UpstreamFailed(getattr(result, "why", "the request was not sent"))
        return result.status
