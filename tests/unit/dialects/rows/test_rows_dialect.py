"""From requests to operations on rows."""

from __future__ import annotations

import pytest

from gateway.model.conditions import Conditions
from gateway.model.operation import Kind
from gateway.model.problem import Code, Problem
from gateway.model.resource import Resource
from gateway.model.row_action import (
    Comparison,
    DeleteRows,
    Filter,
    InsertRows,
    Member,
    Order,
    Selected,
    SelectRows,
    UpdateRows,
)
from gateway.model.worker import WorkerKey
from gateway.ports.body import BodyError
from gateway.ports.dialect import Parsed
from tests.unit.dialects.rows.rows_requests import (
    Pieces,
    dialect,
    operation,
    parsed,
    refused,
    request,
)

_KEYS = {"k": WorkerKey("k", "s3cret"), "o": WorkerKey("o", "other", frozenset({"files"}))}


async def test_a_read() -> None:
    """A GET becomes a selection; without the key it is a list of no exact resource."""
    found = await operation("GET", "/jobs?select=id&name=eq.x&order=id.desc&limit=2&offset=1")
    assert found.action == SelectRows(
        table="jobs",
        columns=(Selected("id"),),
        filters=(Filter("name", Comparison.EQ, ("x",)),),
        order=(Order("id", True, True),),
        limit=2,
        offset=1,
    )
    assert (found.kind, found.method, found.route) == (Kind.LIST, "GET", "/db/jobs")
    assert found.resource == Resource("db", "jobs", exact=False)
    assert not found.kind.mutates


async def test_a_read_of_one_row() -> None:
    """A GET that pins the key reads one resource."""
    found = await operation("HEAD", "/jobs?id=eq.01")
    assert found.resource == Resource("db", "jobs/1")
    assert (found.kind, found.route) == (Kind.READ, "/db/jobs/1")
    assert isinstance(found.action, SelectRows)


async def test_an_insert() -> None:
    """A POST becomes an insert with the members' JSON as it came, pinned by the body's key."""
    found = await operation(
        "POST",
        "/jobs",
        b'[{"id": "007", "name": 1.50}]',
        x_fence_token="7",
        x_fence_holder="h",
        idempotency_key="again",
    )
    assert found.action == InsertRows("jobs", ((Member("id", '"007"'), Member("name", "1.50")),))
    assert found.resource == Resource("db", "jobs/7")
    assert (found.kind, found.token, found.holder) == (Kind.WRITE, 7, "h")
    assert (found.retry_key, found.request_id, found.worker) == ("again", "r1", None)


async def test_an_update() -> None:
    """A PATCH becomes an update; select narrows what is returned."""
    found = await operation(
        "PATCH",
        "/pairs?k1=eq.1&k2=eq.a/b,c&select=v",
        b'{"v": null}',
        prefer="return=representation",
    )
    filters = (Filter("k1", Comparison.EQ, ("1",)), Filter("k2", Comparison.EQ, ("a/b,c",)))
    assert found.action == UpdateRows("pairs", (Member("v", "null"),), filters, (Selected("v"),))
    assert found.resource == Resource("db", "pairs/1,a%2Fb%2Cc")
    assert found.route == "/db/pairs/1,a%2Fb%2Cc"


async def test_an_update_that_moves_a_row_is_not_exact() -> None:
    """Giving a row another key touches two resources: only a rule for the table can cover it."""
    found = await operation("PATCH", "/jobs?id=eq.1", b'{"id": 2}')
    assert found.resource == Resource("db", "jobs", exact=False)


async def test_a_delete_ignores_its_body() -> None:
    """PostgREST's clients send `{}` with a DELETE: it is read off the wire, and dropped."""
    body = Pieces(b"{", b"}")
    found = await operation("DELETE", "/jobs?id=eq.1", body, content_type="text/plain")
    assert found.action == DeleteRows("jobs", (Filter("id", Comparison.EQ, ("1",)),))
    assert (found.kind, body.read) == (Kind.DELETE, 2)


async def test_the_body_is_used_up() -> None:
    """What is handed on as body is empty: the operation holds what was in it."""
    found = await parsed("POST", "/plain", b'{"a":"x"}')
    assert [piece async for piece in found.body] == []
    assert found.body.length == 0


