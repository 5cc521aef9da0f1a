"""A request that goes on to an HTTP origin as it came: what the `http` store is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field

RawFields = tuple[tuple[bytes, bytes], ...]
"""Header fields in order; names in lower case, values untouched."""


@dataclass(frozen=True, slots=True)
class OriginRequest:
    """Method, raw path below the mount (empty, or with its slash in front), raw query, fields.

    `fields` are those that may go on: none of one connection, of the fence or of the gateway's
    own access control, and for a mutation none of its If-Match and If-None-Match. `length` is the
    number of body bytes, 0 without a body, None when it is not known. `content` is the body of a
    read.
    """

    method: str
    path: bytes
    query: bytes
    fields: RawFields = ()
    length: int | None = 0
    content: bytes = field(default=b"", repr=False)
