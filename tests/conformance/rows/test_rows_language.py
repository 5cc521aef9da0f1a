"""The language of rows on every engine: what a filter finds, what is shown and written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.policy.document import TableSettings
from gateway.testing.rows_subject import Client, mark
from tests.conformance.rows.engines import ENGINES, open_engine

SETUP = {
    "people": (
        "CREATE TABLE people(id int PRIMARY KEY, name text, age int, doc {json}, born date, "
        "fit boolean, version int)",
        "INSERT INTO people VALUES"
        ' (1, \'Anna\', 30, \'{{"city": "Rome", "tags": [1, 2], "ok": true}}\', \'1990-01-02\','
        " true, 1),"
        " (2, 'anna', NULL, '{{\"city\": \"Oslo\", \"tags\": []}}', '1991-01-02', false, 1),"
        " (3, 'B_b%', 5, NULL, NULL, NULL, 1),"
        ' (4, \'x,y)"z\', 7, \'{{"a.b": {{"c": "d"}}}}\', NULL, NULL, 1)',
    ),
    "stock": (
        "CREATE TABLE stock(shop int NOT NULL, item text NOT NULL, amount int DEFAULT 7, "
        "PRIMARY KEY (shop, item))",
        "INSERT INTO stock VALUES (1, 'a', 1), (1, 'b', 2)",
    ),
    "ranges": (
        "CREATE TABLE ranges(id int PRIMARY KEY, ints int[], span int4range, words tsvector, "
        "body text, j jsonb)",
        "INSERT INTO ranges VALUES"
        " (1, '{{1,2}}', '[1,5)', 'fat:1 cat:2', 'the fat cats', '{{\"a\": 1}}'),"
        " (2, '{{3}}', '[5,9)', 'dog:1', 'a dog', '{{\"a\": 2}}'),"
        " (3, NULL, NULL, NULL, NULL, NULL)",
    ),
}
TYPES = {
    "sqlite": {"json": "json"},
    "postgres": {"json": "jsonb"},
    "mariadb": {"json": "json"},
}
SHOWN = {"prefer": "return=representation"}
MERGE = {"prefer": "return=representation,resolution=merge-duplicates"}
OpenClient = Callable[..., Awaitable[Client]]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def open_client(
    request: pytest.FixtureRequest, tmp_path: Path, engine: str
) -> AsyncIterator[OpenClient]:
    """Makes a client of a new store with these tables; `people` has a version column."""
    opened: list[Any] = []

    async def open_one(*tables: str) -> Client:
        statements = [sql.format_map(TYPES[engine]) for name in tables for sql in SETUP[name]]
        settings = {
            name: TableSettings(version_column="version" if name == "people" else None)
            for name in tables
        }
        store = await open_engine(engine, request, tmp_path, statements, settings)
        opened.append(store)
        return await Client(store, mark(1)).ready()

    yield open_one
    for store in opened:
        await store.aclose()


FOUND = {
    "name=like.A*": [1],
    "name=like.*nn*": [1, 2],
    "name=like.a%25": [2],
    "name=ilike.ANN_": [1, 2],
    "name=not.ilike.ann*": [3, 4],
    "name=like.B\\_b\\%25": [3],
    "name=like(any).{A*,B*}": [1, 3],
    "name=ilike(all).{a*,*A}": [1, 2],
    "name=eq(any).{Anna,anna}": [1, 2],
    'name=eq(any).{"x,y)\\"z"}': [4],
    "age=gt(all).{4,6}": [1, 4],
    "age=eq(any).{}": [],
    "age=isdistinct.30": [2, 3, 4],
    "age=not.isdistinct.30": [1],
    "age=is.null": [2],
    "age=is.not_null": [1, 3, 4],
    "fit=is.true": [1],
    "fit=not.is.true": [2, 3, 4],
    "doc->>city=eq.Rome": [1],
    "doc->>city=like.*o*": [1, 2],
    "doc->>ok=eq.true": [1],
    "doc->tags->>0=eq.1": [1],
    "doc->tags->>-1=eq.2": [1],
    'doc->"a.b"->>c=eq.d': [4],
    "doc->>city=is.null": [3, 4],
    "doc->>city=in.(Oslo,Rome)": [1, 2],
    "or=(age.lt.6,age.gt.20)": [1, 3],
    "and=(age.gt.5,age.lt.20)": [4],
    "or=(name.eq.anna,and(age.gte.5,not.or(age.eq.5,age.eq.30)))": [2, 4],
    "not.or=(age.eq.5,age.eq.7)": [1],
    'or=(name.eq."x,y)\\"z",doc->>city.eq.Oslo)': [2, 4],
    "or=(id.in.(1,2),id.eq.3)&age=not.is.null": [1, 3],
    "and=(name.like(any).{A*,B*},id.gt.1)": [3],
    "born=gte.1991-01-01": [2],
}


@pytest.mark.parametrize("query", FOUND)
async def test_what_a_filter_finds(open_client: OpenClient, query: str) -> None:
    """The same rows on every engine, by GET and by what DELETE removes."""
    client = await open_client("people")
    read = await client.get(f"/people?select=id&order=id&{query}")
    assert [row["id"] for row in read.json] == FOUND[query], read.json
    gone = await client.delete(f"/people?select=id&{query}", **SHOWN)
    assert sorted(row["id"] for row in gone.json) == FOUND[query]
    assert (await client.get(f"/people?{query}")).json == []


ONLY_POSTGRES = {
    "ints=cs.{1}": [1],
    "ints=cd.{1,2,3}": [1, 2],
    "ints=ov.{2,3}": [1, 2],
    "span=sl.[6,9)": [1],
    "span=sr.[0,1)": [1, 2],
    "span=nxr.[0,6)": [1],
    "span=nxl.[4,6)": [2],
    "span=adj.[9,12)": [2],
    "words=fts.fat %26 cat": [1],
    "words=plfts.fat cat": [1],
    "words=phfts.fat cat": [1],
    "words=not.wfts.dog": [1],
    "body=fts(english).cat": [1],
    "body=match.^a": [2],
    "body=imatch(any).{^A,FAT}": [1, 2],
    'j=cs.{"a":1}': [1],
    "j->a=eq.2": [2],
    "j->a=gt.1": [2],
    'or=(ints.cs.{3},span.cs."[1,2)")': [1, 2],
    "ints->0=eq.3": [2],
}


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
@pytest.mark.parametrize("query", ONLY_POSTGRES)
async def test_what_only_postgresql_finds(open_client: OpenClient, query: str) -> None:
    """Arrays, ranges, text search and regular expressions are the database's own."""
    client = await open_client("ranges")
    read = await client.get(f"/ranges?select=id&order=id&{query}")
    assert [row["id"] for row in read.json] == ONLY_POSTGRES[query]


