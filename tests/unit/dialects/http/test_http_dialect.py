"""The http dialect: requests read, outcomes written."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.dialects.http import HttpDialect
from gateway.model.conditions import Conditions
from gateway.model.object_action import DeleteObject, GetObject, PutObject
from gateway.model.operation import Kind, Operation
from gateway.model.outcome import Applied, Outcome, ReadFailed, ReadOk, Refused, Unknown
from gateway.model.problem import Code, Problem
from gateway.model.reply import (
    Listing,
    NotModified,
    ObjectDeleted,
    ObjectFound,
    ObjectMeta,
    ObjectPut,
    Relay,
)
from gateway.model.resource import Resource
from gateway.model.worker import WorkerKey
from gateway.ports.dialect import Parsed, RawRequest, Reply

Field = tuple[bytes, bytes]
TOKEN: Field = (b"x-fence-token", b"7")
KEYS = {"w": WorkerKey("w", "s3cret", frozenset({"files"}))}
DIALECT = HttpDialect("files", "/files", None)


class NoBody:
    length: int | None = 5

    def __aiter__(self) -> AsyncIterator[bytes]:
        raise AssertionError("an object's body is the store's to read")


def request(method: str, path: str, *fields: Field, query: bytes = b"") -> RawRequest:
    return RawRequest(method, path.encode(), query, fields, "r1", "h", False, 1.0, NoBody())


async def parse(
    method: str, path: str, *fields: Field, dialect: HttpDialect = DIALECT, query: bytes = b""
) -> Parsed | Problem | Reply:
    return await dialect.parse(request(method, path, *fields, query=query))


async def operation(method: str, path: str, *fields: Field, query: bytes = b"") -> Operation:
    parsed = await parse(method, path, *fields, query=query)
    assert isinstance(parsed, Parsed)
    return parsed.operation


async def refusal(method: str, path: str, *fields: Field, **options: Any) -> Problem:
    problem = await parse(method, path, *fields, **options)
    assert isinstance(problem, Problem)
    return problem


# --- requests ------------------------------------------------------------------------------------
async def test_a_write_in_full() -> None:
    """Everything that a PUT carries arrives where it belongs, and nothing else."""
    fields = (
        TOKEN,
        (b"x-fence-holder", b"h-1"),
        (b"if-match", b'"a", "b"'),
        (b"idempotency-key", b"k-1"),
        (b"content-type", b"text/plain"),
        (b"content-language", b"de"),
        (b"content-encoding", b"gzip"),
        (b"content-encoding", b"br"),
        (b"content-disposition", b"inline"),
        (b"cache-control", b"no-cache"),
        (b"x-other", b"1"),
        (b"my_field", b"1"),
    )
    found = await operation("PUT", "/files/a/%c3%a9+b", *fields)
    assert found == Operation(
        resource=Resource("files", "a/%C3%A9%2Bb"),
        route="/files/a/%C3%A9%2Bb",
        kind=Kind.WRITE,
        method="PUT",
        action=PutObject(
            "",
            "a/%c3%a9+b",
            5,
            (
                ("content-type", "text/plain"),
                ("content-language", "de"),
                ("content-encoding", "gzip, br"),
                ("content-disposition", "inline"),
                ("cache-control", "no-cache"),
            ),
        ),
        token=7,
        holder="h-1",
        conditions=Conditions(if_match=('"a"', '"b"')),
        retry_key="k-1",
        request_id="r1",
    )


async def test_reads() -> None:
    """GET takes a range, HEAD takes none; both take a token and conditions; no retry key."""
    fields = (
        TOKEN,
        (b"range", b"bytes=0-1"),
        (b"if-none-match", b'W/"a"'),
        (b"if-modified-since", b"Thu, 01 Jan 1970 00:00:00 GMT"),
        (b"idempotency-key", b"k"),
    )
    get = await operation("GET", "/files/k", *fields)
    since = "Thu, 01 Jan 1970 00:00:00 GMT"
    assert get.action == GetObject("", "k", range_="bytes=0-1", if_modified_since=since)
    assert (get.kind, get.token, get.retry_key) == (Kind.READ, 7, None)
    assert get.conditions == Conditions(if_none_match=('"a"',))
    head = await operation("HEAD", "/files/k", *fields)
    assert head.action == GetObject("", "k", head=True, if_modified_since=since)


async def test_a_range_that_depends_on_a_version_is_the_whole() -> None:
    """If-Range is not evaluated, so the safe answer is all of it."""
    found = await operation("GET", "/files/k", (b"range", b"bytes=0-1"), (b"if-range", b'"a"'))
    assert found.action == GetObject("", "k")


async def test_delete() -> None:
    """DELETE is a mutation of its own kind."""
    found = await operation("DELETE", "/files/a/b", TOKEN)
    assert (found.kind, found.action) == (Kind.DELETE, DeleteObject("", "a/b"))


async def test_the_query_names_nothing() -> None:
    """The query is no part of the resource, the route or the key."""
    plain = await operation("PUT", "/files/k", TOKEN)
    assert await operation("PUT", "/files/k", TOKEN, query=b"x=1&versionId=2") == plain


async def test_mounted_at_the_root() -> None:
    """Without a mount the whole path is the key."""
    parsed = await HttpDialect("files", "", None).parse(request("PUT", "/a/b", TOKEN))
    assert isinstance(parsed, Parsed)
    assert parsed.operation.route == "/a/b"
    assert parsed.operation.resource.path == "a/b"


@pytest.mark.parametrize("method", ["POST", "PATCH", "TRACE", "CONNECT"])
async def test_methods_that_objects_do_not_have(method: str) -> None:
    """405 with what there is."""
    problem = await refusal(method, "/files/k", TOKEN)
    assert (problem.code, problem.allow) == (
        Code.METHOD_NOT_ALLOWED,
        "GET, HEAD, PUT, DELETE, OPTIONS",
    )


@pytest.mark.parametrize("method", ["PROPFIND", "MKCOL", "COPY", "MOVE", "LOCK", "PURGE", "X-Y"])
async def test_unknown_methods(method: str) -> None:
    """501: a mutation that the dialect does not know is refused, never passed through."""
    assert (await refusal(method, "/files/k", TOKEN)).code is Code.NOT_FENCED


REFUSED: list[tuple[str, str, tuple[Field, ...], Code]] = [
    ("PUT", "/files/a/../b", (), Code.REQUEST_MALFORMED),
    ("PUT", "/files/%41", (), Code.REQUEST_MALFORMED),
    ("PUT", "/files//k", (), Code.REQUEST_MALFORMED),
    ("PUT", "/files/a/", (), Code.REQUEST_MALFORMED),
    ("DELETE", "/files/a/", (), Code.REQUEST_MALFORMED),
    ("PUT", "/files", (), Code.REQUEST_MALFORMED),
    ("GET", "/files/a/", (), Code.NOT_FOUND),
    ("GET", "/files/", (), Code.NOT_FOUND),
    ("PUT", "/files/k", ((b"x-fence-token", b"07"),), Code.TOKEN_MALFORMED),
    ("PUT", "/files/k", ((b"if-match", b"abc"),), Code.REQUEST_MALFORMED),
    ("PUT", "/files/k", ((b"if-none-match", b""),), Code.REQUEST_MALFORMED),
    ("PUT", "/files/k", ((b"content-type", b"a"), (b"content-type", b"b")), Code.REQUEST_MALFORMED),
    ("PUT", "/files/k", ((b"idempotency-key", b"a"),) * 2, Code.REQUEST_MALFORMED),
    ("PUT", "/files/k", ((b"idempotency-key", b""),), Code.REQUEST_MALFORMED),
    ("PUT", "/files/k", ((b"idempotency-key", b"a b"),), Code.REQUEST_MALFORMED),
    ("PUT", "/files/k", ((b"idempotency-key", b"a" * 256),), Code.REQUEST_MALFORMED),
    ("PUT", "/files/k", ((b"content-range", b"bytes 0-1/2"),), Code.REQUEST_MALFORMED),
    ("PUT", "/files/k", ((b"if-unmodified-since", b"x"),), Code.CONDITION_UNSUPPORTED),
    ("DELETE", "/files/k", ((b"if-unmodified-since", b"x"),), Code.CONDITION_UNSUPPORTED),
    ("GET", "/files/k", ((b"range", b"bytes=0-1"),) * 2, Code.REQUEST_MALFORMED),
]


@pytest.mark.parametrize("method, path, fields, code", REFUSED)
async def test_refused(method: str, path: str, fields: tuple[Field, ...], code: Code) -> None:
    """What is ambiguous, or a condition that nobody would check, is refused by name."""
    assert (await refusal(method, path, *fields)).code is code


async def test_workers_are_known_by_their_keys() -> None:
    """With keys the worker's id is in the operation; without one nothing is told of the path."""
    dialect = HttpDialect("files", "/files", KEYS)
    parsed = await parse("PUT", "/files/k", (b"authorization", b"Bearer s3cret"), dialect=dialect)
    assert isinstance(parsed, Parsed)
    assert parsed.operation.worker == "w"
    problem = await refusal("FROB", "/files/a//b", dialect=dialect)
    assert problem.code is Code.UNAUTHENTICATED
    other = HttpDialect("other", "/other", KEYS)
    field = (b"authorization", b"Bearer s3cret")
    assert (await refusal("PUT", "/other/k", field, dialect=other)).code is Code.ACCESS_DENIED


