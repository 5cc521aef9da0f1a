"""The guard as a table: one changed thing each, and the order of the checks."""

from typing import Any

import pytest

from gateway.edge.body import RequestBody
from gateway.edge.guard import Framing, GuardRules, guard
from gateway.model.problem import Code, Problem
from gateway.ports.dialect import RawRequest

Field = tuple[bytes, bytes]
HOST: Field = (b"host", b"h")
TOKEN: Field = (b"x-fence-token", b"7")
M, T = Code.REQUEST_MALFORMED, Code.TOKEN_MALFORMED


async def no_receive() -> dict[str, Any]:
    raise AssertionError("the guard reads no body")


def check(
    *fields: Field, rules: GuardRules | None = None, host: Field | None = HOST, **changes: Any
) -> RawRequest | Problem:
    heads = [host, TOKEN, *fields] if host else [TOKEN, *fields]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "PUT",
        "scheme": "http",
        "raw_path": b"/k",
        "query_string": b"",
        "headers": heads,
        **changes,
    }
    return guard(
        scope,
        rules or GuardRules(),
        lambda framing: RequestBody(no_receive, framing.length, announced=framing.awaits_continue),
        request_id="r",
        arrived_s=1.0,
    )


def framing_of(*fields: Field) -> Framing:
    seen: list[Framing] = []

    def body_of(framing: Framing) -> RequestBody:
        seen.append(framing)
        return RequestBody(no_receive, framing.length)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "PUT",
        "scheme": "http",
        "raw_path": b"/k",
        "query_string": b"",
        "headers": [HOST, *fields],
    }
    guard(scope, GuardRules(), body_of, request_id="r", arrived_s=1.0)
    return seen[0]


REFUSED: list[tuple[str, Code, tuple[Field, ...], dict[str, Any]]] = [
    ("too many fields", Code.HEAD_TOO_LARGE, ((b"x-a", b"b"),) * 99, {}),
    ("too many bytes", Code.HEAD_TOO_LARGE, ((b"x-a", b"b" * 40_000),), {}),
    ("target too long", Code.HEAD_TOO_LARGE, (), {"raw_path": b"/" + b"a" * 40_000}),
    ("name with a colon", M, ((b"x:a", b"b"),), {}),
    ("name empty", M, ((b"", b"b"),), {}),
    ("name with a high byte", M, ((b"x-\xff", b"b"),), {}),
    ("version 0.9", M, (), {"http_version": "0.9"}),
    ("version 1.2", M, (), {"http_version": "1.2"}),
    ("version 2.0", M, (), {"http_version": "2.0"}),
    ("no host", M, (), {"host": None}),
    ("two hosts", M, (HOST,), {}),
    ("host with newline", M, (), {"host": (b"host", b"h\n")}),
    ("host with at", M, (), {"host": (b"host", b"u@h")}),
    ("host with path", M, (), {"host": (b"host", b"h/k")}),
    ("host with long port", M, (), {"host": (b"host", b"h:123456")}),
    ("host list", M, (), {"host": (b"host", b"a, b")}),
    ("length and chunked", M, ((b"content-length", b"3"), (b"transfer-encoding", b"chunked")), {}),
    ("two lengths", M, ((b"content-length", b"3"),) * 2, {}),
    ("length list", M, ((b"content-length", b"3, 3"),), {}),
    ("length with newline", M, ((b"content-length", b"3\n"),), {}),
    ("length full-width", M, ((b"content-length", b"\xef\xbc\x93"),), {}),
    ("length underscore", M, ((b"content-length", b"1_0"),), {}),
    ("length 20 digits", M, ((b"content-length", b"0" * 20),), {}),
    ("length above 2^63-1", M, ((b"content-length", b"9223372036854775808"),), {}),
    ("gzip, chunked", M, ((b"transfer-encoding", b"gzip, chunked"),), {}),
    ("chunked twice", M, ((b"transfer-encoding", b"chunked"),) * 2, {}),
    ("chunked in 1.0", M, ((b"transfer-encoding", b"chunked"),), {"http_version": "1.0"}),
    ("other expectation", M, ((b"expect", b"fast"),), {}),
    ("two expectations", M, ((b"expect", b"100-continue"),) * 2, {}),
    ("lower-case method", M, (), {"method": "put"}),
    ("method with newline", M, (), {"method": "PUT\n"}),
    ("method override", M, ((b"x-http-method-override", b"GET"),), {}),
    ("short method override", M, ((b"x-http-method", b"GET"),), {}),
    ("reversed method override", M, ((b"x-method-override", b"GET"),), {}),
    ("option token", M, ((b"connection", b"close, X-Fence-Token"),), {}),
    ("option holder alias", M, ((b"connection", b"x_fence_holder"),), {}),
    ("option host", M, ((b"connection", b"Host"),), {}),
    ("option range", M, ((b"connection", b"range"),), {}),
    ("option user metadata", M, ((b"connection", b"x-amz-meta-a"),), {}),
    ("option with blanks inside", M, ((b"connection", b"a b"),), {}),
    ("token twice", T, (TOKEN,), {}),
    ("holder twice", T, ((b"x-fence-holder", b"a"),) * 2, {}),
    ("holder with blank", T, ((b"x-fence-holder", b"a b"),), {}),
    ("path without slash", M, (), {"raw_path": b"k"}),
    ("path empty", M, (), {"raw_path": b""}),
    ("path with blank", M, (), {"raw_path": b"/a b"}),
    ("path with high byte", M, (), {"raw_path": b"/\xc3\xa9"}),
    ("path with newline", M, (), {"raw_path": b"/k\n"}),
    ("path with fragment", M, (), {"raw_path": b"/k#"}),
    ("path with NUL", M, (), {"raw_path": b"/k%00"}),
    ("path with half an escape", M, (), {"raw_path": b"/k%2"}),
    ("query with half an escape", M, (), {"query_string": b"a=%"}),
    ("query with high byte", M, (), {"query_string": b"\xff"}),
    ("query with fragment", M, (), {"query_string": b"a#b"}),
    *(
        (f"alias {name.decode()}", M, ((name, b"1"),), {})
        for name in (
            b"x_fence_token",
            b"x-fence_token",
            b"x_fence-holder",
            b"content_length",
            b"transfer_encoding",
            b"if_match",
            b"if_none-match",
            b"idempotency_key",
            b"x_amz_date",
            b"x-amz_content-sha256",
            b"x-amz-meta_fencegate",
            b"amz_sdk_invocation_id",
        )
    ),
]


