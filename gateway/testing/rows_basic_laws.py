"""Laws of the rows contract about rows and answers: what is stored, returned and refused."""

from __future__ import annotations

from typing import Final

from gateway.testing.rows_subject import RowsHarness, client

_UUID: Final = "0f8fad5b-d9cb-469f-a165-70867728950e"
_REPRESENTATION: Final = "return=representation"
_SINGLE: Final = "application/vnd.pgrst.object+json"


async def check_one_row_through_its_life(harness: RowsHarness) -> None:
    """A row is inserted, read, changed and removed, each with PostgREST's status and body."""
    worker = await client(harness)
    made = await worker.post("/jobs", {"id": 1, "name": "a"}, prefer=_REPRESENTATION)
    assert (made.status, made.json) == (
        201,
        [{"id": 1, "name": "a", "state": "new", "result": None, "version": 1}],
    )
    changed = await worker.patch("/jobs?id=eq.1", {"state": "done", "result": None})
    assert (changed.status, changed.json) == (204, None)
    assert changed.field("content-range") == "0-0/*"
    read = await worker.get("/jobs?id=eq.1&select=state,version")
    assert (read.status, read.json) == (200, [{"state": "done", "version": 2}])
    gone = await worker.delete("/jobs?id=eq.1", prefer=_REPRESENTATION)
    assert (gone.status, gone.json[0]["version"]) == (200, 2)
    assert (await worker.get("/jobs")).json == []


async def check_minimal_answers(harness: RowsHarness) -> None:
    """Without a preference nothing is returned: 201, 204 and 204, and no content type."""
    worker = await client(harness)
    made = await worker.post("/jobs", {"id": 1, "name": "a"})
    changed = await worker.patch("/jobs?id=eq.1", {"name": "b"})
    gone = await worker.delete("/jobs?id=eq.1")
    for answer, status in ((made, 201), (changed, 204), (gone, 204)):
        assert (answer.status, answer.json) == (status, None)
        assert answer.field("content-type") is None


async def check_no_such_row_is_success(harness: RowsHarness) -> None:
    """Filters that find nothing change nothing and are no error: 204, or 200 with no rows."""
    worker = await client(harness)
    for send in (worker.patch("/jobs?id=eq.9", {"name": "x"}), worker.delete("/jobs?id=eq.9")):
        answer = await send
        assert (answer.status, answer.field("content-range")) == (204, "*/*")
    shown = await worker.patch("/jobs?id=eq.9", {"name": "x"}, prefer=_REPRESENTATION)
    assert (shown.status, shown.json) == (200, [])


async def check_many_rows(harness: RowsHarness) -> None:
    """A mutation without a key changes every row that its filters find, and raises each version."""
    worker = await client(harness)
    for number in (1, 2, 3):
        await worker.post("/jobs", {"id": number, "name": f"n{number}"})
    changed = await worker.patch(
        "/jobs?id=gte.2&select=id,state,version", {"state": "x"}, prefer=_REPRESENTATION
    )
    assert sorted(row["id"] for row in changed.json) == [2, 3]
    assert {(row["state"], row["version"]) for row in changed.json} == {("x", 2)}
    assert changed.field("content-range") == "0-1/*"
    assert changed.field("etag") is None
    assert [row["version"] for row in (await worker.get("/jobs?order=id")).json] == [1, 2, 2]


async def check_update_without_members(harness: RowsHarness) -> None:
    """A PATCH with {}, [] or [{}] changes nothing, not even the version."""
    worker = await client(harness)
    await worker.post("/jobs", {"id": 1, "name": "a"})
    bodies: tuple[object, ...] = ({}, [], [{}])
    for body in bodies:
        answer = await worker.patch("/jobs?id=eq.1", body, prefer=_REPRESENTATION)
        assert (answer.status, answer.json) == (200, [])
    assert (await worker.get("/jobs?select=version")).json == [{"version": 1}]


async def check_values_survive(harness: RowsHarness) -> None:
    """Large integers keep every digit, texts every character, null is no text."""
    worker = await client(harness)
    text = 'a"b\\c\n\t,()*%_é漢😀 '
    for number in (9007199254740993, 2**63 - 1, -(2**63)):
        row = {"id": number, "code": f"{text}{number}", "ratio": 0.1, "flag": True, "uid": _UUID}
        made = await worker.post("/kinds", row, prefer=_REPRESENTATION)
        assert made.status == 201, made.json
        read = await worker.get(f"/kinds?id=eq.{number}")
        assert read.json == [{**row, "size": None}]
    assert (await worker.get("/kinds?flag=is.true&select=id")).json != []
    assert (await worker.get("/kinds?size=is.not_null&select=id")).json == []


