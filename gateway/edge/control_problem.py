"""A problem as the control API answers it: the shape of the http dialect (RFC 9457)."""

from __future__ import annotations

from fastapi import Request, Response

from gateway.dialects.problem_json import MEDIA_TYPE, problem_body
from gateway.model.problem import Code, Problem


def problem_answer(request: Request, problem: Problem) -> Response:
    """Give it its wire form, with the fields that its status asks for."""
    headers = {}
    if problem.retry_after_s is not None:
        headers["Retry-After"] = str(problem.retry_after_s)
    if problem.code is Code.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = 'Bearer realm="fencegate"'
    if problem.code in (Code.TOKEN_STALE, Code.TOKEN_REGRESSED) and problem.mark is not None:
        headers["X-Fence-Mark"] = str(problem.mark)
    if problem.allow is not None:
        headers["Allow"] = problem.allow
    body = problem_body(problem, request.headers.get("x-request-id", ""))
    return Response(body, problem.status, headers, media_type=MEDIA_TYPE.decode("ascii"))
