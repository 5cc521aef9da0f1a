"""The `http` store: an HTTP origin as the place where writes land (ARCHITECTURE.md, "Flow")."""

from __future__ import annotations

import ssl
from dataclasses import replace
from typing import Final, Literal

from gateway.engine.holdback import HOLD_BACK_BYTES, SPOOL_BYTES
from gateway.model.mark import Mark, Scope
from gateway.model.operation import Operation
from gateway.model.origin_request import OriginRequest
from gateway.model.problem import Code, Problem
from gateway.model.version import Look, NotLooked
from gateway.ports.body import Body, BodyError
from gateway.ports.store import (
    Capabilities,
    NotWritten,
    ProbeFailed,
    ReadRefused,
    ReadResult,
    WriteFence,
    WriteResult,
)
from gateway.stores.http.looks import look
from gateway.stores.http.probe import check, prove
from gateway.stores.http.reads import read
from gateway.stores.http.site import Address, RequestWriter, Site
from gateway.stores.http.writes import CONDITIONAL, write
from gateway.upstream.exchange import Client
from gateway.upstream.pool import Pool, Timeouts

MAX_SPOOL_BYTES: Final = 16_777_216
_DEFAULT_TIMEOUTS: Final = Timeouts()


class OriginStore:
    """An HTTP origin.

    `conditions`: "etag" sets a condition on every PUT, PATCH and DELETE; "none" sends none and
    refuses the client's. `probe_path` is where the start proves "etag"; without it the origin is
    believed. `authorization` replaces what workers send. `mount` is where workers see the origin.
    """

    def __init__(
        self,
        name: str,
        endpoint: str,
        *,
        mount: str = "",
        authorization: str | None = None,
        conditions: Literal["etag", "none"] = "none",
        probe_path: str | None = None,
        settle_ms: int = 10_000,
        timeouts: Timeouts = _DEFAULT_TIMEOUTS,
        connections: int = 256,
        hold_back_bytes: int = HOLD_BACK_BYTES,
        spool_bytes: int = SPOOL_BYTES,
        max_spool_bytes: int = MAX_SPOOL_BYTES,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        address = Address.parse(endpoint, tls)
        authority = address.endpoint.authority
        self.name = name
        self._pool = Pool(address.endpoint, timeouts, connections)
        self._probe_path = probe_path
        self._site = Site(
            name,
            mount.rstrip("/"),
            Client(self._pool),
            RequestWriter(authority, address.base, authorization),
            endpoint.rstrip("/"),
            conditions == "etag",
            hold_back_bytes,
            spool_bytes,
            max_spool_bytes,
        )
        self.capabilities = Capabilities(
            conditions=conditions == "etag",
            exact=False,
            settle_ms=settle_ms,
            guarantee=guarantee(conditions, settle_ms, proven=False),
        )

    async def look(self, operation: Operation, scope: Scope) -> Look | ReadRefused:
        """The version at the path, where a condition can carry it (rule 12)."""
        action = operation.action
        if not isinstance(action, OriginRequest):
            return ReadRefused(_not_ours(self.name))
        if not self._site.conditions or action.method not in CONDITIONAL:
            return NotLooked()
        seen = await look(self._site, action)
        return ReadRefused(seen) if isinstance(seen, Problem) else seen

    async def write(self, operation: Operation, body: Body, fence: WriteFence) -> WriteResult:
        """Carry a mutation out (rules 5 and 12)."""
        if not isinstance(operation.action, OriginRequest):
            return NotWritten(_not_ours(self.name))
        try:
            return await write(self._site, operation.action, operation.conditions, body, fence)
        except BodyError as error:
            return NotWritten(error.problem)

    async def read(self, operation: Operation) -> ReadResult:
        """Answer a read."""
        if not isinstance(operation.action, OriginRequest):
            return ReadRefused(_not_ours(self.name))
        return await read(self._site, operation.action)

    async def carry(self, scope: Scope, mark: Mark) -> Mark | None:
        """An origin has no fence of its own."""
        return None

    async def probe(self) -> Capabilities:
        """Prove that the origin answers, and its conditions if there is a place to try them."""
        wrong = await check(self._site)
        if wrong is not None:
            raise ProbeFailed(wrong)
        if self._site.conditions and self._probe_path is not None:
            await prove(self._site, self._probe_path)
            said = guarantee("etag", self.capabilities.settle_ms, proven=True)
            self.capabilities = replace(self.capabilities, guarantee=said)
        return self.capabilities

    async def check(self) -> str | None:
        """See `Store.check`: the origin answers."""
        return await check(self._site)

    async def aclose(self) -> None:
        """Close every connection."""
        self._pool.close()


def guarantee(conditions: Literal["etag", "none"], settle_ms: int, *, proven: bool) -> str:
    """The promise for this origin, for the start-up."""
    drained = (
        f"exact while every effect of a request comes within settle_ms = {settle_ms} of its last "
        "byte (or of the reset of its connection)"
    )
    if conditions == "none":
        return (
            f'{drained}. WEAKER: conditions = "none", so an effect later than that can overwrite '
            "what a newer holder wrote; clients' own conditions are refused"
        )
    known = "proven at start" if proven else "taken on trust: set probe_path to prove it"
    return (
        f"{drained}; later than that, what the newer holder has since changed by PUT, PATCH or "
        f"DELETE is still protected by a condition on the version read at admission ({known})"
    )


def _not_ours(store: str) -> Problem:
    return Problem(Code.NOT_FENCED, f"store {store} is an HTTP origin: this is none of its work")
