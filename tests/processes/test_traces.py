"""Traces of a real gateway: from a client through the gateway to origins, and to a collector."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.services.gateway_process import GatewayProcess
from tests.services.object_stores import ObjectStore
from tests.services.server_process import wait_until

Start = Callable[..., GatewayProcess]

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "tracestate": "a=1"}
HEAD = """
[server]
listen = "127.0.0.1:8080"
{auth}
[registry]
type = "memory"
[telemetry]
traces = "otlp"
endpoint = "{collector}/v1/traces"
"""
HTTP = (
    HEAD
    + """
[stores.origin]
type = "http"
endpoint = "{collector}"
"""
)
S3 = (
    HEAD
    + """
[[auth.keys]]
id = "worker"
secret = "worker-secret"
[stores.lake]
type = "s3"
listen = "127.0.0.1:9000"
endpoint = "{s3.endpoint}"
region = "us-east-1"
access_key_id = "{s3.access_key_id}"
secret_access_key = "{s3.secret_access_key}"
probe_bucket = "{bucket}"
conditions = "none"
"""
)


class Collector:
    """Takes spans at /v1/traces, and is an HTTP origin for all other paths."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.asked: list[dict[str, list[str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if self.path == "/v1/traces":
                    outer.take(ExportTraceServiceRequest.FromString(body))
                else:
                    names = ("traceparent", "tracestate")
                    outer.asked.append({n: self.headers.get_all(n) or [] for n in names})
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        for method in ("GET", "PUT", "POST", "HEAD"):
            setattr(Handler, f"do_{method}", Handler.answer)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)

    def wait_for(self, name: str, trace: str | None = None) -> Any:
        """The first span of this name (and trace)."""

        def found() -> list[Any]:
            named = [s for s in self.spans if s.name == name]
            return [s for s in named if trace in (None, s.trace_id.hex())]

        wait_until(lambda: bool(found()), 20, f"span {name}")
        return found()[0]


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_one_trace_from_client_to_origin(gateway_process: Start, collector: Collector) -> None:
    """The origin is told our span as its parent, once; the collector gets the whole chain."""
    gateway = gateway_process(HTTP.format(collector=collector.url, auth='auth = "none"'))
    collector.asked.clear()
    headers = {**PARENT, "X-Fence-Token": "1"}
    url = gateway.store_url("origin") + "/a"
    assert httpx.put(url, headers=headers, content=b"x", timeout=10).is_success
    top = collector.wait_for("PUT origin", TRACE)
    sent = collector.wait_for("upstream", TRACE)
    claim = collector.wait_for("claim", TRACE)
    assert top.parent_span_id.hex() == "b7ad6b7169203331"
    assert sent.parent_span_id == top.span_id
    assert collector.wait_for("admit", TRACE).span_id == claim.parent_span_id
    told = {"traceparent": [f"00-{TRACE}-{sent.span_id.hex()}-01"], "tracestate": ["a=1"]}
    assert told in collector.asked
    assert all(len(asked["traceparent"]) == 1 for asked in collector.asked)
    line = gateway.wait_for_log(lambda record: record.get("method") == "PUT")
    assert line["trace_id"] == TRACE


def test_signatures_stay_right(
    gateway_process: Start, collector: Collector, rclone_s3: ObjectStore, rclone_bucket: str
) -> None:
    """A server that verifies SigV4 takes what we send it with a trace; and we, a traced client."""
    document = S3.format(collector=collector.url, auth="", s3=rclone_s3, bucket=rclone_bucket)
    gateway = gateway_process(document)
    made = boto3.client(
        "s3",
        endpoint_url=gateway.store_url("lake"),
        region_name="us-east-1",
        aws_access_key_id="worker",
        aws_secret_access_key="worker-secret",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}),
    )

    def traced(request: Any, **_: Any) -> None:
        for name, value in {**PARENT, "X-Fence-Token": "1"}.items():
            request.headers.add_header(name, value)

    made.meta.events.register("before-sign.s3", traced)
    made.put_object(Bucket=rclone_bucket, Key="k", Body=b"x")
    assert made.get_object(Bucket=rclone_bucket, Key="k")["Body"].read() == b"x"
    assert collector.wait_for("upstream", TRACE).parent_span_id
    made.close()


def test_a_collector_that_is_away_holds_nobody_up(
    gateway_process: Start, collector: Collector
) -> None:
    """Requests are answered, and the gateway ends in good time."""
    gone = Collector()
    gone.server.shutdown()
    gone.server.server_close()
    policy = HTTP.format(collector=collector.url, auth='auth = "none"')
    gateway = gateway_process(policy.replace(f"{collector.url}/v1/traces", f"{gone.url}/v1/traces"))
    for number in range(20):
        url = f"{gateway.store_url('origin')}/{number}"
        assert httpx.put(url, headers={"X-Fence-Token": "1"}, content=b"x").is_success
    assert gateway.stop(10) == 0
