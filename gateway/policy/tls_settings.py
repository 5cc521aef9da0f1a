"""TLS on the gateway's listeners, as a policy file writes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from gateway.policy.kinds import CLOSED, FileName


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """TLS on every listener. SIGHUP reads the files again; connections that are open stay."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    cert_file: Annotated[
        FileName | None,
        Field(
            description="The certificate and its chain in PEM, from data_dir; absent: plain HTTP."
        ),
    ] = None
    key_file: Annotated[
        FileName | None,
        Field(description="Its private key in PEM, not encrypted; absent: it is in cert_file."),
    ] = None
    client_ca_file: Annotated[
        FileName | None,
        Field(
            description="Authorities in PEM of which every client must show a certificate (mTLS), "
            "on all listeners, health included; TLS 1.3 then. Absent: clients need none."
        ),
    ] = None


def tls_misfits(tls: TlsSettings) -> Iterator[tuple[str, str]]:
    """Keys of `[tls]` that do not fit the others, with what to change."""
    if tls.cert_file is None:
        for key in ("key_file", "client_ca_file"):
            if getattr(tls, key) is not None:
                yield key, "is of no use without cert_file; set it, or remove this"
