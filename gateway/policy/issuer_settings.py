"""Who issues JSON Web Tokens for workers, as a policy file writes it (RFC 7519)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, Strict

from gateway.policy.kinds import CLOSED, FileName, Text

ALGORITHMS: Final = ("RS256", "ES256", "EdDSA")


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerSettings:
    """An issuer of JSON Web Tokens, which workers send as bearer tokens (http and rows)."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    issuer: Annotated[Text, Field(description="What `iss` must be, exactly.")]
    audience: Annotated[Text, Field(description="What `aud` must be, or have among others.")]
    jwks_file: Annotated[
        FileName | None,
        Field(description="File of the issuer's public keys (JWK Set), from data_dir."),
    ] = None
    jwks_url: Annotated[
        Text | None,
        Field(
            description="Where the issuer publishes its keys: https, or http on this machine. "
            "Read at the start, every 5 minutes, and when a token names a new key."
        ),
    ] = None
    jwks_ca_file: Annotated[
        FileName | None,
        Field(description="Authorities in PEM for jwks_url; absent: the usual public ones."),
    ] = None
    algorithms: Annotated[
        tuple[Literal["RS256", "ES256", "EdDSA"], ...],
        Field(min_length=1, description="Algorithms that its tokens may be signed with."),
    ] = ALGORITHMS
    leeway_s: Annotated[
        int,
        Strict(),
        Field(ge=0, le=300, description="How far clocks may differ for `exp` and `nbf`."),
    ] = 30
    stores: Annotated[
        tuple[Text, ...] | None,
        Field(description="Stores its tokens may cover at most; absent means all but s3."),
    ] = None
    stores_claim: Annotated[
        Text | None,
        Field(
            description="Claim with the stores a token covers; once set, each token needs it. "
            "A list of texts, or one text with spaces between."
        ),
    ] = None
    scopes_claim: Annotated[
        Text | None, Field(description="Claim with scopes, as patterns of [[auth.keys]]; likewise.")
    ] = None
    methods_claim: Annotated[Text | None, Field(description="Claim with methods; likewise.")] = None

    def covers(self, store: str) -> bool:
        """True when its tokens can cover a store."""
        return self.stores is None or store in self.stores


def issuer_misfits(issuer: IssuerSettings) -> Iterator[tuple[str, str]]:
    """Keys of an issuer that do not fit together, with what to change."""
    if issuer.jwks_file is None and issuer.jwks_url is None:
        yield "jwks_url", "is required, or jwks_file: where are the issuer's keys?"
    if issuer.jwks_file is not None and issuer.jwks_url is not None:
        yield "jwks_url", "is set beside jwks_file: keep one of them"
    if issuer.jwks_ca_file is not None and issuer.jwks_url is None:
        yield "jwks_ca_file", "is of no use without jwks_url"
    if issuer.jwks_url is not None and not _is_safe(issuer.jwks_url):
        yield "jwks_url", "expected https://…: whoever can change the keys on the way can be anyone"


def _is_safe(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment:
        return False
    return parts.scheme == "https" or (
        parts.scheme == "http" and host in ("127.0.0.1", "::1", "localhost")
    )