@pytest.mark.parametrize("body", [b"{}", b"[]", b"[{}]"])
async def test_an_update_of_nothing(body: bytes) -> None:
    """A PATCH without members is an update without members."""
    found = await operation("PATCH", "/jobs?id=eq.1", body)
    assert isinstance(found.action, UpdateRows)
    assert found.action.members == ()


async def test_columns_choose_members() -> None:
    """`columns` names what is written: other members are ignored, missing ones are null."""
    found = await operation("POST", "/jobs?columns=name,id", b'{"id":1,"junk":2,"version":3}')
    assert isinstance(found.action, InsertRows)
    assert found.action.rows == ((Member("id", "1"), Member("name", "null")),)
    lenient = await operation(
        "POST", "/jobs?columns=name,id", b'{"id":1}', prefer="missing=default"
    )
    assert isinstance(lenient.action, InsertRows)
    assert lenient.action.rows == ((Member("id", "1"),),)


async def test_headers_only_needs_the_key() -> None:
    """return=headers-only lets the store return the key, from which Location is made."""
    found = await operation("POST", "/pairs", b'{"k1":1}', prefer="return=headers-only")
    assert isinstance(found.action, InsertRows)
    assert found.action.returning == (Selected("k1"), Selected("k2"))
    keyless = await operation("POST", "/plain", b'{"a":1}', prefer="return=headers-only")
    assert isinstance(keyless.action, InsertRows)
    assert keyless.action.returning is None


async def test_conditions_are_handed_on() -> None:
    """Conditions that can be evaluated go with the operation."""
    found = await operation("PATCH", "/jobs?id=eq.1", b'{"name":"x"}', if_match='"1", "2"')
    assert found.conditions == Conditions(if_match=('"1"', '"2"'))
    created = await operation("POST", "/plain?", b'{"a":1}')
    assert not created.conditions


@pytest.mark.parametrize(
    "method,target,fields",
    [
        ("PATCH", "/pairs?k1=eq.1&k2=eq.a", {"if_match": '"1"'}),
        ("PATCH", "/jobs?name=eq.a", {"if_match": '"1"'}),
        ("PATCH", "/jobs?id=eq.1", {"if_none_match": "*"}),
        ("DELETE", "/jobs", {"if_none_match": '"1"'}),
        ("POST", "/jobs", {"if_match": "*"}),
        ("POST", "/jobs", {"if_none_match": '"1"'}),
        ("GET", "/jobs", {"if_none_match": '"1"'}),
        ("GET", "/pairs?k1=eq.1&k2=eq.a", {"if_match": '"1"'}),
    ],
)
async def test_conditions_that_cannot_be_evaluated(
    method: str, target: str, fields: dict[str, str]
) -> None:
    """They are refused by the field's name, whatever the request would do without them."""
    problem = await refused(
        method, target, b'{"name":"x"}' if method != "PATCH" else b"{}", **fields
    )
    assert (problem.status, problem.code) == (501, Code.CONDITION_UNSUPPORTED)
    name = "If-Match" if "if_match" in fields else "If-None-Match"
    assert name in problem.message


@pytest.mark.parametrize(
    "method,target,body,status,code",
    [
        ("MERGE", "/jobs", b"", 501, Code.NOT_FENCED),
        ("POST", "/rpc/run", b"{}", 501, Code.NOT_FENCED),
        ("GET", "/rpc/run", b"", 501, Code.NOT_FENCED),
        ("PATCH", "/jobs?limit=1", b'{"name":"x"}', 501, Code.NOT_FENCED),
        ("PUT", "/jobs?id=eq.1&limit=1", b'{"id":1}', 400, "PGRST114"),
        ("PUT", "/jobs?id=eq.1&name=eq.x", b'{"id":1}', 405, "PGRST105"),
        ("PUT", "/jobs?id=gt.1", b'{"id":1}', 405, "PGRST105"),
        ("PUT", "/jobs", b'{"id":1}', 405, "PGRST105"),
        ("PUT", "/plain?a=eq.1", b'{"a":1}', 405, "PGRST105"),
        ("PUT", "/jobs?id=eq.1", b'{"id":2,"name":"x"}', 400, "PGRST115"),
        ("PUT", "/jobs?id=eq.1", b"[]", 400, "PGRST115"),
        ("PUT", "/jobs?id=eq.1", b'{"id":1}', 400, "PGRST102"),
        ("PATCH", "/jobs", b'[{"name":"x"},{"name":"y"}]', 400, "PGRST102"),
        ("POST", "/jobs", b'[{"id":1},{"id":2,"name":"x"}]', 400, "PGRST102"),
        ("OPTIONS", "/jobs", b"", 405, Code.METHOD_NOT_ALLOWED),
        ("TRACE", "/jobs", b"", 405, Code.METHOD_NOT_ALLOWED),
        ("GET", "/jobs/1", b"", 404, "PGRST125"),
        ("GET", "/jobs/", b"", 404, "PGRST125"),
        ("GET", "/JOBS", b"", 404, "PGRST205"),
        ("POST", "/jobs", b"", 400, "PGRST102"),
        ("POST", "/jobs", b'{"nope":1}', 400, "PGRST204"),
        ("POST", "/jobs?columns=nope", b"{}", 400, "PGRST204"),
        ("PATCH", "/jobs?nope=eq.1", b"{}", 400, "42703"),
        ("GET", "/jobs?select=nope", b"", 400, "42703"),
        ("GET", "/jobs?order=nope", b"", 400, "42703"),
        ("PATCH", "/jobs?id=eq.1", b'{"version":2}', 400, Code.REQUEST_MALFORMED),
        ("GET", "/%zz", b"", 400, "PGRST100"),
    ],
)
async def test_refusals(
    method: str, target: str, body: bytes, status: int, code: Code | str
) -> None:
    """What is outside the subset, or names what is not there, is refused by its name."""
    problem = await refused(method, target, body)
    assert problem.status == status
    assert (problem.code if isinstance(code, Code) else problem.native) == code


