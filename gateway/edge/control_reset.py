"""`POST /v1/reset`: the one way in which a mark goes down (wire contract, "Compare rule")."""

from __future__ import annotations

from typing import Annotated, Protocol

from fastapi import APIRouter, Request, Response, Security
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from gateway.edge.control_problem import problem_answer
from gateway.edge.control_views import Reach, ScopeView, unreachable, view
from gateway.model.mark import Mark, Scope
from gateway.model.problem import Problem


class ResetDesk(Protocol):
    """What the engine offers for a reset."""

    async def reset(self, scope: Scope, reason: str) -> Mark | Problem:
        """Drain the scope and start its next era, with an empty mark."""
        ...


class ResetRequest(BaseModel):
    """The scope to reset, and why; the reason goes to the audit trail and the log."""

    model_config = ConfigDict(extra="forbid")

    scope: Annotated[str, Field(min_length=1, max_length=512)]
    reason: Annotated[str, Field(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*[^\x00-\x20\x7f]$")]


def reset_routes(desk: ResetDesk, reach: Reach | None) -> APIRouter:
    """The route, over the engine's desk."""
    scheme = HTTPBearer(scheme_name="admin", auto_error=False)
    router = APIRouter(prefix="/v1", dependencies=[Security(scheme)])

    @router.post("/reset", response_model=ScopeView)
    async def reset(request: Request, wanted: ResetRequest) -> Response:
        """Drain a scope and start its next era: every token is new again. Needs the admin key.

        The promise does not span it: a holder from before the reset whose token is high enough
        writes again. Stop the workers first.
        """
        scope = Scope(wanted.scope)
        if reach is not None and not reach(scope):
            return problem_answer(request, unreachable(scope))
        mark = await desk.reset(scope, wanted.reason)
        if isinstance(mark, Problem):
            return problem_answer(request, mark)
        return JSONResponse(view(scope, mark).model_dump())

    return router
