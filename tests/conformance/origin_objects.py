"""An `http` store as the object-store contract drives it: objects are things at a path."""

from __future__ import annotations

from email.utils import mktime_tz, parsedate_tz

from gateway.model.mark import Mark, Scope
from gateway.model.object_action import DeleteObject, Fields, GetObject, PutObject
from gateway.model.operation import Operation
from gateway.model.origin_request import OriginRequest, RawFields
from gateway.model.problem import Code, Problem
from gateway.model.reply import (
    NotModified,
    ObjectDeleted,
    ObjectFound,
    ObjectMeta,
    ObjectPut,
    ReadReply,
    Relay,
)
from gateway.model.version import Look
from gateway.ports.body import Body
from gateway.ports.store import (
    Capabilities,
    NotWritten,
    ReadDone,
    ReadRefused,
    ReadResult,
    WriteFence,
    WriteResult,
    Written,
)
from gateway.stores.http import OriginStore

_CODES = {404: Code.NOT_FOUND, 412: Code.PRECONDITION_FAILED, 416: Code.NOT_SATISFIABLE}
_OF_THE_ANSWER = {"etag", "last-modified", "content-length", "content-range"}


class OriginObjects:
    """Asks a store as the dialect would, and understands its answers as a client would."""

    def __init__(self, store: OriginStore, tag: bool = False) -> None:
        self.name = store.name
        self._store = store
        self._tag_by_look = tag

    @property
    def capabilities(self) -> Capabilities:
        """Those of the store."""
        return self._store.capabilities

    async def look(self, operation: Operation, scope: Scope) -> Look | ReadRefused:
        """Look at the path."""
        return await self._store.look(_asked(operation), scope)

    async def write(self, operation: Operation, body: Body, fence: WriteFence) -> WriteResult:
        """PUT or DELETE."""
        result = await self._store.write(_asked(operation), body, fence)
        if isinstance(result, Written) and isinstance(result.reply, Relay):
            if operation.method == "DELETE":
                return Written(ObjectDeleted())
            etag = _field(result.reply.fields, "etag") or await self._tag(operation)
            return Written(ObjectPut(etag, result.reply.status == 201))
        plain_delete = operation.method == "DELETE" and not operation.conditions
        if plain_delete and isinstance(result, NotWritten) and result.problem.status == 404:
            return Written(ObjectDeleted(existed=False))
        return result

    async def _tag(self, operation: Operation) -> str:
        """The tag of what was written, from origins that do not answer it to a PUT."""
        key = getattr(operation.action, "key", "")
        head = OriginRequest("HEAD", f"/{key}".encode(), b"")
        result = await self._store.read(_with(operation, head))
        assert isinstance(result, ReadDone)
        assert isinstance(result.reply, Relay)
        return _field(result.reply.fields, "etag") or ""

    async def read(self, operation: Operation) -> ReadResult:
        """GET or HEAD."""
        result = await self._store.read(_asked(operation))
        if not isinstance(result, ReadDone) or not isinstance(result.reply, Relay):
            return result
        relay = result.reply
        if relay.status in _CODES:
            if relay.chunks is not None:
                async for _ in relay.chunks:
                    pass
            return ReadRefused(Problem(_CODES[relay.status], "the origin's answer"))
        return ReadDone(_found(relay))

    async def carry(self, scope: Scope, mark: Mark) -> Mark | None:
        """As the store."""
        return await self._store.carry(scope, mark)

    async def probe(self) -> Capabilities:
        """As the store."""
        return await self._store.probe()

    async def check(self) -> str | None:
        """As the store."""
        return await self._store.check()

    async def aclose(self) -> None:
        """As the store."""
        await self._store.aclose()


def _asked(operation: Operation) -> Operation:
    action = operation.action
    match action:
        case PutObject(key=key, length=length, metadata=metadata):
            fields = tuple((n.encode(), v.encode("latin-1")) for n, v in metadata)
            asked = OriginRequest("PUT", f"/{key}".encode(), b"", fields, length)
        case DeleteObject(key=key):
            asked = OriginRequest("DELETE", f"/{key}".encode(), b"")
        case GetObject(key=key):
            method = "HEAD" if action.head else "GET"
            asked = OriginRequest(method, f"/{key}".encode(), b"", _read_fields(operation, action))
        case _:
            raise AssertionError(f"no law asks for {action!r} here")
    return _with(operation, asked)


def _with(operation: Operation, action: OriginRequest) -> Operation:
    return Operation(
        resource=operation.resource,
        route=operation.route,
        kind=operation.kind,
        method=action.method,
        action=action,
        token=operation.token,
        conditions=operation.conditions,
        request_id=operation.request_id,
    )


def _read_fields(operation: Operation, action: GetObject) -> RawFields:
    asked = {
        "range": action.range_,
        "if-match": ", ".join(operation.conditions.if_match or ()) or None,
        "if-none-match": ", ".join(operation.conditions.if_none_match or ()) or None,
        "if-modified-since": action.if_modified_since,
        "if-unmodified-since": action.if_unmodified_since,
    }
    return tuple((name.encode(), value.encode()) for name, value in asked.items() if value)


def _field(fields: Fields, name: str) -> str | None:
    return next((value for key, value in fields if key == name), None)


def _found(relay: Relay) -> ReadReply:
    etag = _field(relay.fields, "etag") or ""
    if relay.status == 304:
        return NotModified(etag)
    length = int(_field(relay.fields, "content-length") or 0)
    span = None
    if (shown := _field(relay.fields, "content-range")) is not None:
        part, _, total = shown.removeprefix("bytes ").partition("/")
        first, _, last = part.partition("-")
        span = (int(first), int(last), int(total))
    modified = parsedate_tz(_field(relay.fields, "last-modified"))
    meta = ObjectMeta(
        etag,
        span[2] if span else length,
        int(mktime_tz(modified)) if modified else 0,
        tuple(f for f in relay.fields if f[0] not in _OF_THE_ANSWER),
    )
    return ObjectFound(meta, length, span, relay.chunks)