@pytest.mark.parametrize(
    "engine", ["sqlite", pytest.param("mariadb", marks=pytest.mark.extra)], indirect=True
)
@pytest.mark.parametrize("test", ["match.x", "cs.{1}", "fts.x", "adj.[1,2)"])
async def test_what_an_engine_has_not_is_refused(open_client: OpenClient, test: str) -> None:
    """By its name, and nothing is removed."""
    client = await open_client("people")
    for answer in (
        await client.get(f"/people?name={test}"),
        await client.delete(f"/people?name={test}"),
    ):
        assert answer.status == 501
        assert test.partition(".")[0] in answer.json["message"]
    assert len((await client.get("/people")).json) == 4


SHOWS = {
    "select=id,who:name": {"id": 1, "who": "Anna"},
    "select=age::text": {"age": "30"},
    "select=fit::text,n:age::numeric": {"fit": "true", "n": 30},
    "select=doc->>city,doc->tags": {"city": "Rome", "tags": [1, 2]},
    'select="q,\\"x":doc->tags->0': {'q,"x': 1},
    "select=doc->nope": {"nope": None},
    "select=doc->>ok": {"ok": "true"},
}


@pytest.mark.parametrize("query", SHOWS)
async def test_what_is_shown(open_client: OpenClient, query: str) -> None:
    """Aliases, casts and paths, of a read and of what a write gives back."""
    client = await open_client("people")
    assert (await client.get(f"/people?id=eq.1&{query}")).json == [SHOWS[query]]
    changed = await client.patch(f"/people?id=eq.1&{query}", {"born": None}, **SHOWN)
    assert changed.json == [SHOWS[query]]
    gone = await client.delete(f"/people?id=eq.1&{query}", **SHOWN)
    assert gone.json == [SHOWS[query]]


async def test_a_star_beside_others(open_client: OpenClient) -> None:
    """All columns, and one of them under another name too."""
    client = await open_client("stock")
    read = await client.get("/stock?select=*,n:amount&item=eq.a")
    assert read.json == [{"shop": 1, "item": "a", "amount": 1, "n": 1}]


@pytest.mark.parametrize("order", ["doc->>city.asc.nullsfirst,id", "doc->>city.desc,id"])
async def test_order_by_a_path(open_client: OpenClient, order: str) -> None:
    """Nulls first, then by the text."""
    client = await open_client("people")
    read = await client.get(f"/people?select=id&order={order}")
    ids = [row["id"] for row in read.json]
    assert ids == ([3, 4, 2, 1] if "asc" in order else [3, 4, 1, 2])


