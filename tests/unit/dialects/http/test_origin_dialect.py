"""The http dialect in front of an origin: what goes on, what is kept back, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.origin import OriginDialect
from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.operation import Kind, Operation
from gateway.model.origin_request import OriginRequest
from gateway.model.problem import Code, Problem
from gateway.model.resource import Resource
from gateway.model.worker import WorkerKey
from gateway.ports.dialect import Parsed, RawRequest
from gateway.testing.store_subject import Pieces

Field = tuple[bytes, bytes]
TOKEN: Field = (b"x-fence-token", b"7")
DIALECT = OriginDialect("couch", "/couch", None)
KEYED = OriginDialect("couch", "/couch", {"w": WorkerKey("w", "s3cret", frozenset({"couch"}))})


async def parse(
    method: str,
    path: str,
    *fields: Field,
    dialect: OriginDialect = DIALECT,
    query: bytes = b"",
    body: Pieces | None = None,
) -> Any:
    request = RawRequest(
        method, path.encode(), query, fields, "r1", "h", False, 1.0, body or Pieces(b"")
    )
    return await dialect.parse(request)


async def operation(method: str, path: str, *fields: Field, **options: Any) -> Operation:
    parsed = await parse(method, path, *fields, **options)
    assert isinstance(parsed, Parsed), parsed
    return parsed.operation


async def action(method: str, path: str, *fields: Field, **options: Any) -> OriginRequest:
    found = (await operation(method, path, *fields, **options)).action
    assert isinstance(found, OriginRequest)
    return found


async def refusal(method: str, path: str, *fields: Field, **options: Any) -> Code:
    problem = await parse(method, path, *fields, **options)
    assert isinstance(problem, Problem), problem
    return problem.code


async def test_a_write_in_full() -> None:
    """Target and end-to-end fields stay as they came; conditions, token and framing are taken."""
    fields = (
        (b"host", b"gateway"),
        TOKEN,
        (b"x-fence-holder", b"h-1"),
        (b"if-match", b'"1-a"'),
        (b"content-type", b"application/json"),
        (b"content-length", b"5"),
        (b"x-a", b"1"),
        (b"x-a", b"2"),
        (b"authorization", b"Basic abc"),
        (b"expect", b"100-continue"),
        (b"te", b"trailers"),
        (b"idempotency-key", b"k"),
        (b"x_a", b"3"),
    )
    found = await operation(
        "PUT", "/couch/db/a%2Fb", *fields, query=b"rev=1-a", body=Pieces(b"12345")
    )
    assert found.resource == Resource("couch", "db/a/b")
    assert found.route == "/couch/db/a/b"
    assert (found.kind, found.token, found.holder) == (Kind.WRITE, 7, "h-1")
    assert found.conditions == Conditions(if_match=('"1-a"',))
    assert found.retry_key == "k"
    kept = (
        (b"content-type", b"application/json"),
        (b"x-a", b"1"),
        (b"x-a", b"2"),
        (b"authorization", b"Basic abc"),
        (b"idempotency-key", b"k"),
        (b"x_a", b"3"),
    )
    assert found.action == OriginRequest("PUT", b"/db/a%2Fb", b"rev=1-a", kept, 5)


async def test_a_read_keeps_its_conditions() -> None:
    """They are the origin's to judge; nothing of ours is combined with them."""
    fields = ((b"if-none-match", b'"a"'), (b"range", b"bytes=0-1"), TOKEN)
    found = await operation("GET", "/couch/db/a", *fields)
    assert found.conditions == NO_CONDITIONS
    assert isinstance(found.action, OriginRequest)
    assert found.action.fields == fields[:2]


async def test_a_read_may_have_a_body() -> None:
    """A search in the body of a GET goes on whole, up to a bound."""
    found = await action("GET", "/couch/_search", body=Pieces(b"{}", known=False))
    assert (found.content, found.length) == (b"{}", 2)
    for known in (True, False):
        body = Pieces(b"x" * 1_048_577, known=known)
        assert await refusal("GET", "/couch/_search", body=body) is Code.BODY_TOO_LARGE


