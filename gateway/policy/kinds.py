"""The kinds of values that settings have, with their bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, ConfigDict, Field, Strict

from gateway.policy.address import Address, parse_address

CLOSED: Final = ConfigDict(extra="forbid")
"""Every section is closed: a key that nobody knows is an error, never ignored."""

NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9_-]{0,62}$"

SECRET_KEYS: Final = frozenset(
    {"secret", "secret_hash", "access_key_id", "secret_access_key", "session_token", "dsn", "url"}
    | {"authorization", "stamp_key"}
)
"""Keys whose values no error and no log may repeat."""


def _named(value: object) -> object:
    if value == "":  # a Path would take it for the directory that it is read from
        raise ValueError("expected the name of a file or directory")
    return value


FileName = Annotated[Path, BeforeValidator(_named)]
AddressText = Annotated[Address, BeforeValidator(parse_address)]
Text = Annotated[str, Field(min_length=1)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
Mount = Annotated[
    str,
    Field(
        pattern=r"^(/[A-Za-z0-9._~-]+)+$",
        description='Path prefix on server.listen, such as "/files"; absent: the store\'s name.',
    ),
]
Milliseconds = Annotated[int, Strict(), Field(ge=1, le=3_600_000)]
Count = Annotated[int, Strict(), Field(ge=1, le=1_000_000_000)]
ByteCount = Annotated[int, Strict(), Field(ge=1, le=2**53)]