async def test_lines_of_values(open_client: OpenClient) -> None:
    """Read as CSV, as PostgreSQL writes records; written from CSV with the bare word NULL."""
    client = await open_client("people")
    read = await client.get("/people?select=id,name,fit&order=id", accept="text/csv")
    assert read.field("content-type") == "text/csv; charset=utf-8"
    assert isinstance(read.reply.body, bytes)
    assert read.reply.body.decode().split("\n") == [
        "id,name,fit",
        "1,Anna,t",
        "2,anna,f",
        "3,B_b%,",
        '4,"x,y)""z",',
    ]
    body = b'id,name,age\n5,"a,b",NULL\n6,,3\n'
    made = await client.post("/people", body, content_type="text/csv", **SHOWN)
    assert made.status == 201
    assert [(r["id"], r["name"], r["age"]) for r in made.json] == [(5, "a,b", None), (6, "", 3)]
    form = await client.post(
        "/people", b"id=7&name=x+y", content_type="application/x-www-form-urlencoded", **SHOWN
    )
    assert (form.json[0]["id"], form.json[0]["name"]) == (7, "x y")
    lines = await client.delete("/people?id=gt.5&select=id", accept="text/csv", **SHOWN)
    assert isinstance(lines.reply.body, bytes)
    assert lines.reply.body.decode() == "id\n6\n7"


@pytest.mark.parametrize(
    "query,fields,status,span,ids",
    [
        ("", {"prefer": "count=exact"}, 200, "0-3/4", [1, 2, 3, 4]),
        ("&limit=2", {"prefer": "count=exact"}, 206, "0-1/4", [1, 2]),
        ("&limit=2&offset=2", {"prefer": "count=planned"}, 206, "2-3/4", [3, 4]),
        ("&limit=2", {}, 200, "0-1/*", [1, 2]),
        ("&id=gt.9", {"prefer": "count=exact"}, 200, "*/0", []),
        ("", {"range": "1-2"}, 200, "1-2/*", [2, 3]),
        ("&limit=1", {"range": "1-2", "prefer": "count=exact"}, 206, "1-2/4", [2, 3]),
        ("", {"range": "3-", "range_unit": "items"}, 200, "3-3/*", [4]),
        ("&limit=0", {"prefer": "count=exact"}, 206, "*/4", []),
    ],
)
async def test_pages_and_totals(
    open_client: OpenClient,
    query: str,
    fields: dict[str, str],
    status: int,
    span: str,
    ids: list[int],
) -> None:
    """206 where the total was asked and there is more than is shown."""
    client = await open_client("people")
    read = await client.get(f"/people?select=id&order=id{query}", **fields)
    assert (read.status, read.field("content-range")) == (status, span)
    assert [row["id"] for row in read.json] == ids
    head = await client.send("HEAD", f"/people?select=id&order=id{query}", **fields)
    assert (head.status, head.field("content-range"), head.reply.body) == (status, span, b"")


async def test_totals_of_writes(open_client: OpenClient) -> None:
    """count=exact tells how many rows a mutation touched."""
    client = await open_client("stock")
    counted = {"prefer": "count=exact"}
    made = await client.post(
        "/stock", [{"shop": 2, "item": "a"}, {"shop": 2, "item": "b"}], **counted
    )
    assert (made.status, made.field("content-range")) == (201, "*/2")
    changed = await client.patch("/stock?shop=eq.2", {"amount": 1}, **counted)
    assert (changed.status, changed.field("content-range")) == (204, "0-1/2")
    gone = await client.delete("/stock?shop=eq.9", **counted)
    assert (gone.status, gone.field("content-range")) == (204, "*/0")


async def test_an_upsert_tells_made_from_merged(open_client: OpenClient) -> None:
    """201 when a row was made, 200 when all were merged; ignored ones are left as they are."""
    client = await open_client("stock")
    merged = await client.post("/stock", [{"shop": 1, "item": "a", "amount": 5}], **MERGE)
    assert (merged.status, merged.json[0]["amount"]) == (200, 5)
    both = await client.post(
        "/stock", [{"shop": 1, "item": "a"}, {"shop": 1, "item": "c"}], **MERGE
    )
    assert (both.status, [row["amount"] for row in both.json]) == (201, [5, 7])
    ignore = {"prefer": "return=representation,resolution=ignore-duplicates"}
    ignored = await client.post("/stock", [{"shop": 1, "item": "a", "amount": 9}], **ignore)
    assert (ignored.status, ignored.json) == (201, [])
    assert (await client.get("/stock?item=eq.a")).json[0]["amount"] == 5


