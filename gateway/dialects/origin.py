"""The http dialect in front of an origin: requests pass as they came (ARCHITECTURE.md, "Flow").

Unlike with the objects of a files store, the origin gives the methods their meaning; the gateway
knows only which of them can change something (decisions, "What is a mutation"). A method that is
not in the table is refused, never passed through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gateway.dialects.bearer import authenticate
from gateway.dialects.entity_tags import conditions
from gateway.dialects.fence_fields import fence_fields
from gateway.dialects.http_answers import render_outcome
from gateway.dialects.origin_fields import complaint, forwarded
from gateway.dialects.plain_path import PlainPath, plain_path
from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.operation import Kind, Operation
from gateway.model.origin_request import OriginRequest
from gateway.model.outcome import Outcome
from gateway.model.problem import Code, Problem
from gateway.model.resource import Resource
from gateway.model.worker import Grant, WorkerKey
from gateway.ports.body import Body
from gateway.ports.dialect import Parsed, RawRequest, Reply
from gateway.ports.identity import TokenVerifier

_KINDS: Final[Mapping[str, Kind]] = {
    "GET": Kind.READ,
    "HEAD": Kind.READ,
    "OPTIONS": Kind.READ,
    "PROPFIND": Kind.READ,  # safe (RFC 4918, section 9.1)
    "PUT": Kind.WRITE,
    "POST": Kind.WRITE,
    "PATCH": Kind.WRITE,
    "MKCOL": Kind.WRITE,
    "DELETE": Kind.DELETE,
}
ALLOW: Final = ", ".join(_KINDS)
_NEVER: Final = frozenset({"TRACE", "CONNECT"})
_TWO_RESOURCES: Final = frozenset({"COPY", "MOVE"})
_CONTENT_BYTES: Final = 1_048_576
_RETRY_KEY: Final = re.compile(rb"[\x21-\x7e]{1,255}")


class OriginDialect:
    """Speaks HTTP for one origin, mounted at a path prefix (empty: at the root).

    `own_authorization`: the gateway has credentials of its own for the origin, so that those of
    workers are never passed on, whatever they were for.
    """

    name = "http"

    def __init__(
        self,
        store: str,
        mount: str,
        keys: Mapping[str, WorkerKey] | None,
        tokens: TokenVerifier | None = None,
        own_authorization: bool = False,
    ) -> None:
        self._store = store
        self._mount = mount.rstrip("/")
        self._keys = keys
        self._tokens = tokens
        self._drop_authorization = own_authorization or keys is not None

    async def parse(self, request: RawRequest) -> Parsed | Problem | Reply:
        """Understand a request. The body of a read is read, within a bound; others are left."""
        grant = authenticate(request, self._keys, self._store, self._tokens)
        if isinstance(grant, Problem):
            return grant
        kind = _KINDS.get(request.method)
        if kind is None:
            return _no_such_method(request.method)
        path = plain_path(request.path[len(self._mount) :])
        if isinstance(path, Problem):
            return path
        content: bytes | Problem = b""
        if not kind.mutates and request.body.length != 0:
            content = await _content(request.body)
        if isinstance(content, Problem):
            return content
        operation = self._operation(request, kind, path, grant, content)
        return operation if isinstance(operation, Problem) else Parsed(operation, request.body)

    def render(self, request: RawRequest, parsed: Parsed | None, outcome: Outcome) -> Reply:
        """Give the outcome its wire form."""
        operation = parsed.operation if parsed is not None else None
        return render_outcome(outcome, request.request_id, operation)

    def _operation(
        self,
        request: RawRequest,
        kind: Kind,
        path: PlainPath,
        grant: Grant | None,
        content: bytes,
    ) -> Operation | Problem:
        problem = complaint(request.fields, mutates=kind.mutates)
        if problem is not None:
            return problem
        fence = fence_fields(request.fields)
        if isinstance(fence, Problem):
            return fence
        wanted = _conditions(request, kind)
        if isinstance(wanted, Problem):
            return wanted
        retry_key = _retry_key(request)
        if isinstance(retry_key, Problem):
            return retry_key
        # What a DELETE of a collection removes lies below it (RFC 4918, section 9.6.1).
        exact = not (kind is Kind.DELETE and _is_collection(path))
        # An origin may take an escaped slash for a slash: both have the name of the latter.
        name = path.canonical.replace("%2F", "/")
        return Operation(
            resource=Resource(self._store, name, exact),
            route=f"{self._mount}/{name}",
            kind=kind,
            method=request.method,
            action=self._action(request, kind, content),
            token=fence[0],
            holder=fence[1],
            conditions=wanted,
            retry_key=retry_key if kind.mutates else None,
            request_id=request.request_id,
            grant=grant,
        )

    def _action(self, request: RawRequest, kind: Kind, content: bytes) -> OriginRequest:
        return OriginRequest(
            method=request.method,
            path=request.path[len(self._mount) :],
            query=request.query,
            fields=forwarded(
                request.fields, mutates=kind.mutates, own_authorization=self._drop_authorization
            ),
            length=request.body.length if kind.mutates else len(content),
            content=content,
        )


def _is_collection(path: PlainPath) -> bool:
    return not path.raw or path.raw.endswith("/") or path.canonical.endswith("%2F")


def _no_such_method(method: str) -> Problem:
    if method in _NEVER:
        return Problem(Code.METHOD_NOT_ALLOWED, f"{method} is never passed on", allow=ALLOW)
    if method in _TWO_RESOURCES:
        text = f"{method} touches two resources, and a token counts for one; use GET and PUT"
        return Problem(Code.NOT_FENCED, text)
    return Problem(Code.NOT_FENCED, f"{method} is not known here; use one of {ALLOW}")


async def _content(body: Body) -> bytes | Problem:
    """The body of a read, whole: a read is sent again on another connection when one fails."""
    pieces, size = [], 0
    if body.length is None or body.length <= _CONTENT_BYTES:
        async for piece in body:
            pieces.append(piece)
            size += len(piece)
            if size > _CONTENT_BYTES:
                break
        else:
            return b"".join(pieces)
    text = f"the body of a read can have at most {_CONTENT_BYTES} bytes here"
    return Problem(Code.BODY_TOO_LARGE, text, close=True)


def _conditions(request: RawRequest, kind: Kind) -> Conditions | Problem:
    if not kind.mutates:
        return NO_CONDITIONS
    return conditions(request.values(b"if-match"), request.values(b"if-none-match"))


def _retry_key(request: RawRequest) -> str | Problem | None:
    values = request.values(b"idempotency-key")
    if not values:
        return None
    if not _RETRY_KEY.fullmatch(values[0]):
        text = "Idempotency-Key must be 1 to 255 visible ASCII characters"
        return Problem(Code.REQUEST_MALFORMED, text)
    return values[0].decode("ascii")
