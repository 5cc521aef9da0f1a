"""Requests to the store: addressed path style, built from an allow-list, signed with its keys.

Nothing of a worker's request is copied and filtered; only the fields named here are written (S3 API
reference, PutObject). Keys are encoded once, as they are signed; dots and slashes are legal in them
and never resolved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.dialects.s3.canonical import canonical_query, encode_path
from gateway.dialects.s3.sigv4 import EMPTY_SHA256, AccessKey, UnsignedRequest, sign
from gateway.model.object_action import Fields
from gateway.model.stamp import METADATA_NAME
from gateway.upstream.exchange import Message

RawFields = tuple[tuple[bytes, bytes], ...]

STAMP_FIELD: Final = f"x-amz-meta-{METADATA_NAME}"
_KEPT: Final = frozenset(
    {
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-md5",
        "content-type",
        "expires",
    }
)
# The signer, the stamp and the framing make these themselves.
_OWN: Final = frozenset(
    {
        STAMP_FIELD,
        "x-amz-content-sha256",
        "x-amz-date",
        "x-amz-decoded-content-length",
        "x-amz-security-token",
        "x-amz-trailer",
    }
)
_MAX_KEY_BYTES: Final = 1024
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def allowed(fields: Fields) -> list[tuple[bytes, bytes]]:
    """The fields of a PUT that go to the store, in order. Raises `ValueError` for a bad value."""
    kept = []
    for name, value in fields:
        if name not in _KEPT and (not name.startswith("x-amz-") or name in _OWN):
            continue
        if _VALUE.fullmatch(value) is None:
            raise ValueError(f"the value of {name} has characters that no field can carry")
        kept.append((name.encode("ascii"), value.encode("latin-1")))
    return kept


def too_long(key: str) -> bool:
    """True for a key of more than 1024 bytes (S3 user guide, "Naming objects")."""
    return len(key.encode("utf-8", "surrogateescape")) > _MAX_KEY_BYTES


def object_path(bucket: str, key: str) -> bytes:
    """The raw path of a key, or of the bucket when `key` is empty."""
    path = f"/{bucket}/{key}" if key else f"/{bucket}"
    return encode_path(path.encode("utf-8", "surrogateescape"))


@dataclass(frozen=True, slots=True)
class RequestWriter:
    """Writes request heads for one store. `wall_s` gives Unix time, which signatures need."""

    authority: str
    key: AccessKey = field(repr=False)
    region: str
    wall_s: Callable[[], float]

    def write(
        self,
        method: str,
        path: bytes,
        *,
        query: Iterable[tuple[str, str]] = (),
        fields: Sequence[tuple[bytes, bytes]] = (),
        length: int | None = None,
        payload_hash: str = EMPTY_SHA256,
    ) -> Message:
        """Build and sign one request. `query` holds decoded pairs; `length` is Content-Length."""
        raw_query = canonical_query(
            (name.encode("utf-8", "surrogateescape"), value.encode("utf-8", "surrogateescape"))
            for name, value in query
        )
        sent = [(b"host", self.authority.encode("ascii")), *fields]
        if length is not None:
            sent.append((b"content-length", str(length).encode()))
        unsigned = UnsignedRequest(method, path, raw_query, sent, payload_hash)
        sent.extend(sign(unsigned, self.key, self.region, self.wall_s()))
        target = path + b"?" + raw_query if raw_query else path
        lines = [method.encode("ascii") + b" " + target + b" HTTP/1.1"]
        lines.extend(name + b": " + value for name, value in sent)
        lines.append(b"user-agent: fencegate\r\n\r\n")
        return Message(method, b"\r\n".join(lines))
