"""Values and names go through untouched, whatever is in them; none of them becomes SQL."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.model.mark import Scope
from gateway.model.reply import Rows
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
from gateway.ports.store import NotWritten, ReadDone, ReadRefused, Written
from gateway.stores.postgres.store import PostgresStore
from tests.conformance.postgres.conftest import OpenStore
from tests.conformance.postgres.requests import equal, mark_at, operation, select, update, write
from tests.conformance.postgres.wire import Wire

NASTY = [
    "'; DROP TABLE jobs; --",
    "' OR '1'='1",
    '"',
    '"; DELETE FROM jobs; --',
    "\\",
    "\\'; SELECT pg_sleep(9); --",
    "$1",
    "$$; DROP TABLE jobs; $$",
    "{table}",
    "%s %(x)s",
    "E'\\x00'",
    "; COMMIT; BEGIN",
    "/* */",
    "--",
    "NULL",
    "null",
    "",
    " ",
    "a\nb\tc\r",
    "ünïcödé ☃ 𝄞",
    "\u202e",
    "(1),(2)",
    "{a,b}",
    '{"a":1}',
    "x" * 5_000,
]


async def rows(store: PostgresStore, action: SelectRows) -> Any:
    """What a read answers, as parsed JSON."""
    result = await store.read(operation(action))
    assert isinstance(result, ReadDone), result
    assert isinstance(result.reply, Rows)
    return json.loads(result.reply.json or "null")


@pytest.mark.parametrize("text", NASTY)
async def test_nasty_values_are_values(text: str, jobs: PostgresStore, raw: Any) -> None:
    """A value comes back as it went in, is found by itself alone, and does nothing else."""
    assert (await write(jobs, update("jobs", 1, state=text))).reply.count == 1
    assert await raw.fetchval("SELECT state FROM jobs WHERE id = 1") == text
    for one in (equal("state", text), Filter("state", Comparison.IN, (text, "other"))):
        assert [row["id"] for row in await rows(jobs, select("jobs", one))] == [1]
    assert await raw.fetchval("SELECT count(*) FROM jobs") == 5
    gone = DeleteRows("jobs", (equal("state", text),))
    assert (await write(jobs, gone)).reply.count == 1
    assert await raw.fetchval("SELECT count(*) FROM jobs") == 4


async def test_a_nul_is_refused_not_cut(jobs: PostgresStore, raw: Any) -> None:
    """PostgreSQL has no NUL in texts: refused as the client's mistake, in body and filter."""
    in_body = await write(jobs, update("jobs", 1, state="a\0b"))
    in_filter = await jobs.read(operation(select("jobs", equal("state", "a\0b"))))
    assert isinstance(in_body, NotWritten)
    assert isinstance(in_filter, ReadRefused)
    assert (in_body.problem.status, in_filter.problem.status) == (400, 400)
    assert await raw.fetchval("SELECT state FROM jobs WHERE id = 1") == "new"


NAMES = [
    'we"ird; DROP TABLE jobs; --',
    "Mixed Case",
    "select",
    "{body}",
    "{0}",
    "%s",
    "$1",
    "ü",
    "t",
    "b",
    "j",
    "v",
    "x",
]
"""Names that are SQL, templates, or the aliases that the store's own statements use."""


@pytest.mark.parametrize("name", NAMES)
async def test_nasty_names_are_names(name: str, open_store: OpenStore, raw: Any) -> None:
    """Tables and columns of any name can be written, filtered, sorted and read."""
    quoted = '"' + name.replace('"', '""') + '"'
    await raw.execute(f"CREATE TABLE {quoted} (id int PRIMARY KEY, {quoted} text, v2 int)")
    store = await open_store({name: "v2"})
    await store.carry(Scope("jobs"), mark_at(1))
    made = InsertRows(
        name, ((Member("id", "1"), Member(name, '"a"')),), returning=(Selected(name),)
    )
    assert json.loads((await write(store, made)).reply.json) == [{name: "a"}]
    changed = UpdateRows(
        name,
        (Member(name, '"b"'),),
        (equal(name, "a"),),
        returning=(Selected(name), Selected("id")),
    )
    assert json.loads((await write(store, changed)).reply.json) == [{name: "b", "id": 1}]
    order = (Order(name, descending=True),)
    read = SelectRows(name, (Selected(name),), (equal(name, "b"),), order)
    assert await rows(store, read) == [{name: "b"}]
    assert (await write(store, DeleteRows(name, (equal(name, "b"),)))).reply.count == 1