async def check_types_refuse(harness: RowsHarness) -> None:
    """A value that is not of the column's type is refused, in bodies and filters, not stored."""
    worker = await client(harness)
    for body in (
        {"id": "abc"},
        {"id": 1.5},
        {"id": True},
        {"id": 1, "size": "1x"},
        {"id": 1, "uid": "zz"},
        {"id": 1, "flag": "maybe"},
        {"id": 1, "ratio": "one"},
    ):
        answer = await worker.post("/kinds", body)
        assert (answer.status, answer.code) == (400, "22P02"), (body, answer.json)
    beyond = await worker.post("/kinds", b'{"id": 9223372036854775808}')
    assert (beyond.status, beyond.code) == (400, "22003")
    wrong = await worker.get("/kinds?size=eq.x")
    assert (wrong.status, wrong.code) == (400, "22P02")
    assert await harness.fetch("SELECT id FROM kinds") == []


async def check_constraints(harness: RowsHarness) -> None:
    """A constraint that fails has PostgREST's status and the SQLSTATE, and changes nothing."""
    worker = await client(harness)
    assert (await worker.post("/kinds", {"id": 1, "code": "c", "size": 1})).status == 201
    for target, body, status, code in (
        ("/kinds", {"id": 1}, 409, "23505"),
        ("/kinds", {"id": 2, "code": "c"}, 409, "23505"),
        ("/kinds", {"id": 2, "size": -1}, 400, "23514"),
        ("/jobs", {"id": 2}, 400, "23502"),
    ):
        answer = await worker.post(target, body)
        assert (answer.status, answer.code) == (status, code), answer.json
        assert set(answer.json) == {"code", "message", "details", "hint"}
        assert answer.field("proxy-status") == f"PostgREST; error={code}"
    assert await harness.fetch("SELECT id FROM kinds") == [(1,)]
    assert await harness.fetch("SELECT id FROM jobs") == []


async def check_unknown_names(harness: RowsHarness) -> None:
    """Tables and columns that are not there are told apart: 404, 400 in a body, 400 elsewhere."""
    worker = await client(harness)
    nowhere = await worker.get("/job")
    assert (nowhere.status, nowhere.code) == (404, "PGRST205")
    member = await worker.post("/jobs", {"id": 1, "name": "a", "nope": 1})
    assert (member.status, member.code) == (400, "PGRST204")
    for target in ("/jobs?nope=eq.1", "/jobs?select=nope", "/jobs?order=nope"):
        answer = await worker.get(target)
        assert (answer.status, answer.code) == (400, "42703"), target


async def check_hostile_names(harness: RowsHarness) -> None:
    """Text that looks like SQL stays a value, or is no name: nothing happens to the table."""
    worker = await client(harness)
    hostile = "x'; DROP TABLE jobs; --"
    await worker.post("/jobs", {"id": 1, "name": hostile})
    assert (await worker.get(f"/jobs?name=eq.{hostile}&select=id")).json == [{"id": 1}]
    for target in (f'/jobs?"{hostile}"=eq.1', f'/jobs?select="{hostile}"', f"/{hostile}"):
        assert (await worker.get(target)).status in (400, 404)
    await worker.delete(f"/jobs?name=eq.{hostile}")
    assert await harness.fetch("SELECT id FROM jobs") == []


async def check_one_spelling_of_a_key(harness: RowsHarness) -> None:
    """Spellings that the database casts to one value reach the same row, from body and filter."""
    worker = await client(harness)
    assert (await worker.post("/jobs", {"id": "007", "name": "a"})).status == 201
    assert (await worker.get("/jobs?id=eq.%2B07&select=name")).json == [{"name": "a"}]
    upper = "{" + _UUID.upper() + "}"
    assert (await worker.post("/things", {"uid": upper, "name": "t"})).status == 201
    plain = _UUID.replace("-", "")
    assert (await worker.get(f"/things?uid=eq.{plain}&select=uid")).json == [{"uid": _UUID}]
    again = await worker.post("/things", {"uid": plain})
    assert (again.status, again.code) == (409, "23505")


