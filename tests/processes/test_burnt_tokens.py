"""A token in two hands, end to end: what the stores themselves hold once it was told."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import httpx

from tests.services.gateway_process import GatewayProcess

Start = Callable[..., GatewayProcess]
POLICY = """
[server]
listen = "127.0.0.1:8080"
[registry]
type = "{registry}"
[stores.files]
type = "files"
root = "files"
[stores.db]
type = "sqlite"
path = "db.sqlite"
init = "CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, name TEXT)"
[stores.db.tables.jobs]
[[rules]]
store = "files"
match = "/files/{{rest*}}"
scope = "lease"
[[rules]]
store = "db"
match = "/db/jobs"
scope = "lease"
"""


def write(gateway: GatewayProcess, path: str, token: int, holder: str) -> httpx.Response:
    headers = {"X-Fence-Token": str(token), "X-Fence-Holder": holder}
    if path == "/db/jobs":
        row = {"id": token, "name": holder}
        return httpx.post(f"{gateway.url}{path}", json=row, headers=headers, timeout=10)
    return httpx.put(f"{gateway.url}{path}", content=holder, headers=headers, timeout=10)


def fence_row(gateway: GatewayProcess) -> tuple[int, int]:
    with sqlite3.connect(gateway.data_dir / "db.sqlite") as database:
        row = database.execute(
            "SELECT token, burnt FROM fencegate_fence WHERE scope = 'lease'"
        ).fetchone()
    return int(row[0]), int(row[1])


def lock_files(gateway: GatewayProcess) -> list[str]:
    files = (p for p in gateway.data_dir.rglob("*") if p.is_file())
    return [text for p in files if (text := p.read_text("utf-8", "replace")).endswith("\nlease\n")]


def test_burning_reaches_fence_row_and_lock_file(gateway_process: Start) -> None:
    """When 409 is read, both stores of the scope refuse the token by themselves; 6 opens again."""
    gateway = gateway_process(POLICY.format(registry="sqlite"))
    assert write(gateway, "/db/jobs", 5, "a").status_code == 201
    assert fence_row(gateway) == (5, 0)
    assert write(gateway, "/files/x", 5, "b").status_code == 409
    assert fence_row(gateway) == (5, 1)
    (lock_file,) = lock_files(gateway)
    assert " 1 5 1 - " in lock_file
    for path in ("/db/jobs", "/files/x"):
        assert write(gateway, path, 5, "a").json()["code"] == "fence_token_duplicate"
    assert write(gateway, "/db/jobs", 6, "b").status_code == 201
    assert fence_row(gateway) == (6, 0)


def test_the_stores_remember_the_holder_that_the_registry_forgot(gateway_process: Start) -> None:
    """A registry in memory is gone with its process: the second holder is found out by the row."""
    gateway = gateway_process(POLICY.format(registry="memory"))
    assert write(gateway, "/db/jobs", 5, "a").status_code == 201
    gateway.kill()
    gateway.start()
    refused = write(gateway, "/files/x", 5, "b")
    assert (refused.status_code, refused.json()["code"]) == (409, "fence_token_duplicate")
    assert write(gateway, "/files/x", 5, "a").status_code == 409
    assert write(gateway, "/files/x", 6, "b").status_code == 201
