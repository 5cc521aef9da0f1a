"""Tokens of a live issuer: a real gateway, a real key set over HTTP, a key that is replaced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from gateway.cli import commands
from tests.services.gateway_process import GatewayProcess
from tests.services.server_process import wait_until
from tests.services.token_issuer import TokenIssuer, new_key

Start = Callable[..., GatewayProcess]


class KeyServer:
    """Serves a JWK Set, or what else `status` says."""

    def __init__(self) -> None:
        self.body, self.status, self.asked = b"", 200, 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(outer.body)))
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/jwks.json"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()


@pytest.fixture
def keys() -> Iterator[KeyServer]:
    server = KeyServer()
    yield server
    server.server.shutdown()
    server.server.server_close()


def policy(source: str, more: str = "") -> str:
    return f"""
[server]
listen = "127.0.0.1:8080"
auth = "keys"
[[auth.issuers]]
issuer = "https://id.tests"
audience = "fencegate"
{source}
scopes_claim = "scopes"
{more}
[stores.files]
type = "files"
root = "files"
[stores.db]
type = "sqlite"
path = "db.sqlite"
init = "CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, state TEXT)"
tables.jobs = {{}}
"""


def put(gateway: GatewayProcess, token: str, path: str = "/files/a") -> httpx.Response:
    headers = {"X-Fence-Token": "3", "Authorization": f"Bearer {token}"}
    return httpx.put(gateway.url + path, content=b"x", headers=headers, timeout=10)


def test_a_worker_with_a_token(gateway_process: Start, keys: KeyServer) -> None:
    """Both bearer dialects; the log names the subject; a token of another issuer is 401."""
    issuer = TokenIssuer()
    keys.body = issuer.key_set()
    gateway = gateway_process(policy(f'jwks_url = "{keys.url}"'))
    good = issuer.token(scopes=["files:{x*}", "db:jobs/1"])
    assert put(gateway, good).status_code == 201
    assert put(gateway, issuer.token(scopes=["files:b"])).status_code == 403
    assert put(gateway, issuer.token()).status_code == 401
    assert put(gateway, TokenIssuer().token(scopes=["files:{x*}"])).status_code == 401
    assert put(gateway, "not-a-token").status_code == 401
    rows = httpx.get(
        f"{gateway.url}/db/jobs?id=eq.1", headers={"Authorization": f"Bearer {good}"}, timeout=10
    )
    assert (rows.status_code, rows.json()) == (200, [])
    record = gateway.wait_for_log(lambda r: r.get("worker") == "jwt:w" and r["status"] == 201)
    assert record["scope"] == "files:a"
    output = "\n".join(gateway.lines())
    assert not [part for part in good.split(".") if part in output]


def test_a_new_key_is_fetched_when_a_token_names_it(
    gateway_process: Start, keys: KeyServer
) -> None:
    """Rotation needs no restart: 401 until the keys are read again, then in; the old key is out."""
    issuer = TokenIssuer()
    keys.body = issuer.key_set()
    gateway = gateway_process(policy(f'jwks_url = "{keys.url}"'))
    old = issuer.token(scopes=["files:a"])
    assert put(gateway, old).status_code == 201
    issuer.keys["ES256"] = new_key("ES256")
    keys.body = issuer.key_set()
    new = issuer.token(scopes=["files:a"])
    assert put(gateway, new).status_code == 401
    gateway.hang_up()
    wait_until(lambda: put(gateway, new).status_code == 204, 15, "the new key")
    assert put(gateway, old).status_code == 401


def test_an_issuer_that_is_down(gateway_process: Start, keys: KeyServer) -> None:
    """The gateway starts; tokens are 503 until the keys could be read. Redirects lead nowhere."""
    issuer = TokenIssuer()
    keys.status, keys.body = 302, issuer.key_set()
    gateway = gateway_process(policy(f'jwks_url = "{keys.url}"'))
    waiting = put(gateway, issuer.token(scopes=["files:a"]))
    assert (waiting.status_code, waiting.headers["retry-after"]) == (503, "2")
    failed = gateway.wait_for_log(lambda r: r["event"] == "issuer_keys_failed")
    assert "answered 302; redirects are not followed" in failed["error"]
    keys.status = 200
    token = issuer.token(scopes=["files:a"])
    wait_until(lambda: put(gateway, token).status_code == 201, 15, "the keys")


@pytest.mark.parametrize(
    "source, told",
    [
        ('jwks_url = "http://id.tests/jwks"', "expected https://"),
        ('jwks_ur = "https://id.tests/jwks"', "did you mean jwks_url?"),
        ("", "is required, or jwks_file"),
        ('jwks_file = "x"\nalgorithms = ["HS256"]', '"HS256"'),
        ('jwks_file = "x"\nstores = ["fils"]', "did you mean files?"),
    ],
)
def test_mistakes(tmp_path: Path, source: str, told: str) -> None:
    """Told by `check` with file, line and key."""
    (tmp_path / "p.toml").write_text(policy(source))
    result = CliRunner().invoke(commands.app, ["check", str(tmp_path / "p.toml")])
    assert result.exit_code == commands.WRONG_INPUT
    assert told in result.stderr
    assert "p.toml:" in result.stderr
