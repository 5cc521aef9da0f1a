"""The control API: seals and scopes for the admin, metrics and health for operators.

Source: decisions, "Control API" and "Access". Scopes contain slashes, so they travel in the query
or the body. FastAPI serves this plane only; the data plane never passes through it.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Annotated, Final, Protocol

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from gateway.model.claim import ScopeRow
from gateway.model.mark import Mark, Scope
from gateway.model.problem import Code, Problem
from gateway.model.token import MAX_TOKEN, Holder, Token
from gateway.ports.registry import RegistryUnavailable

_PAGE: Final = 1000
_NOT_ALLOWED: Final = 405
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class SealDesk(Protocol):
    """What the engine offers to the control API."""

    async def seal(
        self, scope: Scope, token: Token | None, holder: Holder | None
    ) -> Mark | Problem:
        """Raise the mark of a scope and drain."""
        ...

    async def scope(self, scope: Scope) -> ScopeRow | None:
        """One scope. Raises `RegistryUnavailable`."""
        ...

    async def scopes(self, after: Scope | None, limit: int) -> tuple[ScopeRow, ...]:
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


class ScopeView(BaseModel):
    """A scope with its mark."""

    scope: str
    era: int
    token: int
    burnt: bool
    holder: str | None
    registrations: int | None = None


class ScopePage(BaseModel):
    """A page of scopes in name order; `next` is the `after` of the following page."""

    scopes: list[ScopeView]
    next: str | None


def control_app(
    desk: SealDesk,
    readiness: Health,
    *,
    admin_key: str,
    exposition: Callable[[], bytes],
    digest: str,
    version: str,
) -> FastAPI:
    """The control API as an ASGI app, over the engine's desk."""
    app = FastAPI(title="Fencegate control API", version=version, docs_url=None, redoc_url=None)
    _answer_problems(app)
    _health_routes(app, readiness, exposition, digest)
    _scope_routes(app, desk, admin_key)
    return app


def _health_routes(
    app: FastAPI, readiness: Health, exposition: Callable[[], bytes], digest: str
) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process is alive."""
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        """The gateway can do its work; otherwise 503 with what is wrong."""
        parts = await readiness.ready()
        wrong = {name: text for name, text in parts.items() if text is not None}
        body = {"status": "unready" if wrong else "ready", "policy": digest, "wrong": wrong}
        return JSONResponse(body, 503 if wrong else 200)

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Metrics in the Prometheus text format."""
        return Response(exposition(), media_type=_METRICS_TYPE)


def _scope_routes(app: FastAPI, desk: SealDesk, admin_key: str) -> None:
    @app.post("/v1/seal", response_model=ScopeView)
    async def seal(request: Request, wanted: SealRequest) -> Response:
        """Raise the mark of a scope and drain, without a write. Needs the admin key."""
        refused = _not_admin(request, admin_key)
        if refused is not None:
            return _problem(refused)
        token = None if wanted.token is None else Token(wanted.token)
        holder = None if wanted.holder is None else Holder(wanted.holder)
        mark = await desk.seal(Scope(wanted.scope), token, holder)
        if isinstance(mark, Problem):
            return _problem(mark)
        return JSONResponse(_view(wanted.scope, mark).model_dump(exclude_none=False))

    @app.get("/v1/scopes", response_model=ScopeView | ScopePage)
    async def scopes(
        request: Request,
        name: Annotated[str | None, Query(max_length=512)] = None,
        after: Annotated[str | None, Query(max_length=512)] = None,
        limit: Annotated[int, Query(ge=1, le=_PAGE)] = 100,
    ) -> Response:
        """One scope by its name, or a page of all. Needs the admin key."""
        refused = _not_admin(request, admin_key)
        if refused is not None:
            return _problem(refused)
        try:
            if name is not None:
                return _one(await desk.scope(Scope(name)), name)
            rows = await desk.scopes(None if after is None else Scope(after), limit)
        except RegistryUnavailable as failed:
            return _problem(Problem(Code.REGISTRY_UNAVAILABLE, str(failed), retry_after_s=1))
        views = [_view(r.scope, r.mark, r.registrations) for r in rows]
        page = ScopePage(scopes=views, next=rows[-1].scope if len(rows) == limit else None)
        return JSONResponse(page.model_dump())


def _one(row: ScopeRow | None, name: str) -> Response:
    if row is None:
        text = f"no token was ever seen for scope {name}; check the spelling"
        return _problem(Problem(Code.NOT_FOUND, text))
    return JSONResponse(_view(row.scope, row.mark, row.registrations).model_dump())


def _view(scope: str, mark: Mark, registrations: int | None = None) -> ScopeView:
    return ScopeView(
        scope=scope,
        era=mark.era,
        token=mark.token,
        burnt=mark.burnt,
        holder=mark.holder,
        registrations=registrations,
    )


def _not_admin(request: Request, admin_key: str) -> Problem | None:
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if hmac.compare_digest(given.encode(), admin_key.encode()):
        return None
    text = 'send "Authorization: Bearer <admin key>": FENCEGATE_ADMIN_KEY or data/admin-key'
    return Problem(Code.UNAUTHENTICATED, text)


def _problem(problem: Problem) -> Response:
    body = {
        "type": "about:blank",
        "title": problem.code.value,
        "status": problem.status,
        "code": problem.code.value,
        "detail": problem.message,
    }
    headers = {}
    if problem.retry_after_s is not None:
        headers["Retry-After"] = str(problem.retry_after_s)
    if problem.code is Code.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(body, problem.status, headers, media_type="application/problem+json")


def _answer_problems(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        del request
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return _problem(Problem(Code.REQUEST_MALFORMED, f"{where}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        if error.status_code == _NOT_ALLOWED:
            text = f"{request.method} is not a method of this path"
            return _problem(Problem(Code.METHOD_NOT_ALLOWED, text))
        return _problem(Problem(Code.NOT_FOUND, "there is nothing at this path"))
