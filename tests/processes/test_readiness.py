"""/readyz of a real gateway: each store that is lost is named, and it comes back by itself."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.services.gateway_process import GatewayProcess
from tests.services.server_process import wait_until

Start = Callable[..., GatewayProcess]

POLICY = """
[server]
listen = "127.0.0.1:8080"
auth = "none"
[registry]
type = "sqlite"
[stores.files]
type = "files"
mount = "/files"
root = "files"
[stores.objects]
type = "files"
dialect = "s3"
listen = "127.0.0.1:9000"
root = "objects"
buckets = ["demo"]
[stores.db]
type = "sqlite"
mount = "/db"
path = "db.sqlite"
init = "CREATE TABLE IF NOT EXISTS jobs (id integer PRIMARY KEY)"
[stores.db.tables.jobs]
"""


def ready(gateway: GatewayProcess) -> tuple[int, dict[str, Any]]:
    answer = httpx.get(f"{gateway.url}/readyz", timeout=5)
    return answer.status_code, answer.json()["wrong"]


def check_lost_and_found(gateway: GatewayProcess, place: Path, part: str) -> None:
    """Take a store's place away, then give it back."""
    away = place.with_name("away")
    place.rename(away)
    wait_until(lambda: ready(gateway)[0] == 503, 10, f"{part} to be missed")
    assert set(ready(gateway)[1]) == {part}
    away.rename(place)
    wait_until(lambda: ready(gateway) == (200, {}), 10, f"{part} to be back")


def test_a_lost_store_is_named(gateway_process: Start) -> None:
    """A directory or database that is gone: 503 with the name of the store alone; back: 200."""
    gateway = gateway_process(POLICY)
    assert ready(gateway) == (200, {})
    check_lost_and_found(gateway, gateway.data_dir / "files", "store files")
    check_lost_and_found(gateway, gateway.data_dir / "objects", "store objects")
    check_lost_and_found(gateway, gateway.data_dir / "db.sqlite", "store db")


def test_a_full_disk_is_told(gateway_process: Start) -> None:
    """No write gets through: 503, with the registry and each store on that disk; then it is freed.

    A limit on the size of files stands for the disk: every write(2) to a file fails.
    """
    gateway = gateway_process(POLICY)
    assert ready(gateway) == (200, {})
    unlimited = resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (0, unlimited[1]))
    parts = {"registry", "store files", "store objects", "store db"}
    wait_until(lambda: parts <= set(ready(gateway)[1]), 10, "the full disk to be told")
    assert ready(gateway)[0] == 503
    resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, unlimited)
    wait_until(lambda: ready(gateway) == (200, {}), 20, "the disk to be free again")
