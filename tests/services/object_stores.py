"""Two real S3 servers from wheels: one that honours conditional writes, one that ignores them.

ministack honours If-None-Match and If-Match and checks no signature; rclone checks signatures and
ignores every condition in silence. A start-up probe must tell the two apart.
"""

from __future__ import annotations

import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import httpx
import pytest
from botocore.config import Config

from tests.services.server_process import LOOPBACK, ServerProcess, free_port

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BINARIES = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """Where an S3 server listens and with which key it is spoken to."""

    endpoint: str
    access_key_id: str
    secret_access_key: str
    region: str = "us-east-1"

    def client(self, **config: Any) -> S3Client:
        """A boto3 client of this server: path style, one attempt, short time-outs."""
        settings = {
            "s3": {"addressing_style": "path"},
            "retries": {"total_max_attempts": 1},
            "connect_timeout": 5,
            "read_timeout": 20,
        } | config
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            config=Config(**settings),
        )


def fresh_bucket(store: ObjectStore) -> str:
    """Makes an empty bucket and returns its name."""
    name = f"b-{uuid.uuid4().hex[:12]}"
    client = store.client()
    try:
        client.create_bucket(Bucket=name)
    finally:
        client.close()
    return name


def _answers(url: str) -> bool:
    try:
        httpx.get(url, timeout=2)
    except httpx.TransportError:
        return False
    return True


@pytest.fixture(scope="session")
def ministack() -> Iterator[ObjectStore]:
    """The conditional store: conditions honoured, any key accepted."""
    port = free_port()
    url = f"http://{LOOPBACK}:{port}"
    with tempfile.TemporaryDirectory(prefix="ministack-") as home:
        server = ServerProcess(
            "ministack",
            [BINARIES / "ministack"],
            directory=Path(home),
            env={
                "BIND_HOST": LOOPBACK,  # its default is every interface
                "GATEWAY_PORT": str(port),
                "SERVICES": "s3",
                "S3_PERSIST": "0",
                "S3_DATA_DIR": f"{home}/s3",
                "TMPDIR": home,
            },
            ready=lambda: _answers(f"{url}/_ministack/health"),
        )
        server.start()
        yield ObjectStore(url, "test", "test-secret")
        server.stop()


@pytest.fixture(scope="session")
def ministack_url(ministack: ObjectStore) -> str:
    """The endpoint of the conditional store."""
    return ministack.endpoint


@pytest.fixture
def ministack_bucket(ministack: ObjectStore) -> str:
    """A fresh bucket of the conditional store."""
    return fresh_bucket(ministack)


@pytest.fixture(scope="session")
def rclone_s3() -> Iterator[ObjectStore]:
    """The unconditional store: signatures verified, conditions ignored, objects in memory."""
    port = free_port()
    store = ObjectStore(f"http://{LOOPBACK}:{port}", "rclone-key", "rclone-secret")
    with tempfile.TemporaryDirectory(prefix="rclone-") as home:
        server = ServerProcess(
            "rclone",
            [
                *(BINARIES / "rclone", "serve", "s3", "--addr", f"{LOOPBACK}:{port}"),
                *("--auth-key", f"{store.access_key_id},{store.secret_access_key}", ":memory:"),
            ],
            directory=Path(home),
            env={"RCLONE_CONFIG": f"{home}/rclone.conf", "HOME": home},
            ready=lambda: _answers(store.endpoint),
        )
        server.start()
        yield store
        server.stop()


@pytest.fixture
def rclone_bucket(rclone_s3: ObjectStore) -> str:
    """A fresh bucket of the unconditional store."""
    return fresh_bucket(rclone_s3)
