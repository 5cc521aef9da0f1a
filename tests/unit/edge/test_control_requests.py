"""GET /v1/requests/{id}: the admin sees all, a worker its own, nobody else anything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx
import pytest

from gateway.edge.admin_gate import Admins
from gateway.edge.control import control_app
from gateway.edge.control_requests import Askers
from gateway.engine.request_log import Entry, State
from gateway.model.mark import Scope
from gateway.model.worker import WorkerKey

ENTRIES = (
    Entry("r1", "db", Scope("jobs"), 3, "h", "etl", "k/1?", "POST", 0.0, State.APPLIED),
    Entry("r2", "db", Scope("jobs"), 3, "h", "web", "k2", "POST", 0.0, State.UNKNOWN, "lost"),
    Entry("r3", "db", Scope("other"), 3, "h", "etl", "k/1?", "POST", 0.0, State.IN_FLIGHT),
    Entry("r4", "db", Scope("jobs"), 3, None, None, "k4", "POST", 0.0, State.REFUSED, "busy"),
)
ADMINS = Admins((WorkerKey("admin", "admin"),), lambda: 100.0)
KEYS = {
    "etl": WorkerKey("etl", "etl-secret"),
    "old": WorkerKey("old", "old-secret", expires_s=99.0),
}


class Desk:
    def find(self, name: str) -> tuple[Entry, ...]:
        return tuple(entry for entry in ENTRIES if name in (entry.request_id, entry.key))


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    app = control_app(
        None,  # type: ignore[arg-type] - not asked here
        None,  # type: ignore[arg-type]
        admins=ADMINS,
        exposition=bytes,
        digest=str,
        version="1",
        requests=(Desk(), Askers(ADMINS, KEYS, lambda: 100.0)),
    )
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as made:
        yield made


async def ask(
    client: httpx.AsyncClient, name: str, secret: str | None, query: str = ""
) -> httpx.Response:
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    return await client.get(f"/v1/requests/{quote(name, safe='')}{query}", headers=headers)


async def test_the_admin_sees_every_request(client: httpx.AsyncClient) -> None:
    """All of it: outcome, code, scope, token and holder, and never a mark."""
    for entry in ENTRIES:
        answer = await ask(client, entry.request_id, "admin")
        assert answer.status_code == 200
        assert answer.json() == {
            "id": entry.request_id,
            "outcome": entry.state.value,
            "settled": False,
            "code": entry.code,
            "store": "db",
            "scope": entry.scope,
            "token": 3,
            "holder": entry.holder,
            "key": entry.key,
        }


async def test_a_worker_sees_its_own_alone(client: httpx.AsyncClient) -> None:
    """Another's request, one sent without a key and one that never was: the same 404."""
    assert (await ask(client, "r1", "etl-secret")).status_code == 200
    others = [await ask(client, name, "etl-secret") for name in ("r2", "r4", "k2", "never")]
    assert {answer.status_code for answer in others} == {404}
    assert len({answer.json()["detail"] for answer in others}) == 1


@pytest.mark.parametrize("secret", [None, "", "wrong", "old-secret", "admin2"])
async def test_nobody_else_learns_anything(client: httpx.AsyncClient, secret: str | None) -> None:
    """No key, an unknown one, an expired one: 401, whether the request exists or not."""
    for name in ("r1", "never"):
        answer = await ask(client, name, secret)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Bearer realm="fencegate"'


async def test_a_key_of_the_client_is_a_name_too(client: httpx.AsyncClient) -> None:
    """Also one with a slash; used in several leases it needs the scope, and the answer says so."""
    several = await ask(client, "k/1?", "etl-secret")
    assert several.status_code == 400
    assert "jobs" in several.json()["detail"]
    assert "other" in several.json()["detail"]
    one = await ask(client, "k/1?", "etl-secret", "?scope=other")
    assert one.json()["outcome"] == "in-flight"
    none = await ask(client, "k/1?", "etl-secret", "?scope=none")
    assert none.status_code == 404


async def test_the_rest_of_the_control_api_stays_the_admins(client: httpx.AsyncClient) -> None:
    """A worker's key opens this one path, and none beside or below it."""
    headers = {"Authorization": "Bearer etl-secret"}
    for path in ("/v1/scopes", "/v1/requests", "/v1/requestsx/r1"):
        assert (await client.get(path, headers=headers)).status_code == 401
    assert (await client.post("/v1/requests/r1", headers=headers)).status_code == 405