async def test_options_ask_no_store() -> None:
    """204 with what there is, also without a key: a browser's preflight carries none."""
    reply = await parse("OPTIONS", "/files/k", dialect=HttpDialect("files", "/files", KEYS))
    assert reply == Reply(204, ((b"allow", b"GET, HEAD, PUT, DELETE, OPTIONS"),))


# --- answers -------------------------------------------------------------------------------------
async def no_chunks() -> AsyncIterator[bytes]:
    yield b""


META = ObjectMeta('"e"', 10, 0, (("content-type", "text/plain"), ("cache-control", "no-store")))


def render(outcome: Outcome, parsed: Parsed | None = None) -> Reply:
    return DIALECT.render(request("GET", "/files/k"), parsed, outcome)


def test_an_object() -> None:
    """200 with version, date, length, type and the kept fields."""
    chunks = no_chunks()
    reply = render(ReadOk(ObjectFound(META, 10, None, chunks)))
    assert (reply.status, reply.body) == (200, chunks)
    assert reply.fields == (
        (b"etag", b'"e"'),
        (b"last-modified", b"Thu, 01 Jan 1970 00:00:00 GMT"),
        (b"accept-ranges", b"bytes"),
        (b"content-length", b"10"),
        (b"content-type", b"text/plain"),
        (b"cache-control", b"no-store"),
    )


