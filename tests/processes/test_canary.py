"""No credential leaves the gateway: not in its log, its output, its metrics, or an answer.

Recognisable secrets go through many kinds of requests, those that fail among them; then all that
the process wrote, recorded and answered is searched for them.
"""

from __future__ import annotations

import base64
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from gateway.model.worker import secret_digest
from tests.services.canary import leaks
from tests.services.gateway_process import ADMIN_KEY, GatewayProcess
from tests.services.token_issuer import TokenIssuer

Start = Callable[..., GatewayProcess]

FILES, LAKE, ALICE = "canary-of-files-4711", "canary+of/lake=4712", "canary-of-alice-4713"
WRONG, SESSION = "canary-that-is-wrong-4714", "canary-of-a-session-4715"
SECRETS = (FILES, LAKE, ALICE, WRONG, SESSION, ADMIN_KEY)
POLICY = f"""
[server]
listen = "127.0.0.1:8080"
auth = "keys"
[[admin.keys]]
id = "alice"
secret_hash = "sha256:{secret_digest(ALICE).hex()}"
[[auth.keys]]
id = "files"
secret_hash = "sha256:{secret_digest(FILES).hex()}"
stores = ["files", "db"]
[[auth.keys]]
id = "lake"
secret = "${{LAKE_SECRET}}"
stores = ["objects"]
[[auth.issuers]]
issuer = "https://id.tests"
audience = "fencegate"
jwks_file = "jwks.json"
stores = ["files"]
[stores.files]
type = "files"
root = "files"
[stores.db]
type = "sqlite"
path = "db.sqlite"
init = "CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, state TEXT)"
tables.jobs = {{}}
[stores.objects]
type = "files"
dialect = "s3"
listen = "127.0.0.1:9000"
root = "objects"
buckets = ["demo"]
"""


@pytest.fixture
def issuer() -> TokenIssuer:
    return TokenIssuer()


@pytest.fixture
def gateway(gateway_process: Start, issuer: TokenIssuer, tmp_path: Path) -> GatewayProcess:
    (tmp_path / "jwks.json").write_bytes(issuer.key_set())
    document = POLICY.replace('"jwks.json"', f'"{tmp_path}/jwks.json"')
    return gateway_process(document, env={"LAKE_SECRET": LAKE})


def authorizations(issuer: TokenIssuer) -> Iterator[list[str]]:
    """Right, wrong, expired, forged, misshapen, doubled."""
    basic = base64.b64encode(f"user:{WRONG}".encode()).decode()
    good = issuer.token()
    yield [f"Bearer {FILES}"]
    yield [f"bearer  {FILES}"]
    yield [f"Bearer {WRONG}"]
    yield [f"Bearer {FILES}", f"Bearer {FILES}"]
    yield [f"Bearer {ADMIN_KEY}"]
    yield [f"Basic {basic}"]
    yield [WRONG]
    yield [f"Bearer {good}"]
    yield [f"Bearer {issuer.token(exp=1)}"]
    yield [f"Bearer {issuer.token(iss=WRONG)}"]
    yield [f"Bearer {issuer.token(sub=None, secret=WRONG)}"]
    yield [f"Bearer {good[:-6]}AAAAAA"]
    yield [f"AWS4-HMAC-SHA256 Credential=files/20260101/us-east-1/s3/aws4_request, "
           f"SignedHeaders=host, Signature={'ab' * 32}"]  # fmt: skip
    yield [f"AWS4-HMAC-SHA256 Credential={WRONG}, Signature={WRONG}"]