@pytest.mark.parametrize("name, code, fields, changes", REFUSED, ids=[row[0] for row in REFUSED])
def test_refused(name: str, code: Code, fields: tuple[Field, ...], changes: dict[str, Any]) -> None:
    """Each row is refused with its code, closes, and says what to change."""
    problem = check(*fields, **changes)
    assert isinstance(problem, Problem)
    assert (problem.code, problem.close) == (code, True)
    assert problem.message


ACCEPTED: list[tuple[str, tuple[Field, ...], dict[str, Any]]] = [
    ("base", (), {}),
    ("host with port", (), {"host": (b"host", b"files.example:8080")}),
    ("host with underscore", (), {"host": (b"host", b"my_service")}),
    ("IPv6 host", (), {"host": (b"host", b"[2001:db8::1]:80")}),
    ("1.0 without host", (), {"http_version": "1.0", "host": None}),
    ("length", ((b"content-length", b"3"),), {}),
    ("largest length", ((b"content-length", b"9223372036854775807"),), {}),
    ("chunked", ((b"transfer-encoding", b"Chunked"),), {}),
    ("expectation", ((b"expect", b"100-Continue"),), {}),
    ("options", ((b"connection", b"Close, keep-alive,, Upgrade ,TE"),), {}),
    ("metadata with underscore", ((b"x-amz-meta-my_key", b"1"),), {}),
    ("own name with underscore", ((b"my_field", b"1"),), {}),
    ("method with hyphen", (), {"method": "M-SEARCH"}),
    ("odd but visible path", (), {"raw_path": b'/a;x=1/{b}"<>|^`/%2F%c3%A9'}),
    ("odd but visible query", (), {"query_string": b"a?b/c='%00'"}),
    ("99 fields", ((b"x-a", b"b"),) * 97, {}),
]


