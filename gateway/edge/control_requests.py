"""The control API's answer to "what became of my request?", for the admin and its own worker.

Source: decisions, "Control API". A worker is told of the requests of its own key alone; of all
others it hears the same as of those that never were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Protocol

from fastapi import APIRouter, Query, Request, Response, Security
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel

from gateway.dialects.bearer import grant_of
from gateway.edge.admin_gate import FOR_WORKERS, Admins
from gateway.edge.control_problem import problem_answer
from gateway.engine.request_log import Entry
from gateway.model.problem import Code, Problem
from gateway.model.worker import WorkerKey
from gateway.ports.identity import TokenVerifier


class RequestDesk(Protocol):
    """What knows what became of requests."""

    def find(self, name: str) -> tuple[Entry, ...]:
        """What is known under a request id, else under a client's key: one entry for each lease."""
        ...


class RequestView(BaseModel):
    """What became of a request: in-flight, applied, refused or unknown.

    `settled` tells that it was found out after the request had been answered as unknown.
    """

    id: str
    outcome: str
    settled: bool
    code: str | None
    store: str
    scope: str
    token: int | None
    holder: str | None
    key: str | None


class Askers:
    """Who asks: the admin, a worker by its key, or nobody. `keys` are exchanged at a reload."""

    def __init__(
        self,
        admins: Admins,
        keys: Mapping[str, WorkerKey],
        wall_s: Callable[[], float],
        tokens: TokenVerifier | None = None,
    ) -> None:
        self._admins = admins
        self.keys = keys
        self._tokens = tokens
        self._wall_s = wall_s

    def sees(self, authorization: str) -> Callable[[Entry], bool] | None:
        """Which entries the bearer of this field may see; None for nobody's."""
        if self._admins.find(authorization) is not None:
            return lambda entry: True
        scheme, _, given = authorization.partition(" ")
        secret = given.strip().encode("utf-8", "surrogateescape")
        if scheme.lower() != "bearer":
            return None
        grant = grant_of(secret, self.keys, self._wall_s(), self._tokens)
        if isinstance(grant, Problem):
            return None
        worker = grant.worker
        return lambda entry: entry.worker == worker


def request_routes(desk: RequestDesk, askers: Askers) -> APIRouter:
    """GET /v1/requests/{id}."""
    scheme = HTTPBearer(scheme_name="admin or worker", auto_error=False)
    router = APIRouter(dependencies=[Security(scheme)])

    @router.get(FOR_WORKERS + "{id:path}", response_model=RequestView)
    async def request(
        request: Request,
        id: str,
        scope: Annotated[str | None, Query(max_length=512)] = None,
    ) -> Response:
        """What became of a mutation: by the X-Request-Id of its answer, or by the client's own key.

        A key that was used in several leases needs `scope`. For the admin, and for the worker whose
        key sent the request. What is known is kept in memory, per process, for a while.
        """
        sees = askers.sees(request.headers.get("authorization", ""))
        if sees is None:
            text = 'send "Authorization: Bearer <key>": the admin key, or that of the worker'
            return problem_answer(request, Problem(Code.UNAUTHENTICATED, text))
        found = [e for e in desk.find(id) if sees(e) and scope in (None, e.scope)]
        if not found:
            return problem_answer(request, _not_known())
        if len(found) > 1:
            return problem_answer(request, _ambiguous(found))
        return JSONResponse(_view(found[0]).model_dump())

    return router


def _not_known() -> Problem:
    return Problem(
        Code.NOT_FOUND,
        "this gateway process knows no such request of yours (any more): ask each replica, or "
        "send the request again with the same Idempotency-Key",
    )


def _ambiguous(found: list[Entry]) -> Problem:
    scopes = sorted({entry.scope for entry in found})
    text = "this key names a request in several leases: "
    if len(scopes) > 1:
        return Problem(Code.REQUEST_MALFORMED, text + f"add ?scope= with one of {scopes}")
    return Problem(Code.REQUEST_MALFORMED, text + "ask with the X-Request-Id of the answer")


def _view(entry: Entry) -> RequestView:
    return RequestView(
        id=entry.request_id,
        outcome=entry.state.value,
        settled=entry.settled,
        code=entry.code,
        store=entry.store,
        scope=entry.scope,
        token=entry.token,
        holder=entry.holder,
        key=entry.key,
    )
