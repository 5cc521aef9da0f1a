"""The parameters of a listing: checked, and split into what the store needs and what the answer
repeats.

Source: S3 API reference, ListObjects and ListObjectsV2. A continuation token is the store's own
`next_key` in an opaque wrapping, so that clients cannot mistake it for a key.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.dialects.s3.canonical import Pair
from gateway.dialects.s3.refused import RefusedError, refused
from gateway.model.object_action import Fields, ListObjects

MAX_KEYS: Final = 1000

_MAX_KEYS: Final = re.compile(r"[0-9]{1,10}")
_TOKEN_MARK: Final = b"fg1."


@dataclass(frozen=True, slots=True)
class ListingQuery:
    """A listing as asked for. `given` are the parameters that were sent, as text."""

    version: int
    given: dict[str, str]
    max_keys: int

    @property
    def url_encoded(self) -> bool:
        """True when keys in the answer are to be percent-encoded."""
        return "encoding-type" in self.given

    def action(self, bucket: str) -> ListObjects:
        """Make the action: the parameters that choose entries, with the token unwrapped.

        A page that continues another ignores where the first one started, as in S3.
        """
        chosen = ["prefix", "delimiter", "marker"]
        chosen.append("continuation-token" if "continuation-token" in self.given else "start-after")
        query: Fields = tuple(
            (name, unwrap_token(value) if name == "continuation-token" else value)
            for name, value in self.given.items()
            if name in chosen
        )
        limit = ("max-keys", str(self.max_keys))
        return ListObjects(bucket, self.version, (*query, limit))


def read_listing(version: int, query: Sequence[Pair]) -> ListingQuery:
    """Read the listing parameters (decoded, each at most once). Raises `RefusedError`."""
    given: dict[str, str] = {}
    for name, value in query:
        try:
            given[name.decode("ascii")] = value.decode("utf-8")
        except UnicodeDecodeError:
            raise _invalid("query parameters must be valid UTF-8") from None
    if given.get("encoding-type", "url") != "url":
        raise _invalid("encoding-type must be url")
    if given.get("fetch-owner", "false") not in ("true", "false"):
        raise _invalid("fetch-owner must be true or false")
    text = given.get("max-keys") or str(MAX_KEYS)
    if not _MAX_KEYS.fullmatch(text):
        raise _invalid("max-keys must be a number from 0")
    return ListingQuery(version, given, min(int(text), MAX_KEYS))


def wrap_token(next_key: str) -> str:
    """Make a continuation token of where the next page starts."""
    raw = _TOKEN_MARK + next_key.encode("utf-8")
    return base64.urlsafe_b64encode(raw).decode("ascii")


def unwrap_token(token: str) -> str:
    """Read a continuation token back. Raises `RefusedError` for what `wrap_token` did not make."""
    try:
        raw = base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True)
        text = raw.removeprefix(_TOKEN_MARK).decode("utf-8")
    except (binascii.Error, ValueError):
        raise _bad_token() from None
    if not raw.startswith(_TOKEN_MARK):
        raise _bad_token()
    return text


def _bad_token() -> RefusedError:
    return _invalid("the continuation-token is not one that this gateway gave out")


def _invalid(message: str) -> RefusedError:
    return refused("InvalidArgument", message)
