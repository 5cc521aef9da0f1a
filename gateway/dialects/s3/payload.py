"""How a body travels, and the table of what is accepted: operation x authentication x body form.

Source: S3 API reference, "Signature calculations for the Authorization header: transferring
payload in multiple chunks" and the x-amz-content-sha256 field.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from gateway.dialects.s3.credentials import Auth
from gateway.dialects.s3.operations import Name
from gateway.dialects.s3.refused import refused


class Payload(StrEnum):
    """The forms of a body, as x-amz-content-sha256 names them; HASHED is a hash in hex."""

    HASHED = "a SHA-256 in hex"
    UNSIGNED = "UNSIGNED-PAYLOAD"
    CHUNKS_SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
    CHUNKS_SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
    CHUNKS_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"

    @property
    def chunked(self) -> bool:
        """True when the body is in aws-chunked framing."""
        return self not in _PLAIN

    @property
    def signed_chunks(self) -> bool:
        """True when every chunk carries a signature."""
        return self in (Payload.CHUNKS_SIGNED, Payload.CHUNKS_SIGNED_TRAILER)

    @property
    def trailer(self) -> bool:
        """True when a checksum follows the last chunk."""
        return self in (Payload.CHUNKS_SIGNED_TRAILER, Payload.CHUNKS_TRAILER)


_PLAIN: Final = frozenset({Payload.HASHED, Payload.UNSIGNED})
_ALL: Final = frozenset(Payload)
_NONE: Final[frozenset[Payload]] = frozenset()

# One row per operation. Chunked forms need an Authorization field: a presigned URL has no
# signature to start the chain from, and an unsigned trailer would let anyone on the way replace
# the body. With authentication off nothing is verified but framing, hashes and checksums.
ACCEPTED: Final = {
    (Name.PUT_OBJECT, Auth.HEADER): _ALL,
    (Name.PUT_OBJECT, Auth.PRESIGNED): _PLAIN,
    (Name.PUT_OBJECT, Auth.OFF): _ALL,
    (Name.GET_OBJECT, Auth.HEADER): _PLAIN,
    (Name.GET_OBJECT, Auth.PRESIGNED): _PLAIN,
    (Name.GET_OBJECT, Auth.OFF): _PLAIN,
    (Name.HEAD_OBJECT, Auth.HEADER): _PLAIN,
    (Name.HEAD_OBJECT, Auth.PRESIGNED): _PLAIN,
    (Name.HEAD_OBJECT, Auth.OFF): _PLAIN,
    (Name.DELETE_OBJECT, Auth.HEADER): _PLAIN,
    (Name.DELETE_OBJECT, Auth.PRESIGNED): _PLAIN,
    (Name.DELETE_OBJECT, Auth.OFF): _PLAIN,
    (Name.LIST_OBJECTS, Auth.HEADER): _PLAIN,
    (Name.LIST_OBJECTS, Auth.PRESIGNED): _PLAIN,
    (Name.LIST_OBJECTS, Auth.OFF): _PLAIN,
    (Name.LIST_OBJECTS_V2, Auth.HEADER): _PLAIN,
    (Name.LIST_OBJECTS_V2, Auth.PRESIGNED): _PLAIN,
    (Name.LIST_OBJECTS_V2, Auth.OFF): _PLAIN,
    (Name.LIST_BUCKETS, Auth.HEADER): _PLAIN,
    (Name.LIST_BUCKETS, Auth.PRESIGNED): _PLAIN,
    (Name.LIST_BUCKETS, Auth.OFF): _PLAIN,
    (Name.HEAD_BUCKET, Auth.HEADER): _PLAIN,
    (Name.HEAD_BUCKET, Auth.PRESIGNED): _PLAIN,
    (Name.HEAD_BUCKET, Auth.OFF): _PLAIN,
    (Name.GET_BUCKET_LOCATION, Auth.HEADER): _PLAIN,
    (Name.GET_BUCKET_LOCATION, Auth.PRESIGNED): _PLAIN,
    (Name.GET_BUCKET_LOCATION, Auth.OFF): _PLAIN,
}

_HEX: Final = re.compile(r"[0-9a-f]{64}")
_KNOWN: Final = {form.value: form for form in Payload if form is not Payload.HASHED}


def read_payload(text: str | None) -> Payload | None:
    """Name the form of a body; None for one that S3 has and the gateway does not.

    `text` None (nothing was said, with authentication off) is an unsigned body. Raises
    `RefusedError` for a value that S3 does not have either.
    """
    if text is None:
        return Payload.UNSIGNED
    if _HEX.fullmatch(text):
        return Payload.HASHED
    if text in _KNOWN:
        return _KNOWN[text]
    if text.startswith("STREAMING-"):
        return None
    raise refused(
        "InvalidArgument",
        "x-amz-content-sha256 must be a SHA-256 in lower-case hex, UNSIGNED-PAYLOAD or one of "
        "the STREAMING- forms",
    )


def accepts(name: Name, auth: Auth, form: Payload | None) -> bool:
    """Look one cell of the table up; a cell that is not listed is refused."""
    return form in ACCEPTED.get((name, auth), _NONE)
