"""The keys of issuers that sign tokens, as a policy file writes them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import ConfigDict, Field

from gateway.model.signed_token import KeyId, key_id
from gateway.policy.kinds import CLOSED


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenKeySettings:
    """A key that an issuer signs tokens with. Two keys side by side make a rotation."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    id: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9._~-]{1,64}$",
            description="1 to 64 letters, digits, . _ ~ or -: a name for people.",
        ),
    ]
    public_key: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9_-]{43}$",
            description="43 characters, the Ed25519 public key as `fencegate tokens keygen` "
            "prints it.",
        ),
    ]

    def key(self) -> Ed25519PublicKey:
        """The key itself. Raises ValueError."""
        return Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(self.public_key + "="))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensSettings:
    """Who signs tokens, for the rules with `signed = true`."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    keys: Annotated[
        tuple[TokenKeySettings, ...], Field(description="Keys of issuers, one table each.")
    ] = ()

    def by_id(self) -> dict[KeyId, Ed25519PublicKey]:
        """All keys by the id that signatures carry."""
        return {key_id(key): key for key in (settings.key() for settings in self.keys)}


def token_key_misfits(settings: TokensSettings) -> Iterator[tuple[int, str, str]]:
    """Keys that cannot be told apart, or are none: index, setting, what to change."""
    names: set[str] = set()
    ids: set[KeyId] = set()
    for index, key in enumerate(settings.keys):
        if key.id in names:
            yield index, "id", f'"{key.id}" names another key already'
        names.add(key.id)
        try:
            found = key_id(key.key())
        except ValueError:
            yield (
                index,
                "public_key",
                "is no Ed25519 public key: `fencegate tokens keygen` makes one",
            )
            continue
        if found in ids:
            yield index, "public_key", "is the key of another entry already; remove one of them"
        ids.add(found)