@pytest.mark.parametrize("name, fields, changes", ACCEPTED, ids=[row[0] for row in ACCEPTED])
def test_accepted(name: str, fields: tuple[Field, ...], changes: dict[str, Any]) -> None:
    """Each row passes, with path and query byte-exact."""
    request = check(*fields, **changes)
    assert isinstance(request, RawRequest)
    assert request.path == changes.get("raw_path", b"/k")
    assert request.query == changes.get("query_string", b"")


IN_ORDER: list[tuple[tuple[Field, ...], dict[str, Any]]] = [
    (((b"x-a", b"b" * 40_000),), {}),
    (((b"x:a", b"b"),), {}),
    ((), {"http_version": "9.9"}),
    ((), {"host": (b"host", b"a/b")}),
    (((b"content-length", b"x"),), {}),
    (((b"expect", b"x"),), {}),
    ((), {"method": "put"}),
    (((b"connection", b"host"),), {}),
    (((b"x-fence-token", b"8"),), {}),
    ((), {"raw_path": b"/%"}),
]


@pytest.mark.parametrize("first", range(len(IN_ORDER) - 1))
def test_order(first: int) -> None:
    """Of two faults the earlier check is told: limits, names, version, host, framing, …"""
    alone = check(*IN_ORDER[first][0], **IN_ORDER[first][1])
    for fields, changes in IN_ORDER[first + 1 :]:
        both = check(*IN_ORDER[first][0], *fields, **(changes | IN_ORDER[first][1]))
        assert both == alone


def test_fields_are_a_copy() -> None:
    """What the parser adds to its list later does not reach the request."""
    heads = [HOST, TOKEN]
    request = check(headers=heads)
    heads.append((b"x-fence-token", b"999"))
    assert isinstance(request, RawRequest)
    assert request.fields == (HOST, TOKEN)
    assert request.values(b"x-fence-token") == [b"7"]


def test_fields_of_this_connection_are_dropped() -> None:
    """Upgrade, HTTP2-Settings, TE and what Connection names end here; order is kept."""
    request = check(
        (b"x-b", b"2"),
        (b"connection", b"Upgrade, HTTP2-Settings, X-Own, close"),
        (b"upgrade", b"h2c"),
        (b"http2-settings", b"AA"),
        (b"te", b"trailers"),
        (b"x-own", b"1"),
        (b"x-a", b"1"),
    )
    assert isinstance(request, RawRequest)
    kept = [field for field in request.fields if field[0] != b"connection"]
    assert kept == [HOST, TOKEN, (b"x-b", b"2"), (b"x-a", b"1")]


HOSTS = GuardRules(hosts=frozenset({b"files.example", b"other:81"}))


@pytest.mark.parametrize("value", [b"files.example", b"FILES.example:80", b"other:81"])
def test_a_configured_host_is_served(value: bytes) -> None:
    """Names compare without case; a name without port serves any port."""
    assert isinstance(check(rules=HOSTS, host=(b"host", value)), RawRequest)


@pytest.mark.parametrize("value", [b"evil.example", b"files.example.evil", b"other", b"[::1]"])
def test_another_host_is_421(value: bytes) -> None:
    """A well-formed Host that is not configured is told apart from a malformed one."""
    problem = check(rules=HOSTS, host=(b"host", value))
    assert isinstance(problem, Problem)
    assert (problem.code, problem.status) == (Code.UNKNOWN_HOST, 421)


def test_no_host_where_hosts_are_configured() -> None:
    """HTTP/1.0 may leave Host out, but not where it decides who is served."""
    assert isinstance(check(rules=HOSTS, host=None, http_version="1.0"), Problem)


def test_framing() -> None:
    """No field: no body; a length; chunked: unknown. 100 is owed only where it was asked for."""
    assert framing_of() == Framing(0, False)
    assert framing_of((b"content-length", b"7")) == Framing(7, False)
    assert framing_of((b"transfer-encoding", b"chunked")) == Framing(None, False)
    expecting = ((b"content-length", b"7"), (b"expect", b"100-continue"))
    assert framing_of(*expecting) == Framing(7, True)


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
def test_other_conversations_are_refused(kind: str) -> None:
    """Only http is served here."""
    with pytest.raises(ValueError, match=kind):
        check(type=kind)
