"""The `http` store over nginx's WebDAV: what a real origin keeps, and what it does not look at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest

from gateway.ports.store import ProbeFailed
from gateway.stores.http import OriginStore
from gateway.testing.store_contract import Law, Subject, Traits, laws_for
from tests.conformance.http_lake import Shore
from tests.conformance.origin_objects import OriginObjects
from tests.services.gateway_process import GatewayProcess

pytestmark = pytest.mark.extra

WEAK = replace(
    Traits(bucketed=False),
    conditions=False,
    exact=False,
    etag_unique=False,
    replays=False,
    stamped=False,
)
# Its ETag is made of the size and the second of the change, so that it repeats; it keeps no fields
# of a PUT; it answers 416 to a range that ends before it begins, which is none; and a store that
# does not look must be exact, says the law of looks.
NOT_NGINX = {"etags", "unconditional_race", "metadata", "ranges", "looks"}
OVER_NGINX = [law for law in laws_for(WEAK) if law.name not in NOT_NGINX]


@pytest.mark.parametrize("law", OVER_NGINX, ids=lambda law: law.name)
async def test_law_over_nginx(law: Law, nginx_dav: str) -> None:
    """Every other law holds: whole bodies, exact bytes, the gate last, reads of one version."""

    @asynccontextmanager
    async def open_subject() -> AsyncIterator[Subject]:
        store = OriginStore("dav", nginx_dav)
        try:
            await store.probe()
            yield Subject(OriginObjects(store), WEAK)
        finally:
            await store.aclose()

    await law.check(open_subject)


async def test_nginx_ignores_the_condition_of_a_put(nginx_dav: str) -> None:
    """So "etag" is refused for it at the start, by name, when there is a place to try."""
    async with httpx.AsyncClient(base_url=nginx_dav) as client:
        assert (await client.put("/a", content=b"old")).status_code == 201
        lied = await client.put("/a", content=b"new", headers={"If-Match": '"no"'})
        assert lied.status_code == 204
        assert (await client.get("/a")).content == b"new"
    store = OriginStore("dav", nginx_dav, conditions="etag", probe_path="/probe")
    with pytest.raises(ProbeFailed, match='Set conditions = "none"'):
        await store.probe()
    async with httpx.AsyncClient(base_url=nginx_dav) as client:
        assert (await client.get("/a")).content == b"new"
    await store.aclose()


async def test_collections_over_nginx(nginx_dav: str) -> None:
    """MKCOL and the DELETE of a collection reach it as they came; a redirect does not come back."""
    store = OriginStore("dav", nginx_dav)
    shore = Shore(store)
    for method, path, data in (("MKCOL", "/d/", b""), ("PUT", "/d/a", b"1")):
        assert "Written" in repr(await shore.write(method, path, data))
    moved = await shore.read("GET", "/d")
    assert "redirects (301)" in repr(moved)
    assert "Written" in repr(await shore.write("DELETE", "/d/"))
    assert (await shore.answer("GET", "/d/a")).status == 404
    await store.aclose()


async def test_a_stale_holder_before_nginx(
    nginx_dav: str, gateway_process: Callable[..., GatewayProcess]
) -> None:
    """The whole road: an older token changes nothing; the start says the promise is weaker."""
    policy = f"""
[server]
listen = "127.0.0.1:8080"
[registry]
type = "memory"
[stores.dav]
type = "http"
endpoint = "{nginx_dav}"
[[rules]]
match = "/dav/{{team}}/{{rest*}}"
scope = "{{team}}"
"""
    gateway = await asyncio.to_thread(gateway_process, policy)
    assert any("WEAKER" in line for line in gateway.lines())
    async with httpx.AsyncClient(base_url=gateway.url + "/dav") as worker:
        new = await worker.put("/red/a", content=b"x" * 2_000_000, headers={"X-Fence-Token": "2"})
        assert (new.status_code, new.headers["X-Fence-Outcome"]) == (201, "applied")
        old = await worker.put("/red/b", content=b"old", headers={"X-Fence-Token": "1"})
        assert (old.status_code, old.headers["X-Fence-Outcome"]) == (412, "refused")
        assert (await worker.get("/red/b")).status_code == 404
        wanted = {"X-Fence-Token": "2", "If-Match": '"a"'}
        refused = await worker.put("/red/a", content=b"1", headers=wanted)
        assert refused.json()["code"] == "condition_unsupported"
