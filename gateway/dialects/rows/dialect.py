"""The rows dialect: from a request to an operation on rows, and from its outcome to an answer.

Source: PostgREST reference; wire contract. What is not in the subset is refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from difflib import get_close_matches
from typing import Final
from urllib.parse import quote, urlencode

from gateway.dialects.bearer import authenticate
from gateway.dialects.entity_tags import conditions
from gateway.dialects.fence_fields import fence_fields
from gateway.dialects.rows.accept import BodyForm, Shape, body_form, wanted_shape
from gateway.dialects.rows.canonical import escaped
from gateway.dialects.rows.context import RowsContext
from gateway.dialects.rows.describe import describe
from gateway.dialects.rows.prefer import parse_prefer
from gateway.dialects.rows.problems import (
    RequestError,
    bad_path,
    bad_put,
    bad_schema,
    no_table,
    unsupported,
)
from gateway.dialects.rows.query import Pairs, decode, parse_query, with_range
from gateway.dialects.rows.render import render_outcome
from gateway.dialects.rows.understand import Asked, action_of, check_conditions
from gateway.dialects.rows.unnamed import unnamed
from gateway.model.catalogue import Catalogue, Table
from gateway.model.conditions import Conditions
from gateway.model.operation import Kind, Operation
from gateway.model.outcome import Outcome
from gateway.model.problem import Code, Problem
from gateway.model.resource import Resource
from gateway.model.token import Holder, Token
from gateway.model.worker import Grant, WorkerKey
from gateway.ports.body import Body, BodyError
from gateway.ports.dialect import Parsed, RawRequest, Reply
from gateway.ports.identity import TokenVerifier

_KINDS: Final = {
    **dict.fromkeys(("POST", "PUT", "PATCH"), Kind.WRITE),
    "DELETE": Kind.DELETE,
}
_READS: Final = frozenset({"GET", "HEAD"})
_ALLOW: Final = "GET, HEAD, POST, PUT, PATCH, DELETE"
_NOT_HERE: Final = frozenset({"OPTIONS", "TRACE", "CONNECT"})
_PAGE: Final = re.compile(rb"(?:^|&)(?:limit|offset)=")
_MAX_RETRY_KEY_CHARS: Final = 255


class NoBody:
    """The body of a request whose body was read already, or does not matter."""

    length: int | None = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield nothing."""
        for piece in tuple[bytes, ...]():
            yield piece