def over_http(gateway: GatewayProcess, issuer: TokenIssuer) -> Iterator[str]:
    """Every method of both bearer dialects, and the control API, with each Authorization."""
    paths = (
        *("/files/a", "/files/", f"/files/a?token={WRONG}", "/db/jobs?id=eq.1", "/db/nothing"),
        *("/nowhere", "/v1/scopes", "/v1/seal", "/v1/requests/x", f"/v1/scopes?key={WRONG}"),
    )
    with httpx.Client(base_url=gateway.url, timeout=20) as client:
        for given in authorizations(issuer):
            for method in ("GET", "PUT", "POST", "PATCH", "DELETE"):
                for path in paths:
                    fields = [("Authorization", value) for value in given]
                    fields += [("X-Fence-Token", "3"), ("Content-Type", "application/json")]
                    yield answer_of(client.request(method, path, headers=fields, content=b"{"))
        for key in (ADMIN_KEY, ALICE, WRONG):
            headers = {"Authorization": f"Bearer {key}"}
            body = {"scope": "files:a", "holder": "h", "password": WRONG}
            yield answer_of(client.post("/v1/seal", json=body, headers=headers))
            del body["password"]
            yield answer_of(client.post("/v1/seal", json=body, headers=headers))
        raised = {"scope": "files:a", "token": 9}
        yield answer_of(
            client.post("/v1/seal", json=raised, headers={"Authorization": f"Bearer {ALICE}"})
        )
        stale = {"Authorization": f"Bearer {FILES}", "X-Fence-Token": "3"}
        yield answer_of(client.put("/files/a", content=b"x", headers=stale))
        yield answer_of(client.get("/metrics"))
        yield answer_of(client.get("/readyz"))


def answer_of(answer: httpx.Response) -> str:
    return f"{answer.status_code} {answer.headers!r} {answer.text}"


def over_s3(gateway: GatewayProcess) -> Iterator[str]:
    """Signed and presigned, by the right secret, a wrong one, an unknown key, a session."""
    for id_, secret, session in (
        ("lake", LAKE, None),
        ("lake", WRONG, None),
        ("nobody", WRONG, None),
        ("lake", LAKE, SESSION),
    ):
        s3 = boto3.client(
            "s3",
            endpoint_url=gateway.store_url("objects"),
            region_name="us-east-1",
            aws_access_key_id=id_,
            aws_secret_access_key=secret,
            aws_session_token=session,
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )
        s3.meta.events.register(
            "before-sign.s3", lambda request, **_: request.headers.add_header("X-Fence-Token", "3")
        )
        for call, more in (
            ("put_object", {"Key": "a", "Body": b"x" * 100_000}),
            ("get_object", {"Key": "a"}),
            ("list_objects_v2", {}),
            ("delete_object", {"Key": "a"}),
            ("put_object_acl", {"Key": "a", "ACL": "private"}),
        ):
            try:
                answer: Any = getattr(s3, call)(Bucket="demo", **more)
                yield repr(answer["ResponseMetadata"])
            except ClientError as error:
                yield repr(error.response)
        for lifetime_s in (600, 1):
            params = {"Bucket": "demo", "Key": "a"}
            url = s3.generate_presigned_url("get_object", params, ExpiresIn=lifetime_s)
            yield answer_of(httpx.get(url, timeout=20))
            yield answer_of(httpx.get(url.replace("demo", "dem0"), timeout=20))
            yield answer_of(httpx.put(url, content=b"x", timeout=20))


def over_sockets(gateway: GatewayProcess) -> Iterator[str]:
    """What no client library sends: heads too large, broken framing, cut off in the head."""
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    secret = f"Authorization: Bearer {FILES}\r\nX-Fence-Token: 3\r\n".encode()
    for raw in (
        b"PUT /files/a HTTP/1.1\r\nHost: x\r\n" + secret + b"Content-Length: x\r\n\r\n",
        b"PUT /files/a HTTP/1.1\r\nHost: x\r\n" + secret + b"Broken\x00: 1\r\n\r\n",
        b"PUT /files/a HTTP/1.1\r\nHost: x\r\n" + secret + b"X: " + b"y" * 70_000 + b"\r\n\r\n",
        b"PUT /files/a HTTP/1.1\r\nHost: x\r\nHost: y\r\n" + secret + b"\r\n",
        b"PUT /files/a HTTP/1.1\r\nHost: x\r\nConnection: authorization\r\n" + secret + b"\r\n",
        f"GET http://u:{WRONG}@x/files/a HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        f"GET /files/a#{WRONG} HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        b"PUT /files/a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n" + secret + b"\r\nx",
    ):
        with socket.create_connection((host, int(port)), timeout=20) as client:
            client.sendall(raw)
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := client.recv(65_536):
                answer += piece
        yield answer.decode("latin-1")


