"""Laws of certificates: what cannot be used is told by its file, before anything listens."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from gateway.edge.tls import ServerTls, UnusableCertificate
from gateway.policy.load import PolicyError, loads
from tests.services.certificates import Authority

STORES = '[stores.files]\ntype = "files"\nroot = "files"\n'


def test_unusable_files_are_told(tmp_path: Path) -> None:
    """Missing, of another key, no PEM, encrypted: each names the file."""
    authority = Authority("tests")
    cert, key = authority.issue("a").write(tmp_path, "a")
    _, other = authority.issue("b").write(tmp_path, "b")
    text = tmp_path / "text"
    text.write_text("hello")
    locked = tmp_path / "locked"
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    locked.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    cases = [
        ((tmp_path / "none", key, None), "none cannot be read: No such file"),
        ((cert, other, None), "b.key is not that of the certificate in"),
        ((cert, None, None), "must hold a certificate and its private key"),
        ((text, key, None), "must be a certificate and a key in PEM"),
        ((cert, locked, None), "the private key is encrypted"),
        ((cert, key, text), "holds no certificate in PEM"),
    ]
    for files, told in cases:
        with pytest.raises(UnusableCertificate) as caught:
            ServerTls(*files)
        assert told in str(caught.value)


def test_client_certificates_need_tls_1_3(tmp_path: Path) -> None:
    """TLS 1.2 resumes sessions that a withdrawn authority vouched for, so it is not spoken."""
    authority = Authority("tests")
    cert, key = authority.issue("a").write(tmp_path, "a")
    (tmp_path / "ca").write_bytes(authority.pem)
    mutual = ServerTls(cert, key, tmp_path / "ca").context
    assert mutual.verify_mode is ssl.CERT_REQUIRED
    assert mutual.minimum_version is ssl.TLSVersion.TLSv1_3
    plain = ServerTls(cert, key, None).context
    assert plain.minimum_version is ssl.TLSVersion.TLSv1_2
    assert mutual.num_tickets == plain.num_tickets == 0


@pytest.mark.parametrize("key", ["key_file", "client_ca_file"])
def test_a_part_of_tls_is_a_mistake(key: str) -> None:
    """Whoever sets a part of it means TLS: plain HTTP would be a surprise."""
    with pytest.raises(PolicyError, match=rf"p.toml:2: tls.{key}: is of no use without cert_file"):
        loads(f'[tls]\n{key} = "x"\n{STORES}', name="p.toml")