async def check_compound_keys(harness: RowsHarness) -> None:
    """A row with a key of several columns is pinned by all of them, commas and all."""
    worker = await client(harness)
    for second in ("Rock & R+ll", "a,b", "%2C", ""):
        body = {"k1": 1, "k2": second, "extra": 5}
        assert (await worker.post("/pairs", body)).status == 201
        escaped = second.replace("%", "%25").replace("&", "%26").replace("+", "%2B")
        read = await worker.get(f"/pairs?k1=eq.1&k2=eq.{escaped}")
        assert read.json == [body]
    changed = await worker.patch("/pairs?k1=eq.1&k2=eq.a,b", {"extra": 6})
    assert changed.field("content-range") == "0-0/*"
    assert (await worker.get("/pairs?extra=eq.6&select=k2")).json == [{"k2": "a,b"}]


async def check_order_and_paging(harness: RowsHarness) -> None:
    """Order puts nulls last ascending and first descending unless told; pages do not overlap."""
    worker = await client(harness)
    for a, b in (("x", 2), ("y", None), ("z", 1), ("w", 3)):
        await worker.post("/plain", {"a": a, "b": b})
    for order, expected in (
        ("b", "zxwy"),
        ("b.desc", "ywxz"),
        ("b.asc.nullsfirst", "yzxw"),
        ("b.desc.nullslast", "wxzy"),
        ("b.nullsfirst,a", "yzxw"),
    ):
        rows = (await worker.get(f"/plain?order={order}")).json
        assert "".join(row["a"] for row in rows) == expected, order
    page = await worker.get("/plain?order=a&limit=2&offset=1")
    assert [row["a"] for row in page.json] == ["x", "y"]
    assert page.field("content-range") == "1-2/*"
    beyond = await worker.get("/plain?offset=9")
    assert (beyond.status, beyond.json, beyond.field("content-range")) == (200, [], "*/*")


async def check_single_object(harness: RowsHarness) -> None:
    """Who asks for one object gets exactly one row, or 406; a write that found more is undone."""
    worker = await client(harness)
    for number in (1, 2):
        await worker.post("/jobs", {"id": number, "name": "n"})
    one = await worker.get("/jobs?id=eq.1&select=id", accept=_SINGLE)
    assert (one.status, one.json) == (200, {"id": 1})
    assert one.field("content-type") == f"{_SINGLE}; charset=utf-8"
    for send in (
        worker.get("/jobs", accept=_SINGLE),
        worker.patch("/jobs?id=gt.0", {"name": "m"}, accept=_SINGLE),
        worker.delete("/jobs", accept=_SINGLE, prefer=_REPRESENTATION),
    ):
        answer = await send
        assert (answer.status, answer.code) == (406, "PGRST116")
        assert answer.json["details"] == "The result contains 2 rows"
    assert await harness.fetch("SELECT name, version FROM jobs") == [("n", 1), ("n", 1)]
    none = await worker.get("/jobs?id=eq.9", accept=_SINGLE)
    assert none.json["details"] == "The result contains 0 rows"


async def check_max_affected(harness: RowsHarness) -> None:
    """Under handling=strict a write of more rows than max-affected is refused and undone."""
    worker = await client(harness)
    for number in (1, 2):
        await worker.post("/jobs", {"id": number, "name": "n"})
    strict = "handling=strict, max-affected=1"
    for send in (
        worker.patch("/jobs?id=gt.0", {"name": "m"}, prefer=strict),
        worker.delete("/jobs?id=gt.0", prefer=strict),
    ):
        answer = await send
        assert (answer.status, answer.code) == (400, "PGRST124")
        assert answer.json["details"] == "The query affects 2 rows"
    assert await harness.fetch("SELECT name, version FROM jobs") == [("n", 1), ("n", 1)]
    assert (await worker.delete("/jobs?id=eq.1", prefer=strict)).status == 204


async def check_location_of_the_new_row(harness: RowsHarness) -> None:
    """return=headers-only tells where the new row is, and nothing else."""
    worker = await client(harness)
    made = await worker.post("/pairs", {"k1": 1, "k2": "a&b"}, prefer="return=headers-only")
    assert (made.status, made.json) == (201, None)
    assert made.field("location") == "/db/pairs?k1=eq.1&k2=eq.a%26b"
    assert made.field("preference-applied") == "return=headers-only"


async def check_writes_of_others_are_seen(harness: RowsHarness) -> None:
    """Rows that a client beside the gateway wrote are read, their versions included."""
    worker = await client(harness)
    await harness.execute("INSERT INTO jobs(id, name, version) VALUES (5, 'beside', 41)")
    read = await worker.get("/jobs?id=eq.5")
    assert (read.json[0]["name"], read.etag) == ("beside", '"41"')
    changed = await worker.patch("/jobs?id=eq.5", {"name": "b"}, prefer=_REPRESENTATION)
    assert (changed.json[0]["version"], changed.etag) == (42, '"42"')