def test_no_credential_gets_out(gateway: GatewayProcess, issuer: TokenIssuer) -> None:
    """Neither a secret in any usual form, nor anything that has the shape of a credential."""
    answers = [*over_http(gateway, issuer), *over_s3(gateway), *over_sockets(gateway)]
    statuses = {int(found[1]) for text in answers if (found := re.match(r"(\d{3}) ", text))}
    assert {200, 201, 400, 401, 403, 404, 405, 412} <= statuses  # they did not all fail alike
    gateway.hang_up()
    gateway.wait_for_log(lambda r: r["event"] == "reloaded")
    told = [*answers, *gateway.lines(), (gateway.data_dir / "audit.jsonl").read_text()]
    assert gateway.stop() == 0
    told.append("\n".join(gateway.lines()))
    for text in told:
        assert not leaks(text, SECRETS), text
    assert len(gateway.log()) > len(answers) / 2


def test_the_canary_sings(gateway: GatewayProcess) -> None:
    """The control: what is put where the log does look is found there, so the search is real."""
    headers = {"Authorization": f"Bearer {FILES}", "X-Fence-Token": "3"}
    path = f"/files/{WRONG}"
    assert httpx.put(gateway.url + path, headers=headers, timeout=10).status_code == 201
    gateway.wait_for_log(lambda r: r.get("path") == path)
    assert leaks("\n".join(gateway.lines()), SECRETS) == ["…g-4714"]
    for shown in (f"Authorization: Bearer {WRONG}", f"x {quoted(LAKE)}", f"Signature={'0' * 64}"):
        assert leaks(shown, SECRETS)


def quoted(secret: str) -> str:
    return secret.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")


FAILING = {
    "a store that cannot be reached": (
        '[stores.lake]\ntype = "s3"\nlisten = "127.0.0.1:0"\nendpoint = "http://127.0.0.1:1"\n'
        'access_key_id = "${SECRET}"\nsecret_access_key = "${SECRET}"\nstamp_key = "${SECRET}"\n'
    ),
    "a database that cannot be reached": (
        '[stores.db]\ntype = "postgres"\ndsn = "postgresql://u:${SECRET}@127.0.0.1:1/d"\n'
        "tables.jobs = {}\n"
    ),
    "a registry that cannot be reached": (
        '[registry]\ntype = "redis"\nurl = "redis://:${SECRET}@127.0.0.1:1/0"\n'
        '[stores.files]\ntype = "files"\nroot = "files"\n'
    ),
    "a mistake beside a secret": (
        '[[auth.keys]]\nid = "w"\nsecret = "${SECRET} "\nsecrt = "${SECRET}"\n'
        '[stores.files]\ntype = "files"\nroot = "files"\n'
    ),
    "a secret of a wrong form": (
        '[[auth.keys]]\nid = "w"\nsecret = "${SECRET}\u00e9"\nsecret_hash = "${SECRET}"\n'
        '[stores.files]\ntype = "files"\nroot = "files"\n'
    ),
}


@pytest.mark.parametrize("debug", ["", "1"])
@pytest.mark.parametrize("case", FAILING)
def test_a_start_that_fails_tells_no_secret(tmp_path: Path, case: str, debug: str) -> None:
    """Policies that are wrong, stores and registries that are away; with the traceback too."""
    policy = tmp_path / "policy.toml"
    policy.write_text('[server]\nauth = "none"\nlisten = "127.0.0.1:0"\n' + FAILING[case])
    environ = {"SECRET": WRONG, "PYTHONPATH": str(Path(__file__).parents[2])}
    if debug:
        environ["FENCEGATE_DEBUG"] = debug
    for command in ("check", "serve"):
        ran = subprocess.run(
            [sys.executable, "-m", "gateway", command, policy],
            capture_output=True,
            cwd=tmp_path,
            env=environ,
            timeout=60,
            check=False,
        )
        told = (ran.stdout + ran.stderr).decode()
        assert not leaks(told, [WRONG]), told
    assert ran.returncode != 0
    assert told.strip()
