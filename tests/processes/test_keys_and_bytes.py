"""A key is one request: with other bytes it is told so, over every dialect that streams a body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx

from tests.services.gateway_process import GatewayProcess
from tests.services.http_origin import HttpOrigin, serving

Start = Callable[..., GatewayProcess]
POLICY = """
[server]
listen = "127.0.0.1:8080"
[registry]
type = "memory"
[stores.files]
type = "files"
root = "files"
[stores.origin]
type = "http"
endpoint = "{url}"
settle_ms = 1000
"""


async def test_other_bytes_of_one_length_are_no_retry(gateway_process: Start) -> None:
    """No digest is sent: the second body is refused with 422 and changes nothing, the first one
    comes again as a replay; also for the POST of an HTTP origin, which is carried out once.
    """
    async with serving(HttpOrigin()) as origin:
        gateway = await asyncio.to_thread(gateway_process, POLICY.format(url=origin.url))
        async with httpx.AsyncClient(base_url=gateway.url) as worker:
            headers = {"X-Fence-Token": "1", "Idempotency-Key": "job-1"}
            for method, path in (("PUT", "/files/a"), ("PUT", "/origin/a"), ("POST", "/origin/b")):
                sent = [
                    await worker.request(method, path, content=body, headers=headers)
                    for body in (b"one", b"two", b"one")
                ]
                outcomes = [answer.headers["X-Fence-Outcome"] for answer in sent]
                assert outcomes == ["applied", "refused", "applied"], (method, path)
                assert sent[1].status_code == 422
                assert sent[1].json()["code"] == "idempotency_key_reused"
                assert sent[2].headers["X-Fence-Replay"] == "1"
            assert (await worker.get("/files/a")).content == b"one"
        assert [e.path for e in origin.effects] == ["/a", "/b"]
        samples = await asyncio.to_thread(gateway.metrics)
        replayed = [v for k, v in samples.items() if "retries_total" in k and '"replayed"' in k]
        assert sum(replayed) == 3