@pytest.mark.parametrize("name", [*NASTY, "nope", "ctid", "xmin", "tableoid"])
async def test_names_that_the_catalogue_lacks_are_refused(name: str, jobs: PostgresStore) -> None:
    """A name of a request that is no column is refused before there is any SQL; system columns
    are none."""
    reads = [
        SelectRows("jobs", columns=(Selected(name),)),
        SelectRows("jobs", filters=(equal(name, "1"),)),
        SelectRows("jobs", order=(Order(name),)),
    ]
    for action in reads:
        refused = await jobs.read(operation(action))
        assert isinstance(refused, ReadRefused)
        assert (refused.problem.status, refused.problem.native) == (400, "42703")
    for change in (
        update("jobs", 1, **{name: "x"}),
        UpdateRows("jobs", (Member("state", '"x"'),), (equal(name, "1"),)),
        update("jobs", 1, returning=(name,), state="x"),
        DeleteRows("jobs", (equal(name, "1"),)),
    ):
        result = await write(jobs, change)
        assert isinstance(result, NotWritten)
        assert (result.problem.status, result.problem.native) == (400, "42703")
    unknown = await jobs.read(operation(SelectRows(name)))
    assert isinstance(unknown, ReadRefused)
    assert unknown.problem.native == "PGRST205"


TYPES = {
    "bigint": "9223372036854775807",
    "smallint": "-32768",
    "numeric": "12345678901234567890.0123456789",
    "double precision": "0.1",
    "boolean": "true",
    "uuid": '"123e4567-e89b-12d3-a456-426614174000"',
    "date": '"2024-02-29"',
    "timestamptz": '"2024-02-29T12:00:00.123456+00:00"',
    "interval": '"1 day 02:00:00"',
    "bytea": '"\\\\xdeadbeef"',
    "jsonb": '{"a": [1, null, "x"]}',
    "json": '{"b":1,"a":12345678901234567890.5}',
    "integer[]": "[1,2,null]",
    "text[]": '["a,b","{}"]',
    "char(5)": '"ab   "',
    "varchar(5)": '"abcde"',
    "bit(3)": '"101"',
    "inet": '"10.0.0.1/8"',
    "int4range": '"[1,5)"',
    "mood": '"so so"',
    "positive": "5",
    "pair": '{"a":1,"b":"x"}',
    "money": '"$5.00"',
}


@pytest.mark.parametrize("type_name", TYPES)
async def test_every_type_goes_through(type_name: str, open_store: OpenStore, raw: Any) -> None:
    """A JSON value is typed by the column and comes back digit by digit."""
    await raw.execute(OWN_TYPES)
    await raw.execute(f"CREATE TABLE kinds (id int PRIMARY KEY, value {type_name})")
    store = await open_store({"kinds": None})
    await store.carry(Scope("jobs"), mark_at(1))
    made = InsertRows(
        "kinds",
        ((Member("id", "1"), Member("value", TYPES[type_name])),),
        returning=(Selected("value"),),
    )
    result = await write(store, made)
    assert isinstance(result, Written), result
    assert result.reply.json == f'[{{"value":{TYPES[type_name]}}}]'
    null = UpdateRows(
        "kinds", (Member("value", "null"),), (equal("id", 1),), returning=(Selected("value"),)
    )
    expected = '[{"value":null}]'
    assert (await write(store, null)).reply.json == expected


OWN_TYPES = """
CREATE TYPE mood AS ENUM ('fine', 'so so');
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE TYPE pair AS (a integer, b text);
"""
FILTERABLE = [one for one in TYPES if one not in {"json", "pair"}]


@pytest.mark.parametrize("type_name", FILTERABLE)
async def test_every_type_can_be_filtered(type_name: str, open_store: OpenStore, raw: Any) -> None:
    """A filter's text is cast by the column's type, without a length that would cut it."""
    await raw.execute(OWN_TYPES)
    await raw.execute(f"CREATE TABLE kinds (id int PRIMARY KEY, value {type_name})")
    store = await open_store({"kinds": None})
    await store.carry(Scope("jobs"), mark_at(1))
    made = InsertRows("kinds", ((Member("id", "1"), Member("value", TYPES[type_name])),))
    assert isinstance(await write(store, made), Written)
    text = await raw.fetchval("SELECT value::text FROM kinds")
    for one in (
        equal("value", text),
        Filter("value", Comparison.IN, (text,)),
        Filter("value", Comparison.GTE, (text,)),
        Filter("value", Comparison.IS, ("not_null",)),
        Filter("value", Comparison.NEQ, (text,), negated=True),
    ):
        assert len(await rows(store, select("kinds", one))) == 1, one
    assert await rows(store, select("kinds", Filter("value", Comparison.IN, ()))) == []


@pytest.mark.parametrize(
    "type_name, text", [("varchar(5)", "abcdef"), ("char(2)", "abc"), ("bit(2)", "101")]
)
async def test_a_filter_that_is_too_long_matches_nothing(
    type_name: str, text: str, open_store: OpenStore, raw: Any
) -> None:
    """A cast to the column's full type would cut the value and match a row nobody named."""
    await raw.execute(f"CREATE TABLE kinds (value {type_name})")
    await raw.execute(f"INSERT INTO kinds VALUES ('{text[:-1]}')")  # what a cut would leave
    assert (
        await raw.fetchval(f"SELECT count(*) FROM kinds WHERE value = '{text}'::{type_name}") == 1
    )
    store = await open_store({"kinds": None})
    await store.carry(Scope("jobs"), mark_at(1))
    assert await rows(store, select("kinds", equal("value", text))) == []
    assert (await write(store, DeleteRows("kinds", (equal("value", text),)))).reply.count == 0