async def test_a_near_name_is_hinted() -> None:
    """An unknown table's answer hints at the one that was meant."""
    problem = await refused("GET", "/job")
    assert problem.message == "Could not find the table 'public.job' in the schema cache"
    assert problem.hint == "Perhaps you meant the table 'public.jobs'"


@pytest.mark.parametrize("method,field", [("GET", "accept_profile"), ("POST", "content_profile")])
async def test_profiles(method: str, field: str) -> None:
    """The clients always name a schema: the one that is served passes, another is 406."""
    await operation(method, "/plain", b"{}", **{field: "public"})
    problem = await refused(method, "/plain", b"{}", **{field: "secret"})
    assert (problem.status, problem.native) == (406, "PGRST106")


@pytest.mark.parametrize(
    "fields",
    [
        {"x_fence_token": "01"},
        {"x_fence_token": ["1", "1"]},
        {"x_fence_holder": "a b"},
        {"if_match": "1"},
        {"idempotency_key": ["a", "b"]},
        {"idempotency_key": ""},
        {"idempotency_key": "x" * 256},
    ],
)
async def test_malformed_fields(fields: dict[str, str | list[str]]) -> None:
    """A field that is half understood is refused, never taken for missing."""
    problem = await refused("PATCH", "/jobs?id=eq.1", b"{}", **fields)
    assert problem.status == 400


@pytest.mark.parametrize(
    "fields,status",
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Bearer other"}, 403),
        ({"authorization": "Bearer s3cret"}, 200),
    ],
)
async def test_workers_are_known_first(fields: dict[str, str], status: int) -> None:
    """Without a worker's key nothing is told about the tables, and no body is read."""
    body = Pieces(b"{}")
    target = "/jobs?id=eq.1" if status == 200 else "/nowhere"
    found = await dialect(_KEYS).parse(request("PATCH", target, body, **fields))
    if status == 200:
        assert isinstance(found, Parsed)
        assert found.operation.worker == "k"
    else:
        assert isinstance(found, Problem)
        assert (found.status, body.read) == (status, 0)


async def test_body_limits() -> None:
    """A body beyond the limit is 413 and closes; one that was announced is not read."""
    announced = Pieces(b"x" * 2_000, length=2_000)
    problem = await refused("POST", "/jobs", announced)
    assert (problem.status, problem.close, announced.read) == (413, True, 0)
    chunked = Pieces(*[b"x" * 400] * 9)
    problem = await refused("POST", "/jobs", chunked)
    assert (problem.status, problem.close, chunked.read) == (413, True, 3)


async def test_a_body_that_breaks_off() -> None:
    """A body that does not arrive whole is that body's own problem."""
    broken = Problem(Code.REQUEST_TIMEOUT, "late")

    class Breaks(Pieces):
        async def __aiter__(self):  # type: ignore[no-untyped-def]
            yield b"{"
            raise BodyError(broken)

    assert await refused("POST", "/jobs", Breaks()) == broken
