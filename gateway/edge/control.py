"""The control API: seals and scopes for the admin, metrics and health for operators.

Source: decisions, "Control API" and "Access". Scopes contain slashes, so they travel in the query
or the body. FastAPI serves this plane only; the data plane never passes through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Protocol, cast

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from gateway.edge.admin_gate import OPEN, AdminGate, Admins, Before
from gateway.edge.control_problem import problem_answer
from gateway.edge.control_replicas import ReplicasDesk, replicas_routes
from gateway.edge.control_requests import Askers, RequestDesk, request_routes
from gateway.edge.control_reset import ResetDesk, reset_routes
from gateway.edge.control_strict import Malformed, strict
from gateway.edge.control_views import Reach, ScopePage, ScopeView, row_view, unreachable, view
from gateway.engine.refusals import never_seen
from gateway.model.claim import ScopePage as Scopes
from gateway.model.claim import ScopeRow
from gateway.model.mark import Mark, Scope
from gateway.model.problem import Code, Problem
from gateway.model.token import MAX_TOKEN, Holder, Token
from gateway.ports.registry import RegistryUnavailable

_PAGE: Final = 1000
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BAD_REQUEST: Final = 400
_METHOD_NOT_ALLOWED: Final = 405
_RETRY_S: Final = 1


class Desk(ResetDesk, ReplicasDesk, Protocol):
    """What the engine offers to the control API."""

    async def seal(
        self, scope: Scope, token: Token | None, holder: Holder | None
    ) -> Mark | Problem:
        """Raise the mark of a scope and drain. Without a token the next one is issued."""
        ...

    async def scope(self, scope: Scope) -> ScopeRow | None:
        """One scope. Raises `RegistryUnavailable`."""
        ...

    async def scopes(self, after: str | None, limit: int) -> Scopes:
        """A page of scopes. Raises `RegistryUnavailable`."""
        ...


class Health(Protocol):
    """What says whether the gateway can do its work."""

    async def ready(self) -> Mapping[str, str | None]:
        """Each part with what is wrong with it, or None."""
        ...


class SealRequest(BaseModel):
    """The scope to seal. Without a token, the next one is issued."""

    model_config = ConfigDict(extra="forbid")

    scope: Annotated[str, Field(min_length=1, max_length=512)]
    token: Annotated[int | None, Field(ge=1, le=MAX_TOKEN, strict=True)] = None
    holder: Annotated[str | None, Field(pattern=r"^[\x21-\x7e]{1,128}$")] = None


class ProblemView(BaseModel):
    """An error answer (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str


class Ready(BaseModel):
    """Whether the gateway can do its work; `wrong` has each part that cannot, and why."""

    status: str
    policy: Annotated[str, Field(description="Digest of what derives scopes from requests.")]
    wrong: dict[str, str]


def control_app(
    desk: Desk,
    readiness: Health,
    *,
    admins: Admins,
    exposition: Callable[[], bytes],
    digest: Callable[[], str],
    version: str,
    reach: Reach | None = None,
    requests: tuple[RequestDesk, Askers] | None = None,
) -> FastAPI:
    """The control API as an ASGI app, over the engine's desk.

    With `reach`, a seal of a scope that no request can ever have is refused as a misspelling.
    With `requests`, workers and the admin can ask what became of one.
    """
    app = FastAPI(
        title="Fencegate control API",
        version=version,
        docs_url=None,
        redoc_url=None,
        openapi_url=OPEN,
        responses={"default": {"model": ProblemView, "description": "What to change."}},
    )
    app.add_middleware(AdminGate, admins=admins, before=_state_of(desk))
    _answer_problems(app)
    app.include_router(_health_routes(readiness, exposition, digest))
    checked = [Depends(strict)]
    app.include_router(_scope_routes(desk, reach), dependencies=checked)
    app.include_router(reset_routes(desk, reach), dependencies=checked)
    app.include_router(replicas_routes(desk), dependencies=checked)
    if requests is not None:
        app.include_router(request_routes(*requests), dependencies=checked)
    return app


def describe(version: str) -> dict[str, Any]:
    """The OpenAPI document. Nothing is served or called."""
    app = control_app(
        cast(Desk, None),
        cast(Health, None),
        admins=Admins((), lambda: 0.0),
        exposition=bytes,
        digest=str,
        version=version,
        requests=(cast(RequestDesk, None), cast(Askers, None)),
    )
    return app.openapi()


def _state_of(desk: Desk) -> Before:
    async def before(name: str) -> object:
        try:
            row = await desk.scope(Scope(name))
        except RegistryUnavailable as silent:
            return {"unread": str(silent)}
        return None if row is None else row_view(row).model_dump()

    return before


def _health_routes(
    readiness: Health, exposition: Callable[[], bytes], digest: Callable[[], str]
) -> APIRouter:
    router = APIRouter()

    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process is alive."""
        return {"status": "ok"}

    @router.get("/readyz", response_model=Ready, responses={503: {"model": Ready}})
    async def readyz() -> JSONResponse:
        """The gateway can do its work; otherwise 503 with what is wrong."""
        parts = await readiness.ready()
        wrong = {name: text for name, text in parts.items() if text is not None}
        body = {"status": "unready" if wrong else "ready", "policy": digest(), "wrong": wrong}
        return JSONResponse(body, 503 if wrong else 200)

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        """Metrics in the Prometheus text format."""
        return Response(exposition(), media_type=_METRICS_TYPE)

    return router


def _scope_routes(desk: Desk, reach: Reach | None) -> APIRouter:
    # It is AdminGate that checks the key; this tells the OpenAPI document of it.
    scheme = HTTPBearer(scheme_name="admin", auto_error=False)
    router = APIRouter(prefix="/v1", dependencies=[Security(scheme)])

    @router.post("/seal", response_model=ScopeView)
    async def seal(request: Request, wanted: SealRequest) -> Response:
        """Raise the mark of a scope and drain, without a write. Needs the admin key."""
        scope = Scope(wanted.scope)
        if reach is not None and not reach(scope):
            return problem_answer(request, unreachable(scope))
        token = None if wanted.token is None else Token(wanted.token)
        holder = None if wanted.holder is None else Holder(wanted.holder)
        mark = await desk.seal(scope, token, holder)
        if isinstance(mark, Problem):
            return problem_answer(request, mark)
        return JSONResponse(view(scope, mark).model_dump())

    @router.get("/scopes", response_model=ScopeView | ScopePage)
    async def scopes(
        request: Request,
        name: Annotated[str | None, Query(min_length=1, max_length=512)] = None,
        after: Annotated[str | None, Query(max_length=512)] = None,
        limit: Annotated[int, Query(ge=1, le=_PAGE)] = 100,
    ) -> Response:
        """One scope by its name, or a page of all. Needs the admin key."""
        if name is not None:
            row = await desk.scope(Scope(name))
            if row is None:
                return problem_answer(request, never_seen(name))
            return JSONResponse(row_view(row).model_dump())
        found = await desk.scopes(after or None, limit)
        page = ScopePage(scopes=[row_view(row) for row in found.rows], next=found.next)
        return JSONResponse(page.model_dump())

    return router


def _answer_problems(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        text = "; ".join(_finding(finding) for finding in error.errors())
        return problem_answer(request, Problem(Code.REQUEST_MALFORMED, text))

    @app.exception_handler(Malformed)
    async def malformed(request: Request, error: Malformed) -> Response:
        return problem_answer(request, error.problem)

    @app.exception_handler(RegistryUnavailable)
    async def unavailable(request: Request, error: RegistryUnavailable) -> Response:
        text = f"the registry did not answer: {error}"
        problem = Problem(Code.REGISTRY_UNAVAILABLE, text, retry_after_s=_RETRY_S)
        return problem_answer(request, problem)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        if error.status_code == _METHOD_NOT_ALLOWED:
            text = f"{request.method} is not a method of {request.url.path}"
            allow = (error.headers or {}).get("Allow")
            return problem_answer(request, Problem(Code.METHOD_NOT_ALLOWED, text, allow=allow))
        if error.status_code == _BAD_REQUEST:  # a body that the parser gave up on
            text = "body: must be a JSON object in UTF-8"
            return problem_answer(request, Problem(Code.REQUEST_MALFORMED, text))
        text = f"there is nothing at {request.url.path}; {OPEN} lists what there is"
        return problem_answer(request, Problem(Code.NOT_FOUND, text))


def _finding(finding: Any) -> str:
    """One finding of the validator, without the value that was sent."""
    where = ".".join(str(part) for part in finding["loc"])
    return f"{where}: {finding['msg']}"