@pytest.mark.parametrize("keys", [True, False], ids=["worker keys", "own credentials"])
async def test_the_gateways_authorization_stays(keys: bool) -> None:
    """What authenticates a worker here is never told to the origin."""
    dialect = KEYED if keys else OriginDialect("couch", "/couch", None, own_authorization=True)
    found = await action("GET", "/couch/a", (b"authorization", b"Bearer s3cret"), dialect=dialect)
    assert found.fields == ()


async def test_every_method_needs_the_key() -> None:
    """OPTIONS reaches the origin, so it is no way around either."""
    for method in ("GET", "OPTIONS", "PUT", "PROPFIND"):
        assert await refusal(method, "/couch/a", dialect=KEYED) is Code.UNAUTHENTICATED


KINDS = {
    "GET": Kind.READ,
    "HEAD": Kind.READ,
    "OPTIONS": Kind.READ,
    "PROPFIND": Kind.READ,
    "PUT": Kind.WRITE,
    "POST": Kind.WRITE,
    "PATCH": Kind.WRITE,
    "MKCOL": Kind.WRITE,
    "DELETE": Kind.DELETE,
}


@pytest.mark.parametrize("method", KINDS)
async def test_kinds(method: str) -> None:
    """Everything that is not known to be safe changes something."""
    assert (await operation(method, "/couch/a")).kind is KINDS[method]


@pytest.mark.parametrize(
    "method, code",
    [
        ("TRACE", Code.METHOD_NOT_ALLOWED),
        ("CONNECT", Code.METHOD_NOT_ALLOWED),
        ("MOVE", Code.NOT_FENCED),
        ("COPY", Code.NOT_FENCED),
        ("LOCK", Code.NOT_FENCED),
        ("FROBNICATE", Code.NOT_FENCED),
    ],
)
async def test_other_methods_are_refused(method: str, code: Code) -> None:
    """A method that is not known is never passed through."""
    assert await refusal(method, "/couch/a") is code


async def test_paths_with_two_meanings_are_refused() -> None:
    """What origins could take for another path than the one compared does not go on."""
    for path in ("/couch/a//b", "/couch/a/../b", "/couch/%61", "/couch/a%5Cb", "/couch/a/%2e%2e"):
        assert await refusal("PUT", path) is Code.REQUEST_MALFORMED
    for name in (b"x-original-url", b"x-rewrite-url"):
        assert await refusal("GET", "/couch/a", (name, b"/b")) is Code.REQUEST_MALFORMED


async def test_a_deleted_collection_is_a_tree() -> None:
    """Only DELETE of a path that ends in a slash reaches below it; other methods name one thing."""
    assert (await operation("DELETE", "/couch/db/")).resource == Resource("couch", "db/", False)
    assert (await operation("DELETE", "/couch")).resource == Resource("couch", "", False)
    assert (await operation("DELETE", "/couch/db")).resource.exact
    assert (await operation("POST", "/couch/db/")).resource == Resource("couch", "db/")
    assert (await action("GET", "/couch")).path == b""
    assert (await action("GET", "/couch/")).path == b"/"


async def test_conditions_that_nobody_checks_are_refused() -> None:
    """If-Unmodified-Since on a write, and malformed tags."""
    since = (b"if-unmodified-since", b"Sun, 15 Jun 2025 15:06:40 GMT")
    assert await refusal("PUT", "/couch/a", since) is Code.CONDITION_UNSUPPORTED
    assert await refusal("PUT", "/couch/a", (b"if-match", b"x")) is Code.REQUEST_MALFORMED
    twice = ((b"idempotency-key", b"a"), (b"idempotency-key", b"b"))
    assert await refusal("PUT", "/couch/a", *twice) is Code.REQUEST_MALFORMED


async def test_an_escaped_slash_is_no_other_resource() -> None:
    """An origin that decodes it has one thing under both spellings: one scope, exact bytes."""
    plain = await operation("PUT", "/couch/a/b")
    escaped = await operation("PUT", "/couch/a%2Fb")
    lower = await operation("PUT", "/couch/a%2fb")
    assert plain.resource == escaped.resource == lower.resource
    assert plain.route == escaped.route == lower.route
    assert (await action("PUT", "/couch/a%2Fb")).path == b"/a%2Fb"