class RowsDialect:
    """PostgREST's wire language, for one store mounted at a path.

    `catalogue` is asked on each request, so that a store may reload it. `keys` None: the store is
    open to everybody. `mount` has no slash at its end.
    """

    name = "rows"

    def __init__(
        self,
        store: str,
        mount: str,
        catalogue: Callable[[], Catalogue],
        keys: Mapping[str, WorkerKey] | None,
        max_body_bytes: int = 1_048_576,
        tokens: TokenVerifier | None = None,
    ) -> None:
        self._store = store
        self._mount = mount
        self._catalogue = catalogue
        self._keys = keys
        self._tokens = tokens
        self._max_body_bytes = max_body_bytes

    async def parse(self, request: RawRequest) -> Parsed | Problem | Reply:
        """Understand a request, body included. Authenticates the worker first."""
        grant = authenticate(request, self._keys, self._store, self._tokens)
        if isinstance(grant, Problem):
            return grant
        fence = fence_fields(request.fields)
        if isinstance(fence, Problem):
            return fence
        wanted = conditions(request.values(b"if-match"), request.values(b"if-none-match"))
        if isinstance(wanted, Problem):
            return wanted
        if request.method in _READS and request.path in (root := self._mount.encode(), root + b"/"):
            return describe(request.method, self._catalogue(), self._mount)
        try:
            return await self._understand(request, grant, fence, wanted)
        except (RequestError, BodyError) as error:
            return error.problem

    def render(self, request: RawRequest, parsed: Parsed | None, outcome: Outcome) -> Reply:
        """Write the outcome as PostgREST would, without the X-Fence-* fields."""
        context = parsed.context if parsed is not None else None
        assert context is None or isinstance(context, RowsContext)
        return render_outcome(request.method, context, outcome)

    async def _understand(
        self,
        request: RawRequest,
        grant: Grant | None,
        fence: tuple[Token | None, Holder | None],
        wanted: Conditions,
    ) -> Parsed:
        _check_method(request.method)
        table = self._table(request)
        reads = request.method in _READS
        _check_page_of_put(request)
        query = parse_query(request.query, mutates=not reads)
        if reads:
            query = with_range(query, request.values(b"range"), request.values(b"range-unit"))
        preferences = parse_prefer(
            request.values(b"prefer"),
            request.method,
            resolvable=bool(table.primary_key or query.on_conflict),
        )
        shape = wanted_shape(request.values(b"accept"))
        body, form = await self._body(request)
        asked = Asked(request.method, table, query, preferences, shape, body, form, wanted)
        action, keys = (found := action_of(asked)).action, found.keys
        pinned = len(keys) == 1
        check_conditions(request.method, wanted, table, pinned=pinned, single=shape is Shape.OBJECT)
        path = escaped(table.name) + (f"/{keys[0]}" if pinned else "")
        default_kind = Kind.READ if pinned or shape is Shape.OBJECT else Kind.LIST
        operation = Operation(
            resource=Resource(self._store, path, exact=pinned),
            route=f"{self._mount}/{path}",
            kind=_KINDS.get(request.method, default_kind),
            method=request.method,
            action=action,
            token=fence[0],
            holder=fence[1],
            conditions=wanted,
            retry_key=_retry_key(request.values(b"idempotency-key")),
            request_id=request.request_id,
            grant=grant,
            unnamed="" if pinned else unnamed(action, table),
            routes=() if len(keys) < 2 else tuple(f"{self._mount}/{path}/{k}" for k in keys),
        )
        return Parsed(operation, NoBody(), self._context(asked))

    def _context(self, asked: Asked) -> RowsContext:
        location = f"{self._mount}/{escaped(asked.table.name)}"
        return RowsContext(
            location=location,
            shape=asked.shape,
            counted=asked.preferences.count is not None,
            resolution=asked.preferences.resolution,
            returning=asked.preferences.returning,
            applied=asked.preferences.applied,
            content_location=_sorted_location(location, asked.query.pairs),
            primary_key=asked.table.primary_key,
        )

    def _table(self, request: RawRequest) -> Table:
        segments = request.path.removeprefix(self._mount.encode()).split(b"/")
        if len(segments) == 3 and segments[1] == b"rpc":
            name = decode(segments[2])
            raise RequestError(unsupported(f'the function call "rpc/{name}"', mutates=True))
        if len(segments) != 2 or segments[0] or not segments[1]:
            raise RequestError(bad_path())
        catalogue = self._catalogue()
        _check_profile(request, catalogue.schema)
        name = decode(segments[1])
        table = catalogue.tables.get(name)
        if table is None:
            near = get_close_matches(name, catalogue.tables, n=1)
            hint = f"Perhaps you meant the table '{catalogue.schema}.{near[0]}'" if near else None
            raise RequestError(no_table(name, catalogue.schema, hint))
        return table

    async def _body(self, request: RawRequest) -> tuple[bytes, BodyForm]:
        """Read the body. That of a DELETE is dropped: PostgREST's clients send `{}` with it."""
        if request.method in _READS:
            return b"", BodyForm.JSON
        form = BodyForm.JSON
        if request.method != "DELETE":
            form = body_form(request.values(b"content-type"), request.values(b"content-encoding"))
        body = await _read(request.body, self._max_body_bytes)
        return (b"" if request.method == "DELETE" else body), form


async def _read(body: Body, limit_bytes: int) -> bytes:
    pieces, size = [], 0
    if body.length is not None and body.length > limit_bytes:
        raise RequestError(_too_large(limit_bytes))
    async for piece in body:
        size += len(piece)
        if size > limit_bytes:
            raise RequestError(_too_large(limit_bytes))
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(limit_bytes: int) -> Problem:
    message = f"the body is larger than {limit_bytes} bytes (limits.max_rows_body_bytes)"
    return Problem(Code.BODY_TOO_LARGE, message, close=True)


def _check_method(method: str) -> None:
    if method in _READS or method in _KINDS:
        return
    if method in _NOT_HERE:
        message = f"{method} is no operation on rows; use one of {_ALLOW}"
        raise RequestError(Problem(Code.METHOD_NOT_ALLOWED, message, allow=_ALLOW))
    raise RequestError(unsupported(f"the method {method}", mutates=True))


def _check_page_of_put(request: RawRequest) -> None:
    if request.method == "PUT" and _PAGE.search(request.query):
        message = "limit/offset querystring parameters are not allowed for PUT"
        raise RequestError(bad_put(message, "PGRST114"))


def _check_profile(request: RawRequest, schema: str) -> None:
    name = b"accept-profile" if request.method in _READS else b"content-profile"
    for value in request.values(name):
        asked = value.decode("latin-1")
        if asked != schema:
            raise RequestError(bad_schema(asked, schema))


def _retry_key(values: list[bytes]) -> str | None:
    if not values:
        return None
    key = values[0].decode("latin-1")
    fits = key.isascii() and key.isprintable() and 0 < len(key) <= _MAX_RETRY_KEY_CHARS
    if len(values) > 1 or not fits:
        why = f"send one field of 1 to {_MAX_RETRY_KEY_CHARS} printable ASCII characters"
        problem = Problem(Code.REQUEST_MALFORMED, f"Idempotency-Key cannot be understood: {why}")
        raise RequestError(problem)
    return key


def _sorted_location(location: str, pairs: Pairs) -> str:
    """The address of what was read, parameters sorted, as PostgREST writes it."""
    query = urlencode(sorted(pairs), quote_via=quote, safe="")
    return f"{location}?{query}" if query else location