def test_a_part_of_an_object() -> None:
    """206 with the part's own length and its place in the whole."""
    reply = render(ReadOk(ObjectFound(META, 3, (2, 4, 10), no_chunks())))
    assert reply.status == 206
    assert dict(reply.fields)[b"content-range"] == b"bytes 2-4/10"
    assert dict(reply.fields)[b"content-length"] == b"3"


def test_only_the_head_of_an_object() -> None:
    """HEAD has GET's fields and no body."""
    reply = render(ReadOk(ObjectFound(META, 10)))
    assert (reply.status, reply.body) == (200, b"")
    assert dict(reply.fields)[b"content-length"] == b"10"


def test_other_replies() -> None:
    """304, 201, 204, 204, and an origin's answer as its store gives it."""
    etag = ((b"etag", b'"e"'),)
    assert render(ReadOk(NotModified('"e"'))) == Reply(304, etag)
    assert render(Applied(ObjectPut('"e"', created=True))) == Reply(201, etag)
    assert render(Applied(ObjectPut('"e"'))) == Reply(204, etag)
    assert render(Applied(ObjectDeleted())) == Reply(204, ())
    relayed = Relay(207, (("x-a", "1"),), b"body")
    assert render(Applied(relayed)) == Reply(207, ((b"x-a", b"1"),))
    assert render(Applied(relayed)).body == b"body"


