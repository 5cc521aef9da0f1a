"""TLS and client certificates as operators use them: a real gateway, real handshakes, SIGHUP."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import httpx
import pytest
from botocore.config import Config
from cryptography import x509

from tests.services.certificates import Authority
from tests.services.gateway_process import GatewayProcess
from tests.services.server_process import wait_until

Start = Callable[..., GatewayProcess]
SECRET = "secret-of-the-lake-0123"


def policy(folder: Path, *, mutual: bool = False) -> str:
    client_ca = f'client_ca_file = "{folder}/clients.pem"' if mutual else ""
    return f"""
[server]
listen = "127.0.0.1:8080"
[tls]
cert_file = "{folder}/server.pem"
key_file = "{folder}/server.key"
{client_ca}
[[auth.keys]]
id = "lake"
secret = "{SECRET}"
stores = ["objects"]
[stores.files]
type = "files"
root = "files"
[stores.objects]
type = "files"
dialect = "s3"
listen = "127.0.0.1:9000"
root = "objects"
buckets = ["demo"]
"""


def serial_of(pem: bytes) -> int:
    return x509.load_pem_x509_certificate(pem).serial_number


def shown_by(url: str, context: ssl.SSLContext) -> int:
    """The serial number of the certificate that a listener shows in a new handshake."""
    place = urlsplit(url)
    address = (str(place.hostname), place.port)
    with (
        socket.create_connection(address, timeout=5) as plain,  # type: ignore[arg-type]
        context.wrap_socket(plain, server_hostname=place.hostname) as secure,
    ):
        der = secure.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).serial_number


def put(gateway: GatewayProcess, token: int, verify: ssl.SSLContext) -> int:
    headers = {"X-Fence-Token": str(token)}
    url = f"{gateway.store_url('files')}/a"
    return httpx.put(url, content=b"x", headers=headers, verify=verify, timeout=10).status_code


def test_both_listeners_speak_tls(gateway_process: Start, tmp_path: Path) -> None:
    """Mounted stores, the control API and S3's own listener; plain HTTP gets nowhere."""
    authority = Authority("tests")
    authority.issue("server").write(tmp_path, "server")
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    trust = authority.trusting()
    gateway = gateway_process(policy(tmp_path), verify=trust)
    assert put(gateway, 3, trust) == 201
    assert put(gateway, 2, trust) == 412
    assert "fencegate serves https://" in "\n".join(gateway.lines())
    s3 = boto3.client(
        "s3",
        endpoint_url=gateway.store_url("objects"),
        verify=str(tmp_path / "ca.pem"),
        region_name="us-east-1",
        aws_access_key_id="lake",
        aws_secret_access_key=SECRET,
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}),
    )
    s3.meta.events.register(
        "before-sign.s3", lambda request, **_: request.headers.add_header("X-Fence-Token", "3")
    )
    body = bytes(range(256)) * 4096
    s3.put_object(Bucket="demo", Key="a", Body=body)
    assert s3.get_object(Bucket="demo", Key="a")["Body"].read() == body
    for url in (gateway.url, gateway.store_url("objects")):
        with pytest.raises(httpx.TransportError):
            httpx.get(url.replace("https", "http") + "/healthz", timeout=5)


@pytest.mark.parametrize("arguments", [(), ("--workers", "2")], ids=["one", "workers"])
def test_hang_up_exchanges_the_certificate(
    gateway_process: Start, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """New handshakes show the new certificate, connections that are open stay."""
    authority = Authority("tests")
    old, new = authority.issue("server"), authority.issue("server")
    trust = authority.trusting()
    old.write(tmp_path, "server")
    gateway = gateway_process(policy(tmp_path), verify=trust, arguments=arguments)
    assert shown_by(gateway.url, trust) == serial_of(old.cert)
    with httpx.Client(verify=trust, timeout=10) as open_connection:
        assert open_connection.get(f"{gateway.url}/healthz").status_code == 200
        new.write(tmp_path, "server")
        gateway.hang_up()
        for url in (gateway.url, gateway.store_url("objects")):
            for _ in range(5):
                wait_until(
                    lambda url=url: shown_by(url, trust) == serial_of(new.cert), 10, "the new one"
                )
        assert open_connection.get(f"{gateway.url}/healthz").status_code == 200
    assert gateway.wait_for_log(lambda r: r["event"] == "reloaded")["part"] == "tls"


def test_a_broken_certificate_changes_nothing(gateway_process: Start, tmp_path: Path) -> None:
    """The old one stays in use, and the log says what is wrong with which file."""
    authority = Authority("tests")
    trust = authority.trusting()
    issued = authority.issue("server")
    cert, _ = issued.write(tmp_path, "server")
    gateway = gateway_process(policy(tmp_path), verify=trust)
    cert.write_bytes(authority.issue("another").cert)
    gateway.hang_up()
    record = gateway.wait_for_log(lambda r: r["event"] == "reload_failed")
    assert f"{tmp_path}/server.key is not that of the certificate in" in record["error"]
    assert shown_by(gateway.url, trust) == serial_of(issued.cert)
    assert gateway.metrics()['fencegate_reloads_total{outcome="failed",part="tls"}'] == 1


def test_client_certificates_are_demanded(gateway_process: Start, tmp_path: Path) -> None:
    """Without one, or with another authority's, no request is answered; SIGHUP withdraws one."""
    authority, clients, others = Authority("tests"), Authority("clients"), Authority("others")
    authority.issue("server").write(tmp_path, "server")
    (tmp_path / "clients.pem").write_bytes(clients.pem)
    good = authority.trusting(clients.issue("worker").write(tmp_path, "worker"))
    wrong = authority.trusting(others.issue("worker").write(tmp_path, "other"))
    gateway = gateway_process(policy(tmp_path, mutual=True), verify=good)
    assert put(gateway, 3, good) == 201
    for refused in (authority.trusting(), wrong):
        with pytest.raises(httpx.TransportError):
            put(gateway, 3, refused)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{gateway.store_url('objects')}/demo", verify=refused, timeout=10)
    (tmp_path / "clients.pem").write_bytes(others.pem)
    gateway.hang_up()
    gateway.wait_for_log(lambda r: r["event"] == "reloaded")
    gateway.verify = wrong
    assert put(gateway, 3, wrong) == 204
    with pytest.raises(httpx.TransportError):  # a session of before is not resumed either
        put(gateway, 3, good)
