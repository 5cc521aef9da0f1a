"""From outcomes to PostgREST's answers."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.rows.accept import Shape
from gateway.dialects.rows.context import RowsContext
from gateway.dialects.rows.prefer import Returning
from gateway.dialects.rows.render import render_outcome
from gateway.model.outcome import Applied, ReadFailed, ReadOk, Refused, Unknown
from gateway.model.problem import Code, Problem
from gateway.model.reply import NotModified, ObjectDeleted, Rows
from gateway.ports.dialect import Reply
from tests.unit.dialects.rows.rows_requests import dialect, parsed, request

_ALL = RowsContext("/db/jobs", content_location="/db/jobs?a=1")
_SHOWN = RowsContext(
    "/db/jobs", returning=Returning.REPRESENTATION, applied="return=representation"
)


def fields(reply: Reply) -> dict[str, str]:
    """The fields, each of which must stand once."""
    found = {name.decode(): value.decode("latin-1") for name, value in reply.fields}
    assert len(found) == len(reply.fields)
    return found


def test_a_read() -> None:
    """A list is 200 with the range of what was found, and where it was found."""
    reply = render_outcome("GET", _ALL, ReadOk(Rows('[{"id":1},{"id":2}]', 2, offset=3)))
    assert (reply.status, reply.body) == (200, b'[{"id":1},{"id":2}]')
    assert fields(reply) == {
        "content-type": "application/json; charset=utf-8",
        "content-range": "3-4/*",
        "content-location": "/db/jobs?a=1",
    }


def test_a_head() -> None:
    """HEAD is GET without the body, with its length."""
    outcome = ReadOk(Rows('[{"id":1}]', 1, etag='"1"'))
    reply, read = (render_outcome(method, _ALL, outcome) for method in ("HEAD", "GET"))
    assert (reply.status, reply.body) == (200, b"")
    assert fields(reply) == {**fields(read), "content-length": "10"}


def test_a_single_object() -> None:
    """One object comes without the array around it, and with its own type."""
    context = RowsContext("/db/jobs", shape=Shape.OBJECT)
    reply = render_outcome("GET", context, ReadOk(Rows('[{"id":1}]', 1)))
    assert reply.body == b'{"id":1}'
    assert fields(reply)["content-type"] == "application/vnd.pgrst.object+json; charset=utf-8"


def test_not_modified() -> None:
    """304 has the tag and no body."""
    reply = render_outcome("GET", _ALL, ReadOk(NotModified('"4"')))
    assert (reply.status, reply.body, fields(reply)) == (304, b"", {"etag": '"4"'})


@pytest.mark.parametrize(
    "method,count,status,span",
    [
        ("POST", 1, 201, "*/*"),
        ("PATCH", 2, 204, "0-1/*"),
        ("PATCH", 0, 204, "*/*"),
        ("DELETE", 2, 204, "*/*"),
    ],
)
def test_minimal_writes(method: str, count: int, status: int, span: str) -> None:
    """Without a representation there is neither body nor content type."""
    reply = render_outcome(method, RowsContext("/db/jobs"), Applied(Rows(None, count)))
    assert (reply.status, reply.body) == (status, b"")
    assert fields(reply) == {"content-range": span}


@pytest.mark.parametrize("method,status", [("POST", 201), ("PATCH", 200), ("DELETE", 200)])
def test_writes_with_representation(method: str, status: int) -> None:
    """The representation makes it 200, or 201, and the preference is said to be applied."""
    reply = render_outcome(method, _SHOWN, Applied(Rows('[{"id":1}]', 1, etag='"3"')))
    assert (reply.status, reply.body) == (status, b'[{"id":1}]')
    assert fields(reply)["preference-applied"] == "return=representation"
    assert fields(reply)["etag"] == '"3"'


def test_a_representation_that_was_not_kept() -> None:
    """The replay of a write whose answer was too long to keep is answered as minimal."""
    reply = render_outcome("PATCH", _SHOWN, Applied(Rows(None, 1), replayed=True))
    assert (reply.status, reply.body) == (204, b"")


@pytest.mark.parametrize(
    "row,location",
    [
        ('[{"id":9007199254740993}]', "/db/jobs?id=eq.9007199254740993"),
        ('[{"id":"a&b=c é"}]', "/db/jobs?id=eq.a%26b%3Dc%20%C3%A9"),
    ],
)
def test_location(row: str, location: str) -> None:
    """return=headers-only tells the new row's address, key escaped and every digit kept."""
    context = RowsContext(
        "/db/jobs",
        returning=Returning.HEADERS_ONLY,
        applied="return=headers-only",
        primary_key=("id",),
    )
    reply = render_outcome("POST", context, Applied(Rows(row, 1)))
    assert (reply.status, reply.body) == (201, b"")
    assert fields(reply)["location"] == location
    assert "content-type" not in fields(reply)


@pytest.mark.parametrize("outcome", [Refused, ReadFailed, Unknown])
def test_problems(outcome: type[Refused | ReadFailed | Unknown]) -> None:
    """An error has all four keys, its code also in Proxy-Status, and no key of others."""
    problem = Problem(Code.BUSY, "m", details="d", retry_after_s=2, close=True)
    reply = render_outcome("PATCH", None, outcome(problem))
    assert isinstance(reply.body, bytes)
    assert reply.body == b'{"code":"busy","message":"m","details":"d","hint":null}'
    assert (reply.status, reply.close) == (503, True)
    assert fields(reply) == {
        "content-type": "application/json; charset=utf-8",
        "proxy-status": "PostgREST; error=busy",
        "retry-after": "2",
    }


def test_native_codes() -> None:
    """The dialect's own code stands where it has one; HEAD keeps it in the field."""
    problem = Problem(Code.REQUEST_MALFORMED, "é\ud800", native="PGRST102", hint="h")
    reply = render_outcome("POST", None, Refused(problem))
    assert isinstance(reply.body, bytes)
    assert json.loads(reply.body)["code"] == "PGRST102"
    assert json.loads(reply.body)["message"] == "é?"
    head = render_outcome("HEAD", None, ReadFailed(problem))
    assert (head.body, fields(head)["proxy-status"]) == (b"", "PostgREST; error=PGRST102")


def test_fields_of_refusals() -> None:
    """405 names what is allowed, 401 how to authenticate."""
    no_method = Problem(Code.METHOD_NOT_ALLOWED, "m", allow="GET")
    assert fields(render_outcome("TRACE", None, Refused(no_method)))["allow"] == "GET"
    unknown = Problem(Code.UNAUTHENTICATED, "m")
    assert fields(render_outcome("GET", None, ReadFailed(unknown)))["www-authenticate"] == "Bearer"


def test_replies_of_other_dialects() -> None:
    """An object's reply is a programming error, not an answer."""
    with pytest.raises(TypeError, match="ObjectDeleted"):
        render_outcome("DELETE", _ALL, Applied(ObjectDeleted()))


async def test_the_sorted_address_of_a_read() -> None:
    """Content-Location has the parameters in order, escaped."""
    wire = request("GET", "/plain?b=eq.x%26y&a=eq.1&select=a")
    found = await parsed("GET", "/plain?b=eq.x%26y&a=eq.1&select=a")
    reply = dialect().render(wire, found, ReadOk(Rows("[]", 0)))
    assert fields(reply)["content-location"] == "/db/plain?a=eq.1&b=eq.x%26y&select=a"
    assert fields(reply)["content-range"] == "*/*"
