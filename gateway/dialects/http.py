"""The http dialect, reading half: plain requests for the objects of a store (RFC 9110, section 9).

GET and HEAD read, PUT replaces, DELETE removes. What the dialect does not know is refused, never
passed through (wire contract). How answers look is in `http_answers`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gateway.dialects.bearer import authenticate
from gateway.dialects.content_md5 import digested
from gateway.dialects.entity_tags import conditions
from gateway.dialects.fence_fields import fence_fields
from gateway.dialects.http_answers import render_outcome
from gateway.dialects.plain_path import PlainPath, is_directory, plain_path
from gateway.model.digest_fields import is_digest_field
from gateway.model.object_action import DeleteObject, Fields, GetObject, PutObject
from gateway.model.operation import Kind, Operation
from gateway.model.outcome import Outcome
from gateway.model.problem import Code, Problem
from gateway.model.resource import Resource
from gateway.model.worker import Grant, WorkerKey
from gateway.ports.dialect import Parsed, RawRequest, Reply
from gateway.ports.identity import TokenVerifier

ALLOW: Final = "GET, HEAD, PUT, DELETE, OPTIONS"

_KINDS: Final[Mapping[str, Kind]] = {
    "GET": Kind.READ,
    "HEAD": Kind.READ,
    "PUT": Kind.WRITE,
    "DELETE": Kind.DELETE,
}
_KNOWN_METHODS: Final = frozenset({"POST", "PATCH", "TRACE", "CONNECT"})
_RETRY_KEY: Final = re.compile(rb"[\x21-\x7e]{1,255}")

# Kept with the object and given back with it. A list may come in several lines, the others not.
_KEPT: Final[Mapping[bytes, bool]] = {
    b"cache-control": True,
    b"content-disposition": False,
    b"content-encoding": True,
    b"content-language": True,
    b"content-type": False,
    b"expires": False,
}
_SINGLE: Final = (
    b"content-type",
    b"content-disposition",
    b"expires",
    b"range",
    b"if-modified-since",
    b"if-unmodified-since",
    b"idempotency-key",
)


class HttpDialect:
    """Speaks plain HTTP for one store, mounted at a path prefix (empty: at the root)."""

    name = "http"

    def __init__(
        self,
        store: str,
        mount: str,
        keys: Mapping[str, WorkerKey] | None,
        tokens: TokenVerifier | None = None,
    ) -> None:
        self._store = store
        self._mount = mount.rstrip("/")
        self._keys = keys
        self._tokens = tokens

    async def parse(self, request: RawRequest) -> Parsed | Problem | Reply:
        """Understand a request; the body is left to the store."""
        if request.method == "OPTIONS":
            return Reply(204, ((b"allow", ALLOW.encode("ascii")),))
        grant = authenticate(request, self._keys, self._store, self._tokens)
        if isinstance(grant, Problem):
            return grant
        kind = _KINDS.get(request.method)
        if kind is None:
            return _no_such_method(request.method)
        path = plain_path(request.path[len(self._mount) :])
        if isinstance(path, Problem):
            return path
        if is_directory(path):
            return _is_directory(kind)
        operation = self._operation(request, kind, path, grant)
        if isinstance(operation, Problem):
            return operation
        digests = request.values(b"content-md5") if kind is Kind.WRITE else []
        body = digested(request.body, digests)
        if isinstance(body, Problem):
            return body
        return Parsed(operation, body)

    def render(self, request: RawRequest, parsed: Parsed | None, outcome: Outcome) -> Reply:
        """Give the outcome its wire form."""
        operation = parsed.operation if parsed is not None else None
        return render_outcome(outcome, request.request_id, operation)

    def _operation(
        self, request: RawRequest, kind: Kind, path: PlainPath, grant: Grant | None
    ) -> Operation | Problem:
        problem = _check_fields(request, kind)
        if problem is not None:
            return problem
        fence = fence_fields(request.fields)
        if isinstance(fence, Problem):
            return fence
        wanted = conditions(request.values(b"if-match"), request.values(b"if-none-match"))
        if isinstance(wanted, Problem):
            return wanted
        retry_key = _text(request, b"idempotency-key")
        return Operation(
            resource=Resource(self._store, path.canonical),
            route=f"{self._mount}/{path.canonical}",
            kind=kind,
            method=request.method,
            action=_action(request, kind, path.raw),
            token=fence[0],
            holder=fence[1],
            conditions=wanted,
            retry_key=retry_key if kind.mutates else None,
            request_id=request.request_id,
            grant=grant,
        )


def _no_such_method(method: str) -> Problem:
    if method in _KNOWN_METHODS:
        text = f"{method} is not offered for objects; use one of {ALLOW}"
        return Problem(Code.METHOD_NOT_ALLOWED, text, allow=ALLOW)
    return Problem(Code.NOT_FENCED, f"{method} is not known here; use one of {ALLOW}")


def _is_directory(kind: Kind) -> Problem:
    if kind.mutates:
        text = "the path names a directory: an object's path does not end in a slash"
        return Problem(Code.REQUEST_MALFORMED, text)
    return Problem(Code.NOT_FOUND, "the path names a directory, and directories are not listed")


def _check_fields(request: RawRequest, kind: Kind) -> Problem | None:
    """Refuse what is ambiguous, and the conditions that nobody would check."""
    seen: set[bytes] = set()
    for name, value in request.fields:
        if name not in _SINGLE:
            continue
        if name in seen:
            return Problem(Code.REQUEST_MALFORMED, f"send {name.decode('ascii')} at most once")
        if name == b"idempotency-key" and not _RETRY_KEY.fullmatch(value):
            text = "Idempotency-Key must be 1 to 255 visible ASCII characters"
            return Problem(Code.REQUEST_MALFORMED, text)
        seen.add(name)
    if not kind.mutates:
        return None
    if b"if-unmodified-since" in seen:
        text = "If-Unmodified-Since is not checked on writes; send If-Match with the entity tag"
        return Problem(Code.CONDITION_UNSUPPORTED, text)
    if request.values(b"content-range"):
        text = "Content-Range is not accepted: a write replaces the whole object"  # RFC 9110, 14.5
        return Problem(Code.REQUEST_MALFORMED, text)
    return None


def _action(request: RawRequest, kind: Kind, key: str) -> GetObject | PutObject | DeleteObject:
    if kind is Kind.WRITE:
        digests = tuple(
            (name.decode("ascii"), value.decode("latin-1"))
            for name, value in sorted(request.fields)
            if is_digest_field(name)
        )
        length, metadata = request.body.length, _metadata(request)
        return PutObject("", key, length, metadata, digests=digests)
    if kind is Kind.DELETE:
        return DeleteObject("", key)
    return GetObject(
        bucket="",
        key=key,
        head=request.method == "HEAD",
        range_=_range(request),
        if_modified_since=_text(request, b"if-modified-since"),
        if_unmodified_since=_text(request, b"if-unmodified-since"),
    )


def _range(request: RawRequest) -> str | None:
    """The Range, unless it depends on an If-Range: then the whole object is the safe answer.

    RFC 9110, section 14.2: ranges are for GET alone; section 13.1.5: a range whose validator is
    not known to match is ignored.
    """
    if request.method != "GET" or request.values(b"if-range"):
        return None
    return _text(request, b"range")


def _text(request: RawRequest, name: bytes) -> str | None:
    values = request.values(name)
    return values[0].decode("latin-1") if values else None


def _metadata(request: RawRequest) -> Fields:
    kept: dict[bytes, bytes] = {}
    for name, value in request.fields:
        if name in _KEPT:
            kept[name] = kept[name] + b", " + value if name in kept else value
    return tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in kept.items())