async def test_a_retried_upsert_gets_its_own_answer(open_client: OpenClient) -> None:
    """The status too is that of the first attempt: made, although by now the row stands there."""
    client = await open_client("stock")
    for status, item in ((201, "z"), (200, "a")):
        body = [{"shop": 1, "item": item, "amount": 3}]
        key = {**MERGE, "idempotency_key": f"k-{item}"}
        first = await client.post("/stock", body, **key)
        again = await client.post("/stock", body, **key)
        assert first.status == again.status == status
        assert first.json == again.json


async def test_an_upsert_raises_versions(open_client: OpenClient) -> None:
    """A merged row has a new version, so that its ETag of before matches no more."""
    client = await open_client("people")
    body = [{"id": 1, "name": "new"}, {"id": 9, "name": "made"}]
    merged = await client.post("/people?select=id,version", body, **MERGE)
    assert merged.json == [{"id": 1, "version": 2}, {"id": 9, "version": 1}]


async def test_put(open_client: OpenClient) -> None:
    """Makes the row, replaces it, honours its conditions, and takes no half row."""
    client = await open_client("stock")
    target = "/stock?shop=eq.3&item=eq.a"
    row = {"shop": 3, "item": "a", "amount": 1}
    made = await client.send("PUT", target, row, **SHOWN)
    assert (made.status, made.json) == (201, [row])
    again = await client.send("PUT", target, {**row, "amount": 2})
    assert (again.status, again.reply.body) == (204, b"")
    refused = await client.send("PUT", target, row, if_none_match="*")
    assert refused.status == 412
    half = await client.send("PUT", target, {"shop": 3, "item": "a"})
    assert (half.status, "amount" in half.json["message"]) == (400, True)
    assert (await client.get(f"{target}&select=amount")).json == [{"amount": 2}]


async def test_put_with_a_version(open_client: OpenClient) -> None:
    """If-Match asks for a row of that version: another one, or none, is 412 and stays so."""
    client = await open_client("people")
    row = {"id": 1, "name": "n", "age": 1, "doc": None, "born": None, "fit": None}
    etag = (await client.get("/people?id=eq.1")).field("etag")
    assert etag is not None
    done = await client.send("PUT", "/people?id=eq.1", row, if_match=etag, **SHOWN)
    assert (done.status, done.json[0]["version"]) == (200, 2)
    stale = await client.send("PUT", "/people?id=eq.1", row, if_match=etag)
    absent = await client.send("PUT", "/people?id=eq.77", {**row, "id": 77}, if_match=etag)
    assert (stale.status, absent.status) == (412, 412)
    assert (await client.get("/people?id=eq.77")).json == []
    fresh = await client.send("PUT", "/people?id=eq.77", {**row, "id": 77}, if_none_match="*")
    assert fresh.status == 201


async def test_a_batch_is_written_whole_or_not_at_all(open_client: OpenClient) -> None:
    """One bad row undoes the others; a stale holder writes none."""
    client = await open_client("stock")
    bad = [{"shop": 5, "item": "a"}, {"shop": 5, "item": None}]
    assert (await client.post("/stock", bad)).status == 400
    twice = [{"shop": 5, "item": "a"}, {"shop": 5, "item": "a"}]
    assert (await client.post("/stock", twice)).status == 409
    assert (await client.get("/stock?shop=eq.5")).json == []
    newer = await client.at(2).ready()
    stale = await client.post(
        "/stock", [{"shop": 5, "item": "a"}, {"shop": 5, "item": "b"}], **MERGE
    )
    assert stale.status == 412
    assert (await newer.get("/stock?shop=eq.5")).json == []


@pytest.mark.parametrize(
    "target,body,fields,keys",
    [
        ("/stock", [{"shop": 1, "item": "x"}], {}, 1),
        ("/stock", [{"shop": 1, "item": "x"}, {"shop": 1, "item": "y"}], {}, 2),
        ("/stock", [{"shop": 1, "item": "x"}, {"shop": 1}], {}, 0),
        ("/stock", [{"shop": 1, "item": "a"}], MERGE, 1),
        ("/people", [{"id": 1, "name": "x"}], MERGE, 1),
        ("/people?on_conflict=name", [{"id": 1, "name": "x"}], MERGE, 0),
    ],
)
async def test_which_rows_an_insert_names(
    open_client: OpenClient, target: str, body: Any, fields: dict[str, str], keys: int
) -> None:
    """Rows known by their keys can have a scope of their own; a merge by another column, not."""
    client = await open_client("stock", "people")
    columns = "" if keys or "people" in target else "?columns=shop,item"
    operation = await client.operation("POST", target + columns, body, **fields)
    assert operation.resource.exact is (keys == 1)
    assert len(operation.routes) == (keys if keys > 1 else 0)
