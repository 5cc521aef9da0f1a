"""A whole gateway in front of an HTTP origin: what a worker sees on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from tests.services.gateway_process import GatewayProcess
from tests.services.http_origin import CouchLike, HttpOrigin, Said, serving

POLICY = """
[server]
listen = "127.0.0.1:8080"

[registry]
type = "memory"

[stores.couch]
type = "http"
endpoint = "{url}"
conditions = "etag"
probe_path = "/db/probe"
settle_ms = 1000

[[rules]]
match = "/couch/db/{{rest*}}"
scope = "db"
"""


@pytest.fixture
async def origin() -> AsyncIterator[HttpOrigin]:
    async with serving(HttpOrigin()) as origin:
        yield origin


async def started(start: Callable[..., GatewayProcess], url: str) -> GatewayProcess:
    """The origin lives in this loop, and the gateway asks it at its start."""
    return await asyncio.to_thread(start, POLICY.format(url=url))


async def test_a_stale_holder_changes_nothing(
    origin: HttpOrigin, gateway_process: Callable[..., GatewayProcess]
) -> None:
    """Fenced, streamed both ways, with the origin's own words; the start-up says what is promised.

    The stale write is refused at another path of the scope, and leaves no effect in the journal.
    """
    gateway = await started(gateway_process, origin.url)
    assert any("store couch: exact while" in line for line in gateway.lines())
    origin.effects.clear()
    large = bytes(range(256)) * 20_000
    async with httpx.AsyncClient(base_url=gateway.url + "/couch") as worker:

        def put(path: str, token: int | None, data: bytes) -> asyncio.Task[httpx.Response]:
            headers = {} if token is None else {"X-Fence-Token": str(token)}
            return asyncio.ensure_future(worker.put(path, content=data, headers=headers))

        answer = await put("/db/a", 2, large)
        assert (answer.status_code, answer.text) == (201, "done")
        assert answer.headers["X-Fence-Outcome"] == "applied"
        stale = await put("/db/b", 1, b"old")
        assert (stale.status_code, stale.headers["X-Fence-Outcome"]) == (412, "refused")
        assert stale.json()["code"] == "fence_token_stale"
        assert (await put("/db/b", None, b"none")).status_code == 428
        got = await worker.get("/db/a")
        assert got.content == large
        assert got.headers["etag"] == answer.headers["etag"]
        head = await worker.head("/db/a")
        assert (head.content, head.headers["content-length"]) == (b"", str(len(large)))
        missing = await worker.get("/db/none")
        assert (missing.status_code, missing.text) == (404, "there is no such thing")
        tree = await worker.delete("/db/", headers={"X-Fence-Token": "2"})
        assert tree.status_code == 404
        tree = await worker.delete("/", headers={"X-Fence-Token": "2"})
        assert tree.json()["code"] == "fence_scope_undetermined"
    assert [effect.path for effect in origin.effects] == ["/db/a"]


async def test_the_origins_errors_tell_the_outcome(
    origin: HttpOrigin, gateway_process: Callable[..., GatewayProcess]
) -> None:
    """A 500 is passed on as unknown, a 403 as refused; only the gateway's own refusals count as
    rejections.
    """
    gateway = await started(gateway_process, origin.url)
    async with httpx.AsyncClient(base_url=gateway.url + "/couch") as worker:
        for token, (status, outcome) in enumerate([(500, "unknown"), (403, "refused")], 2):
            origin.faults.answer = Said(status, (("x-fence-outcome", "applied"),), b"words")
            answer = await worker.post("/db/a", headers={"X-Fence-Token": str(token)})
            assert (answer.status_code, answer.text) == (status, "words")
            assert answer.headers.get_list("X-Fence-Outcome") == [outcome]
    samples = await asyncio.to_thread(gateway.metrics)
    rejected = sum(v for k, v in samples.items() if k.startswith("fencegate_rejections_total"))
    assert rejected == 0


async def test_an_origin_without_conditions_stops_the_start(
    origin: HttpOrigin, gateway_process: Callable[..., GatewayProcess]
) -> None:
    """What the policy claims is proven, or told with the setting to change."""
    origin.faults.ignore_conditions = True
    with pytest.raises(Exception, match='Set conditions = "none"'):
        await started(gateway_process, origin.url)


async def test_couch_documents(gateway_process: Callable[..., GatewayProcess]) -> None:
    """Revisions work through the gateway as before it, and a created one is told where it is."""
    async with serving(CouchLike()) as couch:
        policy = POLICY.replace('probe_path = "/db/probe"\n', "").format(url=couch.url)
        gateway = await asyncio.to_thread(gateway_process, policy)
        async with httpx.AsyncClient(base_url=gateway.url, headers={"X-Fence-Token": "5"}) as http:
            made = await http.post("/couch/db", json={"n": 1})
            assert made.status_code == 201
            place = made.headers["location"]
            assert place.startswith("/couch/db/")
            rev = (await http.get(place)).headers["etag"]
            assert (await http.put(place, json={"n": 2}, headers={"If-Match": rev})).is_success
            late = await http.put(place, json={"n": 3}, headers={"If-Match": rev})
            assert (late.status_code, late.json()["code"]) == (412, "precondition_failed")
