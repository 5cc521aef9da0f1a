"""Problems as `application/problem+json` (RFC 9457): the shape of the http dialect and the edge."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Final

from gateway.model.operation import Operation
from gateway.model.problem import Code, Problem
from gateway.ports.dialect import Reply

MEDIA_TYPE: Final = b"application/problem+json"

_TITLES: Final = MappingProxyType({code: code.value.replace("_", " ") for code in Code})


def problem_body(problem: Problem, request_id: str, operation: Operation | None = None) -> bytes:
    """Write a problem as JSON. `mark` appears on a stale refusal only (wire contract).

    Extension members (RFC 9457, section 3.2): `code`, `request_id`, and where they are known
    `resource`, `token`, `mark`, `details`, `hint`.
    """
    members: dict[str, str | int] = {
        "type": f"urn:fencegate:problem:{problem.code.value}",
        "title": _TITLES[problem.code],
        "status": problem.status,
        "detail": problem.message,
        "code": problem.code.value,
        "request_id": request_id,
    }
    if operation is not None:
        members["resource"] = f"{operation.resource.store}:{operation.resource.path}"
        if operation.token is not None:
            members["token"] = operation.token
    if problem.mark is not None and problem.code is Code.TOKEN_STALE:
        members["mark"] = problem.mark
    if problem.details is not None:
        members["details"] = problem.details
    if problem.hint is not None:
        members["hint"] = problem.hint
    return json.dumps(members, separators=(",", ":")).encode("ascii")


def problem_reply(problem: Problem, request_id: str, operation: Operation | None = None) -> Reply:
    """The whole answer, with the fields that its status asks for (Allow, WWW-Authenticate)."""
    fields = [(b"content-type", MEDIA_TYPE)]
    if problem.allow is not None:
        fields.append((b"allow", problem.allow.encode("ascii")))
    if problem.code is Code.UNAUTHENTICATED:
        fields.append((b"www-authenticate", b'Bearer realm="fencegate"'))
    body = problem_body(problem, request_id, operation)
    return Reply(problem.status, tuple(fields), body, close=problem.close)
