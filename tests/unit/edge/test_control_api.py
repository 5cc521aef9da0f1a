"""Laws of the control API: the admin alone seals and reads marks; errors say what to change."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from gateway.edge.admin_gate import Admins
from gateway.edge.audit_log import AuditLog
from gateway.edge.control import control_app, describe
from gateway.edge.control_requests import Askers
from gateway.engine.request_log import RequestLog
from gateway.model.claim import Generation, Member, ReplicaId, ScopePage, ScopeRow
from gateway.model.mark import Era, Mark, Scope
from gateway.model.problem import STATUS, Code, Problem
from gateway.model.token import MAX_TOKEN, Holder, Token
from gateway.model.worker import WorkerKey
from gateway.ports.registry import RegistryUnavailable
from gateway.system_clock import SystemClock, wall_s

KEY = "the-admin-key"
ADMIN = {"Authorization": f"Bearer {KEY}"}
ROWS = tuple(
    ScopeRow(Scope(f"s/{n}"), Mark(Era(1), n, holder=Holder("h1")), registrations=1)
    for n in range(1, 6)
)


class Desk:
    """A desk that keeps what it was asked, and answers what it was told to."""

    def __init__(self) -> None:
        self.sealed: list[tuple[str, int | None, str | None]] = []
        self.was_reset: list[tuple[str, str]] = []
        self.answer: Mark | Problem = Mark(Era(2), 8, burnt=True, holder=Holder("h2"))
        self.down = False

    async def seal(
        self, scope: Scope, token: Token | None, holder: Holder | None
    ) -> Mark | Problem:
        self._check()
        self.sealed.append((scope, token, holder))
        return self.answer

    async def reset(self, scope: Scope, reason: str) -> Mark | Problem:
        self._check()
        self.was_reset.append((scope, reason))
        return self.answer

    async def scope(self, scope: Scope) -> ScopeRow | None:
        self._check()
        return next((row for row in ROWS if row.scope == scope), None)

    async def scopes(self, after: str | None, limit: int) -> ScopePage:
        self._check()
        rows = tuple(row for row in ROWS if after is None or row.scope > after)
        return ScopePage(rows[:limit], rows[limit - 1].scope if len(rows) > limit else None)

    async def replicas(self) -> tuple[tuple[Member, ...], Generation | None]:
        self._check()
        members = [Member(ReplicaId(r), Generation(f"g-{r}"), n) for n, r in enumerate("ba")]
        return tuple(members), Generation("g-b")

    def _check(self) -> None:
        if self.down:
            raise RegistryUnavailable("no answer within 1.5 s")


class Parts:
    def __init__(self) -> None:
        self.parts: dict[str, str | None] = {"registry": None, "store files": None}

    async def ready(self) -> Mapping[str, str | None]:
        return self.parts


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def parts() -> Parts:
    return Parts()


@pytest.fixture
def app(desk: Desk, parts: Parts) -> FastAPI:
    return control_app(
        desk,
        parts,
        admins=Admins((WorkerKey("admin", KEY),), lambda: 0.0),
        exposition=lambda: b"fencegate_x 1\n",
        digest=lambda: "d1g357",
        version="1.2.3",
        reach=lambda scope: frozenset() if scope.startswith("nobody") else frozenset({"files"}),
        requests=(RequestLog(SystemClock()), Askers(KEY, {}, wall_s)),
    )


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as found:
        yield found


def problem(answer: httpx.Response, code: Code) -> dict[str, Any]:
    """Check the shape of an error answer and give its members."""
    assert answer.status_code == STATUS[code]
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert (body["status"], body["code"]) == (STATUS[code], code.value)
    assert body["type"] == f"urn:fencegate:problem:{code.value}"
    return body


WRONG_KEYS = [
    None,
    "",
    "Bearer",
    "Bearer ",
    KEY,
    f"Basic {KEY}",
    f"Bearer {KEY}x",
    f"Bearer {KEY[:-1]}",
    f"Bearer {KEY.upper()}",
]


@pytest.mark.parametrize("given", WRONG_KEYS)
@pytest.mark.parametrize(
    "method, path",
    [
        ("POST", "/v1/seal"),
        ("POST", "/v1/reset"),
        ("GET", "/v1/scopes"),
        ("GET", "/v1/later"),
        ("GET", "/v1"),
    ],
)
async def test_nobody_but_the_admin_gets_in(
    client: httpx.AsyncClient, desk: Desk, method: str, path: str, given: str | None
) -> None:
    """Everything below /v1 needs the exact key; even what is not there is not told without it."""
    headers = {} if given is None else {"Authorization": given}
    answer = await client.request(method, path, headers=headers, content=b"not even JSON")
    body = problem(answer, Code.UNAUTHENTICATED)
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "FENCEGATE_ADMIN_KEY" in body["detail"]
    assert KEY not in answer.text
    assert (desk.sealed, desk.was_reset) == ([], [])


async def test_a_reset_needs_a_scope_and_a_reason(client: httpx.AsyncClient, desk: Desk) -> None:
    """Break-glass is explained: no reason, no reset; nor of a scope that no request can have."""
    for reason in (None, "", "  ", "one\nline", "x" * 501):
        body = {"scope": "s/1"} if reason is None else {"scope": "s/1", "reason": reason}
        answer = await client.post("/v1/reset", headers=ADMIN, json=body)
        assert "reason" in problem(answer, Code.REQUEST_MALFORMED)["detail"]
    misspelt = {"scope": "nobody/1", "reason": "drill"}
    problem(await client.post("/v1/reset", headers=ADMIN, json=misspelt), Code.NOT_FOUND)
    assert desk.was_reset == []
    wanted = {"scope": "s/1", "reason": "the issuer lost its counter"}
    answer = await client.post("/v1/reset", headers=ADMIN, json=wanted)
    assert (answer.status_code, answer.json()["era"]) == (200, 2)
    assert desk.was_reset == [("s/1", "the issuer lost its counter")]


async def test_the_scheme_is_case_insensitive(client: httpx.AsyncClient) -> None:
    """RFC 9110 section 11.1: the scheme's name is, the key is not."""
    answer = await client.get("/v1/scopes", headers={"Authorization": f"bearer {KEY}"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "body, asked",
    [
        ({"scope": "reports/eu"}, ("reports/eu", None, None)),
        ({"scope": "db:jobs/1", "token": 7}, ("db:jobs/1", 7, None)),
        ({"scope": "a", "token": MAX_TOKEN, "holder": "h"}, ("a", MAX_TOKEN, "h")),
    ],
)
async def test_a_seal_raises_the_mark(
    client: httpx.AsyncClient, desk: Desk, body: dict[str, Any], asked: tuple[str, Any, Any]
) -> None:
    """The engine gets scope, token and holder as sent; the new mark is told to the admin."""
    answer = await client.post("/v1/seal", headers=ADMIN, json=body)
    assert answer.status_code == 200
    assert desk.sealed == [asked]
    assert answer.json() == {
        "scope": asked[0],
        "era": 2,
        "token": 8,
        "burnt": True,
        "holder": "h2",
        "registrations": None,
    }


@pytest.mark.parametrize(
    "body, told",
    [
        (b"{", "JSON"),
        (b"[]", "body"),
        (b"{}", "body.scope"),
        (b'{"scope": ""}', "body.scope"),
        (b'{"scope": "%s"}' % (b"x" * 513), "body.scope"),
        (b'{"scope": "a", "token": 0}', "body.token"),
        (b'{"scope": "a", "token": 9223372036854775808}', "body.token"),
        (b'{"scope": "a", "token": "7"}', "body.token"),
        (b'{"scope": "a", "token": 7.0}', "body.token"),
        (b'{"scope": "a", "token": true}', "body.token"),
        (b'{"scope": "a", "holder": "b c"}', "body.holder"),
        (b'{"scope": "a", "tokn": 7}', "body.tokn"),
        (b'{"scope": "a", "scope": "b"}', "body.scope: comes twice"),
        (b'{"scope": "a", "token": 7, "token": 7}', "body.token: comes twice"),
        (b'{"scope": "files:\\ud800"}', "body.scope: must be Unicode"),
        (b'{"scope": "files:\\u0000"}', "body.scope: must be Unicode"),
        (b'{"scope": "a", "holder": "\\udfff"}', "body.holder: must be Unicode"),
        (b'{"scope": "a", "\\ud800": 1}', "body.\\ud800: must be Unicode"),
        (b'{"scope": "\xff"}', "body"),
        (b'{"scope": %s}' % (b"[" * 9_000), "body"),
    ],
)
async def test_a_malformed_seal_is_told_and_does_nothing(
    client: httpx.AsyncClient, desk: Desk, body: bytes, told: str
) -> None:
    """A member that is wrong or unknown is named; a mistyped token never issues the next one."""
    headers = ADMIN | {"Content-Type": "application/json"}
    answer = await client.post("/v1/seal", headers=headers, content=body)
    assert told in problem(answer, Code.REQUEST_MALFORMED)["detail"]
    assert desk.sealed == []


@pytest.mark.parametrize(
    "query, told",
    [
        ("nmae=s/2", "query.nmae: is not known here; known: after, limit, name"),
        ("name=s/2&name=s/3", "query.name: comes twice"),
        ("name=s/%ED%A0%80", "query: must be Unicode"),
        ("name=s/%ff", "query: must be Unicode"),
        ("name=s/%00", "query.name: must be Unicode"),
        ("%5Cud800=1", "is not known here"),
    ],
)
async def test_a_malformed_query_is_told(client: httpx.AsyncClient, query: str, told: str) -> None:
    """A mistyped filter would answer with all scopes; a repaired one with another's."""
    answer = await client.get(f"/v1/scopes?{query}", headers=ADMIN)
    assert told in problem(answer, Code.REQUEST_MALFORMED)["detail"]
    other = await client.post("/v1/seal?token=7", headers=ADMIN, json={"scope": "a"})
    assert "query.token: is not known" in problem(other, Code.REQUEST_MALFORMED)["detail"]


@asynccontextmanager
async def recorded(desk: Desk, trail: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a control API that keeps an audit trail."""
    app = control_app(
        desk,
        Parts(),
        admins=Admins((WorkerKey("admin", KEY),), lambda: 0.0, AuditLog(trail)),
        exposition=bytes,
        digest=str,
        version="1",
    )
    transport = httpx.ASGITransport(app)
    headers = ADMIN | {"Content-Type": "application/json"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://gateway", headers=headers
    ) as found:
        yield found


async def test_a_malformed_act_is_on_record(desk: Desk, tmp_path: Path) -> None:
    """The audit trail and the look before an act take text that no file or registry can keep."""
    trail = tmp_path / "audit"
    async with recorded(desk, trail) as client:
        for path in ("/v1/seal", "/v1/reset"):
            text = b'{"scope": "files:\\ud800", "reason": "\\udfff"}'
            answer = await client.post(path, content=text)
            assert "must be Unicode" in problem(answer, Code.REQUEST_MALFORMED)["detail"]
    assert (desk.sealed, desk.was_reset) == ([], [])
    assert trail.read_text("utf-8").count('"refused"') == 2


async def test_a_state_that_nobody_told_is_not_none(desk: Desk, tmp_path: Path) -> None:
    """The record tells a scope that was never seen from one that the registry was silent about."""
    trail = tmp_path / "audit"
    async with recorded(desk, trail) as client:
        await client.post("/v1/reset", json={"scope": "never-seen", "reason": "drill"})
        desk.down = True
        await client.post("/v1/reset", json={"scope": ROWS[0].scope, "reason": "drill"})
    seen, _, silent, unknown = map(json.loads, trail.read_text("utf-8").splitlines())
    assert seen["before"] is None
    assert silent["before"] == {"unread": "no answer within 1.5 s"}
    assert (unknown["outcome"], unknown["status"]) == ("unknown", 503)


async def test_a_misspelt_scope_is_not_sealed(client: httpx.AsyncClient, desk: Desk) -> None:
    """A seal that protects nothing would be taken for one that does."""
    answer = await client.post("/v1/seal", headers=ADMIN, json={"scope": "nobody/x"})
    assert "no request can have the scope" in problem(answer, Code.NOT_FOUND)["detail"]
    assert desk.sealed == []


async def test_a_refused_seal_is_told(client: httpx.AsyncClient, desk: Desk) -> None:
    """The engine's refusals keep their code, the mark of a stale one and their Retry-After."""
    desk.answer = Problem(Code.TOKEN_STALE, "below the mark", mark=9)
    stale = await client.post("/v1/seal", headers=ADMIN, json={"scope": "a", "token": 3})
    assert problem(stale, Code.TOKEN_STALE)["mark"] == 9
    assert stale.headers["x-fence-mark"] == "9"
    desk.answer = Problem(Code.NOT_DRAINED, "older writes are under way", retry_after_s=4)
    busy = await client.post("/v1/seal", headers=ADMIN, json={"scope": "a", "token": 3})
    problem(busy, Code.NOT_DRAINED)
    assert busy.headers["retry-after"] == "4"


async def test_a_scope_is_found_by_its_name(client: httpx.AsyncClient) -> None:
    """Slashes need no escaping tricks: the name is a query parameter."""
    answer = await client.get("/v1/scopes", headers=ADMIN, params={"name": "s/2"})
    view = {
        "scope": "s/2",
        "era": 1,
        "token": 2,
        "burnt": False,
        "holder": "h1",
        "registrations": 1,
    }
    assert answer.json() == view
    missing = await client.get("/v1/scopes", headers=ADMIN, params={"name": "s/9"})
    assert "no token was ever seen" in problem(missing, Code.NOT_FOUND)["detail"]


@pytest.mark.parametrize("limit", [1, 2, 4, 5, 1000])
async def test_pages_lead_through_all_scopes_once(client: httpx.AsyncClient, limit: int) -> None:
    """Following `next` gives every scope once, in order, and ends."""
    seen: list[str] = []
    params: dict[str, str] = {"limit": str(limit)}
    for _ in range(len(ROWS) + 1):
        page = (await client.get("/v1/scopes", headers=ADMIN, params=params)).json()
        seen += [row["scope"] for row in page["scopes"]]
        if page["next"] is None:
            break
        params["after"] = page["next"]
    assert page["next"] is None
    assert seen == [row.scope for row in ROWS]


@pytest.mark.parametrize("limit", ["0", "1001", "x", "-1"])
async def test_a_page_has_bounds(client: httpx.AsyncClient, limit: str) -> None:
    """The limit is a number from 1 to 1000, and named when it is not."""
    answer = await client.get("/v1/scopes", headers=ADMIN, params={"limit": limit})
    assert "query.limit" in problem(answer, Code.REQUEST_MALFORMED)["detail"]


@pytest.mark.parametrize(
    "method, path", [("POST", "/v1/seal"), ("GET", "/v1/scopes"), ("GET", "/v1/scopes?name=s/1")]
)
async def test_a_registry_that_is_away_is_a_503(
    client: httpx.AsyncClient, desk: Desk, method: str, path: str
) -> None:
    """Nothing is answered as sealed or empty when the registry did not answer."""
    desk.down = True
    answer = await client.request(method, path, headers=ADMIN, json={"scope": "a"})
    problem(answer, Code.REGISTRY_UNAVAILABLE)
    assert int(answer.headers["retry-after"]) >= 1


async def test_health_is_open_and_readiness_tells_what_is_wrong(
    client: httpx.AsyncClient, parts: Parts
) -> None:
    """Whoever checks needs no key; unready is 503 with the part and the reason."""
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    ready = await client.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert ready.json()["policy"] == "d1g357"
    parts.parts["store files"] = "the directory is read-only"
    unready = await client.get("/readyz")
    assert unready.status_code == 503
    assert unready.json()["wrong"] == {"store files": "the directory is read-only"}


async def test_metrics_are_served_as_they_are(client: httpx.AsyncClient) -> None:
    """The exposition goes out unchanged, as the text format."""
    answer = await client.get("/metrics")
    assert answer.content == b"fencegate_x 1\n"
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_what_is_not_there_is_told(client: httpx.AsyncClient) -> None:
    """Wrong paths and methods are problems too, with the methods that there are."""
    assert (
        "openapi" in problem(await client.get("/v1/seals", headers=ADMIN), Code.NOT_FOUND)["detail"]
    )
    wrong = await client.get("/v1/seal", headers=ADMIN)
    problem(wrong, Code.METHOD_NOT_ALLOWED)
    assert wrong.headers["allow"] == "POST"


async def test_the_request_id_of_the_edge_is_told(client: httpx.AsyncClient) -> None:
    """An error names the id under which the log has the request."""
    answer = await client.get("/v1/scopes", headers={"X-Request-Id": "r-17"})
    assert problem(answer, Code.UNAUTHENTICATED)["request_id"] == "r-17"


async def test_the_description_is_served_and_complete(client: httpx.AsyncClient) -> None:
    """The document names the key where one is needed, the error shape, and no foreign host."""
    document = (await client.get("/v1/openapi.json")).json()
    assert document == describe("1.2.3")
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert ("security" in operation) == path.startswith("/v1")
            assert "422" not in operation["responses"]
            assert "default" in operation["responses"]
    assert "http://" not in str(document)
    assert "https://" not in str(document)


async def test_no_page_loads_scripts_from_elsewhere(client: httpx.AsyncClient) -> None:
    """There is no interactive documentation that a content network would serve."""
    for path in ("/docs", "/redoc", "/openapi.json"):
        problem(await client.get(path), Code.NOT_FOUND)


async def test_replicas_are_listed_for_the_admin(client: httpx.AsyncClient) -> None:
    """Each membership in the order of names, and which one answers."""
    assert (await client.get("/v1/replicas")).status_code == STATUS[Code.UNAUTHENTICATED]
    answer = await client.get("/v1/replicas", headers=ADMIN)
    rows = answer.json()["replicas"]
    assert [(row["replica"], row["beats"], row["answering"]) for row in rows] == [
        ("a", 1, False),
        ("b", 0, True),
    ]


async def test_replicas_of_a_registry_that_is_down(client: httpx.AsyncClient, desk: Desk) -> None:
    """503, as every question to it."""
    desk.down = True
    answer = await client.get("/v1/replicas", headers=ADMIN)
    assert answer.json()["code"] == Code.REGISTRY_UNAVAILABLE