async def test_defaults_generated_columns_and_checks(open_store: OpenStore, raw: Any) -> None:
    """Columns that a row leaves out get their default; what the table refuses is refused."""
    await raw.execute(
        "CREATE TABLE kinds (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int DEFAULT 7 "
        "CHECK (a > 0), b int GENERATED ALWAYS AS (a * 2) STORED, c text NOT NULL DEFAULT 'c')"
    )
    store = await open_store({"kinds": None})
    await store.carry(Scope("jobs"), mark_at(1))
    empty = await write(store, InsertRows("kinds", ((),), returning=()))
    assert json.loads(empty.reply.json) == [{"id": 1, "a": 7, "b": 14, "c": "c"}]
    for member, state in (
        (Member("a", "-1"), "23514"),
        (Member("b", "1"), "428C9"),
        (Member("id", "5"), "428C9"),
        (Member("c", "null"), "23502"),
        (Member("a", '"x"'), "22P02"),
        (Member("a", "99999999999"), "22003"),
    ):
        result = await write(store, InsertRows("kinds", ((member,),)))
        assert isinstance(result, NotWritten)
        assert (result.problem.native, result.problem.status) == (state, 400), result


async def test_a_trigger_may_answer_with_a_status_of_its_own(jobs: PostgresStore, raw: Any) -> None:
    """SQLSTATE PTnnn of the database's own rules becomes the status nnn, its words the answer."""
    await raw.execute(
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE SQLSTATE 'PT403' USING message = 'not on Sundays', detail = 'd', hint = 'h'; END $$;"
        "CREATE TRIGGER no BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION no()"
    )
    result = await write(jobs, update("jobs", 1, state="x"))
    assert isinstance(result, NotWritten)
    problem = result.problem
    assert (problem.status, problem.message, problem.details, problem.hint) == (
        403,
        "not on Sundays",
        "d",
        "h",
    )


async def test_reads_cannot_write(open_store: OpenStore, jobs: PostgresStore, raw: Any) -> None:
    """A read runs read-only: a view that would write is refused by the server, as 405."""
    await raw.execute(
        "CREATE FUNCTION sneak() RETURNS int LANGUAGE sql VOLATILE AS "
        "'UPDATE jobs SET state = ''sneaked'' RETURNING id';"
        "CREATE VIEW sneaky AS SELECT sneak() AS id"
    )
    store = await open_store({"sneaky": None})
    refused = await store.read(operation(select("sneaky")))
    assert isinstance(refused, ReadRefused)
    assert (refused.problem.native, refused.problem.status) == ("25006", 405)


async def test_partitioned_tables_and_views_can_be_written(open_store: OpenStore, raw: Any) -> None:
    """What PostgreSQL lets be written through another table is fenced like any other."""
    await raw.execute(
        "CREATE TABLE parts (id int, version int, PRIMARY KEY (id)) PARTITION BY RANGE (id);"
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);"
        "CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20);"
        "CREATE VIEW seen AS SELECT * FROM parts"
    )
    store = await open_store({"parts": "version", "seen": "version"})
    await store.carry(Scope("jobs"), mark_at(1))
    for table, key in (("parts", 1), ("seen", 11)):
        made = InsertRows(table, ((Member("id", str(key)),),), returning=())
        assert json.loads((await write(store, made)).reply.json) == [{"id": key, "version": 1}]
        moved = UpdateRows(table, (Member("id", str(key + 1)),), (equal("id", key),), returning=())
        result = await write(store, moved)
        assert json.loads(result.reply.json) == [{"id": key + 1, "version": 2}]
        assert result.reply.etag == '"2"'


async def test_a_write_is_one_round_trip(
    wire: tuple[Wire, str], open_store: OpenStore, jobs: PostgresStore
) -> None:
    """Prepared once, each write, read and repeated raise is one question and one answer."""
    store = await open_store({"jobs": "version"}, dsn=wire[1], pool_size=2)
    shapes = [update("jobs", 1, (), state="x"), DeleteRows("jobs", (equal("id", 99),))]
    for shape in shapes:
        await write(store, shape)
    await store.read(operation(select("jobs")))
    await store.carry(Scope("jobs"), mark_at(2))
    steps: list[tuple[Any, int]] = [
        (lambda: write(store, update("jobs", 1, (), state="y"), 2), 1),
        (lambda: write(store, update("jobs", 9, (), state="y"), 2), 1),
        (lambda: write(store, update("jobs", 1, (), state="y"), 1), 1),  # stale
        (lambda: write(store, DeleteRows("jobs", (equal("id", 98),)), 2), 1),
        (lambda: store.read(operation(select("jobs"))), 1),
        (lambda: store.carry(Scope("jobs"), mark_at(3)), 1),
        (lambda: store.look(operation(shapes[0]), Scope("jobs")), 0),
    ]
    for number, (step, expected) in enumerate(steps):
        before = wire[0].answers
        await step()
        assert wire[0].answers - before == expected, number
