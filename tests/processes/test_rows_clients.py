"""PostgREST's own Python client, as it is, against a real gateway over SQLite and PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import httpx
import pytest
from postgrest import AsyncPostgrestClient, CountMethod, SyncPostgrestClient
from postgrest.exceptions import APIError

from gateway.stores.postgres.store import PostgresStore
from tests.services.gateway_process import GatewayProcess

Start = Callable[..., GatewayProcess]
TABLE = """CREATE TABLE IF NOT EXISTS jobs(id integer PRIMARY KEY, name text NOT NULL,
state text DEFAULT 'new', info {json}, version integer NOT NULL DEFAULT 1)"""
POLICY = """
[server]
listen = "127.0.0.1:8080"
auth = "none"
[registry]
type = "sqlite"
[stores.db]
{store}
[stores.db.tables.jobs]
version_column = "version"
[[rules]]
store = "db"
match = "/db/jobs"
scope = "jobs"
"""


@pytest.fixture(params=["sqlite", "postgres"])
async def gateway(request: pytest.FixtureRequest, gateway_process: Start) -> GatewayProcess:
    """A gateway over a table `jobs` of one scope."""
    if request.param == "sqlite":
        sql = TABLE.format(json="json").replace("\n", " ")
        store = f'type = "sqlite"\npath = "db.sqlite"\ninit = {json.dumps(sql)}'
    else:
        dsn = request.getfixturevalue("postgres_dsn")
        raw = await asyncpg.connect(dsn)
        await raw.execute(TABLE.format(json="jsonb"))
        await raw.close()
        store = f'type = "postgres"\ndsn = {json.dumps(dsn)}'
        fence = PostgresStore("db", dsn, tables={})
        await fence.migrate()
        await fence.aclose()
    return gateway_process(POLICY.format(store=store))


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[Callable[[int], SyncPostgrestClient]]:
    """Makes the client of a holder of a token."""
    opened: list[SyncPostgrestClient] = []

    def make(token: int) -> SyncPostgrestClient:
        headers = {"X-Fence-Token": str(token)}
        opened.append(SyncPostgrestClient(f"{gateway.url}/db", headers=headers))
        return opened[-1]

    yield make
    for one in opened:
        one.aclose()


Client = Callable[[int], SyncPostgrestClient]


def test_what_a_worker_does_with_rows(client: Client) -> None:
    """Insert, bulk insert, upsert, update, filters, trees, paths, counts, ranges, CSV, delete."""
    jobs = client(5).from_("jobs")
    made = jobs.insert({"id": 1, "name": "a", "info": {"k": [1, {"x": "y"}]}}).execute()
    assert made.data[0]["state"] == "new"
    jobs.insert([{"id": 2, "name": "b"}, {"id": 3, "name": "c", "state": "old"}]).execute()
    merged = jobs.upsert([{"id": 3, "name": "cc"}, {"id": 4, "name": "d"}]).execute()
    assert [row["name"] for row in merged.data] == ["cc", "d"]
    changed = jobs.update({"state": "done"}).in_("id", [1, 2]).execute()
    assert [row["state"] for row in changed.data] == ["done", "done"]
    found = jobs.select("id, called:name", count=CountMethod.exact).like("name", "c%").execute()
    assert (found.data, found.count) == ([{"id": 3, "called": "cc"}], 1)
    either = jobs.select("id").or_("id.eq.1,and(id.gt.3,name.eq.d)").order("id").execute()
    assert [row["id"] for row in either.data] == [1, 4]
    inner = jobs.select("id").eq("info->k->1->>x", "y").single().execute()
    assert inner.data == {"id": 1}
    page = jobs.select("id", count=CountMethod.exact).order("id").range(1, 2).execute()
    assert ([row["id"] for row in page.data], page.count) == ([2, 3], 4)
    assert jobs.select("id,name").eq("id", 4).csv().execute().data == "id,name\n4,d"
    gone = jobs.delete().neq("id", 1).execute()
    assert len(gone.data) == 3
    with pytest.raises(APIError) as many:
        jobs.select("*").neq("id", 1).single().execute()
    assert many.value.code == "PGRST116"


def test_a_stale_worker_learns_it_as_an_error_of_its_client(client: Client) -> None:
    """A code of its own, for each kind of mutation, and nothing is changed."""
    client(7).from_("jobs").insert({"id": 1, "name": "newer"}).execute()
    stale = client(6).from_("jobs")
    attempts = (
        stale.insert({"id": 2, "name": "x"}),
        stale.insert([{"id": 2, "name": "x"}, {"id": 3, "name": "y"}]),
        stale.upsert({"id": 1, "name": "x"}),
        stale.update({"name": "x"}).eq("id", 1),
        stale.delete().eq("id", 1),
    )
    for attempt in attempts:
        with pytest.raises(APIError) as refused:
            attempt.execute()
        assert refused.value.code == "fence_token_stale"
        assert "7" in str(refused.value.details)
    rows = client(7).from_("jobs").select("id,name").execute()
    assert rows.data == [{"id": 1, "name": "newer"}]


async def test_the_asynchronous_client(gateway: GatewayProcess) -> None:
    """The same wire, awaited."""
    headers = {"X-Fence-Token": "1"}
    async with AsyncPostgrestClient(f"{gateway.url}/db", headers=headers) as postgrest:
        await postgrest.from_("jobs").insert([{"id": 1, "name": "a"}]).execute()
        found = await postgrest.from_("jobs").select("*").eq("id", 1).maybe_single().execute()
        assert found is not None
        assert found.data["name"] == "a"


def test_the_root_describes_the_tables(gateway: GatewayProcess) -> None:
    """OpenAPI, as PostgREST gives it; for HEAD the same length."""
    answer = httpx.get(f"{gateway.url}/db/", timeout=10)
    document: Any = answer.json()
    assert document["swagger"] == "2.0"
    assert set(document["paths"]["/jobs"]) == {"get", "post", "put", "patch", "delete"}
    properties = document["definitions"]["jobs"]["properties"]
    assert properties["id"]["type"] == "integer"
    assert properties["version"]["readOnly"] is True
    assert "name" in document["definitions"]["jobs"]["required"]
    head = httpx.head(f"{gateway.url}/db", timeout=10)
    assert head.headers["content-length"] == str(len(answer.content))
