"""TLS of the listeners: certificates from files, which can be exchanged under way.

Theory. The listening sockets keep one context for good. At each handshake, whether or not the
client names a server, OpenSSL asks the server-name callback, which puts the newest context in its
place (SSL_set_SSL_CTX): certificate, key and client authorities are those of the last good load.
Nothing is resumed, so that no client gets in by a session that a withdrawn authority vouched for:
there are no tickets, and where client certificates are demanded TLS 1.2, which has sessions without
tickets, is not spoken.
"""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import NoReturn

from gateway.edge.reloads import Reloads
from gateway.policy.document import PolicySet


class UnusableCertificate(ValueError):
    """A certificate, key or authority cannot be used; the text says which file, and why."""


class ServerTls:
    """What the listeners shake hands with. Raises `UnusableCertificate`, also from `reload`."""

    def __init__(self, cert: Path, key: Path | None, client_ca: Path | None) -> None:
        self._files = (cert, key, client_ca)
        self._current = _load(*self._files)
        self.context = self._current
        self.context.sni_callback = self._newest

    def reload(self) -> None:
        """Read the files again. What was loaded before stays in use when they cannot be used."""
        self._current = _load(*self._files)

    def _newest(
        self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _first: ssl.SSLContext
    ) -> None:
        connection.context = self._current


def listeners_tls(policy: PolicySet, reloads: Reloads) -> ServerTls | None:
    """What a policy's listeners shake hands with, renewed at SIGHUP; None for plain HTTP.

    Raises `UnusableCertificate`.
    """
    tls = policy.tls
    if tls.cert_file is None:
        return None
    files = (tls.key_file, tls.client_ca_file)
    key, client_ca = (None if file is None else policy.data(file) for file in files)
    server = ServerTls(policy.data(tls.cert_file), key, client_ca)

    async def reload() -> None:
        await asyncio.to_thread(server.reload)

    reloads.add("tls", reload)
    return server


def _load(cert: Path, key: Path | None, client_ca: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    for path in (cert, key, client_ca):
        if path is not None:
            _check_readable(path)
    try:
        context.load_cert_chain(cert, key, password=_encrypted)
    except ssl.SSLError as error:
        raise UnusableCertificate(_pair_text(cert, key, error)) from None
    if client_ca is not None:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(client_ca)
        except ssl.SSLError:
            text = f"tls.client_ca_file {client_ca} holds no certificate in PEM"
            raise UnusableCertificate(text) from None
    return context


def _encrypted() -> NoReturn:
    raise UnusableCertificate("the private key is encrypted: tls.key_file must hold a plain one")


def _check_readable(path: Path) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise UnusableCertificate(f"{path} cannot be read: {error.strerror}") from None


def _pair_text(cert: Path, key: Path | None, error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"the private key in {key or cert} is not that of the certificate in {cert}"
    if key is None:
        return f"tls.cert_file {cert} must hold a certificate and its private key in PEM"
    return f"tls.cert_file {cert} and tls.key_file {key} must be a certificate and a key in PEM"