def test_an_origins_own_answer_goes_before_the_gateways_words() -> None:
    """A refusal of the origin, and an error behind which the outcome is unknown, are passed on."""
    relayed = Relay(503, (("retry-after", "9"),), b"later")
    for code in (Code.UPSTREAM_REFUSED, Code.OUTCOME_UNKNOWN):
        problem = Problem(code, "x", relay=relayed, close=True)
        for outcome in (Refused(problem), Unknown(problem)):
            assert render(outcome) == Reply(503, ((b"retry-after", b"9"),), close=True)
            assert render(outcome).body == b"later"


def test_nothing_to_delete() -> None:
    """404 as a problem."""
    reply = render(Applied(ObjectDeleted(existed=False)))
    assert reply.status == 404
    assert isinstance(reply.body, bytes)
    assert json.loads(reply.body)["code"] == "not_found"


def test_a_reply_of_another_dialect() -> None:
    """It has no form here: that is a fault of the gateway, and loud."""
    with pytest.raises(TypeError, match="Listing"):
        render(ReadOk(Listing("b", ())))


async def test_a_stale_refusal_in_full() -> None:
    """RFC 9457's members, the code, and the figures; the media type is theirs."""
    parsed = await parse("PUT", "/files/k", TOKEN)
    assert isinstance(parsed, Parsed)
    problem = Problem(Code.TOKEN_STALE, "take a new token", mark=9, details="scope s", hint="h")
    reply = render(Refused(problem), parsed)
    assert (reply.status, reply.fields) == (412, ((b"content-type", b"application/problem+json"),))
    assert isinstance(reply.body, bytes)
    assert json.loads(reply.body) == {
        "type": "urn:fencegate:problem:fence_token_stale",
        "title": "fence token stale",
        "status": 412,
        "detail": "take a new token",
        "code": "fence_token_stale",
        "request_id": "r1",
        "resource": "files:k",
        "token": 7,
        "mark": 9,
        "details": "scope s",
        "hint": "h",
    }


@pytest.mark.parametrize("code", Code)
def test_every_problem_has_a_form(code: Code) -> None:
    """Whatever outcome carries it; `close` is passed on; no code but stale tells a mark."""
    problem = Problem(code, "do so", mark=9, close=True, allow="GET")
    for outcome in (Refused(problem), Unknown(problem), ReadFailed(problem)):
        reply = render(outcome)
        assert (reply.status, reply.close) == (problem.status, True)
        assert isinstance(reply.body, bytes)
        members = json.loads(reply.body)
        assert members["code"] == code.value
        assert ("mark" in members) == (code is Code.TOKEN_STALE)
        assert dict(reply.fields)[b"allow"] == b"GET"
        challenged = b"www-authenticate" in dict(reply.fields)
        assert challenged == (code is Code.UNAUTHENTICATED)


def test_an_unsatisfiable_range() -> None:
    """416 tells the size in Content-Range, when the store told it."""
    told = Problem(Code.NOT_SATISFIABLE, "no", details="bytes */10")
    assert dict(render(ReadFailed(told)).fields)[b"content-range"] == b"bytes */10"
    for details in (None, "10"):
        quiet = Problem(Code.NOT_SATISFIABLE, "no", details=details)
        assert b"content-range" not in dict(render(ReadFailed(quiet)).fields)
