"""The audit log of a real gateway: who did what, before and after; and nothing off the record."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gateway.model.worker import secret_digest
from tests.services.gateway_process import ADMIN_KEY, GatewayProcess

Start = Callable[..., GatewayProcess]
ALICE = "secret-of-alice-0123456789"
OLD = "secret-of-an-old-admin-0123"
POLICY = f"""
[server]
listen = "127.0.0.1:8080"
[[admin.keys]]
id = "alice"
secret_hash = "sha256:{secret_digest(ALICE).hex()}"
[[admin.keys]]
id = "old"
secret_hash = "sha256:{secret_digest(OLD).hex()}"
expires = 2020-01-01T00:00:00Z
[stores.files]
type = "files"
root = "files"
"""


@pytest.fixture
def gateway(gateway_process: Start) -> GatewayProcess:
    return gateway_process(POLICY)


def seal(gateway: GatewayProcess, key: str, **body: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.post(f"{gateway.url}/v1/seal", json=body, headers=headers, timeout=10)


def records(gateway: GatewayProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (gateway.data_dir / "audit.jsonl").read_text().split("\n")
            if line]  # fmt: skip


def test_an_act_is_on_record_with_its_author(gateway: GatewayProcess) -> None:
    """Intent and end of each, refused ones too; reads and strangers leave no line."""
    assert seal(gateway, ALICE, scope="files:a", token=7).status_code == 200
    assert seal(gateway, ADMIN_KEY, scope="files:a", token=5).status_code == 412
    assert seal(gateway, OLD, scope="files:a").status_code == 401
    assert seal(gateway, "nobody-at-all", scope="files:a").status_code == 401
    headers = {"Authorization": f"Bearer {ALICE}"}
    assert httpx.get(f"{gateway.url}/v1/scopes", headers=headers, timeout=10).status_code == 200
    begun, done, begun2, refused = records(gateway)
    assert begun | {"at": "", "id": ""} == {
        "at": "",
        "id": "",
        "who": "alice",
        "client": "127.0.0.1",
        "act": "POST /v1/seal",
        "scope": "files:a",
        "token": 7,
        "before": None,
        "outcome": "begun",
    }
    assert (done["id"], done["outcome"], done["status"]) == (begun["id"], "done", 200)
    assert (done["after"]["token"], done["after"]["era"]) == (7, 1)
    assert (begun2["who"], begun2["before"]["token"]) == ("admin", 7)
    assert (refused["outcome"], refused["status"]) == ("refused", 412)
    assert refused["code"].startswith("fence_token_")
    text = (gateway.data_dir / "audit.jsonl").read_text()
    assert not [secret for secret in (ALICE, OLD, ADMIN_KEY) if secret in text]


def test_a_reset_is_on_record_with_both_eras(gateway: GatewayProcess) -> None:
    """Who, why, and the mark that went down: the one act that takes something back."""
    assert seal(gateway, ALICE, scope="files:a", token=7).status_code == 200
    headers = {"Authorization": f"Bearer {ALICE}"}
    body = {"scope": "files:a", "reason": "the issuer lost its counter"}
    done = httpx.post(f"{gateway.url}/v1/reset", json=body, headers=headers, timeout=10)
    assert done.status_code == 200
    begun, ended = records(gateway)[2:]
    for record in (begun, ended):
        assert (record["who"], record["act"]) == ("alice", "POST /v1/reset")
        assert (record["scope"], record["reason"]) == (body["scope"], body["reason"])
        assert (record["before"]["era"], record["before"]["token"]) == (1, 7)
    assert (begun["outcome"], "after" in begun) == ("begun", False)
    assert (ended["outcome"], ended["status"]) == ("done", 200)
    assert (ended["after"]["era"], ended["after"]["token"]) == (2, 0)
    never = httpx.post(
        f"{gateway.url}/v1/reset", json=body | {"scope": "files:b"}, headers=headers, timeout=10
    )
    begun, refused = records(gateway)[4:]
    assert (begun["before"], refused["before"]) == (None, None), "never seen"
    assert (refused["outcome"], refused["status"]) == ("refused", never.status_code)


def test_what_cannot_be_recorded_is_not_done(gateway: GatewayProcess) -> None:
    """503 and the mark stays; with the file back, the same request is done."""
    assert seal(gateway, ALICE, scope="files:a", token=7).status_code == 200
    audit = gateway.data_dir / "audit.jsonl"
    audit.rename(audit.with_name("kept"))
    audit.mkdir()
    refused = seal(gateway, ALICE, scope="files:a", token=9)
    assert (refused.status_code, refused.json()["code"]) == (503, "audit_failed")
    assert "nothing was done" in refused.json()["detail"]
    row = httpx.get(
        f"{gateway.url}/v1/scopes?name=files:a", headers=gateway.admin_headers, timeout=10
    )
    assert row.json()["token"] == 7
    audit.rmdir()
    assert seal(gateway, ALICE, scope="files:a", token=9).status_code == 200
    assert [r["outcome"] for r in records(gateway)] == ["begun", "done"]


def test_a_worker_s_key_opens_nothing_here(gateway: GatewayProcess) -> None:
    """Nor does the digest of an admin's."""
    assert seal(gateway, secret_digest(ALICE).hex(), scope="files:a").status_code == 401
