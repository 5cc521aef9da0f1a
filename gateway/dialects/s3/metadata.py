"""The fields of an upload that are stored with the object and given back.

Source: S3 API reference, PutObject, and S3 user guide, "Working with object metadata".
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.s3.operations import STORED_VENDOR_FIELDS, USER_METADATA
from gateway.dialects.s3.refused import refused
from gateway.model.object_action import Fields
from gateway.model.stamp import METADATA_NAME
from gateway.ports.dialect import RawRequest

MAX_USER_METADATA_BYTES: Final = 2048

_STAMP_FIELD: Final = USER_METADATA + METADATA_NAME.encode()
_PLAIN_FIELDS: Final = frozenset(
    {
        b"content-type",
        b"content-disposition",
        b"content-language",
        b"cache-control",
        b"expires",
    }
)


def stored_fields(request: RawRequest) -> Fields:
    """Pick the fields to store, in the order they came. Raises `RefusedError`."""
    picked = _content_encoding(request)
    plain: set[bytes] = set()
    size = 0
    for name, value in request.fields:
        if name.startswith(USER_METADATA):
            size += len(name) - len(USER_METADATA) + len(value)
        elif name in _PLAIN_FIELDS:
            if name in plain:
                raise refused("InvalidRequest", f"{name.decode()} was sent more than once")
            plain.add(name)
        elif name not in STORED_VENDOR_FIELDS:
            continue
        if name == _STAMP_FIELD:
            raise refused(
                "InvalidArgument", f"the metadata name {METADATA_NAME!r} is the gateway's own"
            )
        picked.append((name.decode("latin-1"), value.strip(b" \t").decode("latin-1")))
    if size > MAX_USER_METADATA_BYTES:
        raise refused(
            "MetadataTooLarge", f"user metadata has at most {MAX_USER_METADATA_BYTES} bytes"
        )
    return tuple(picked)


def _content_encoding(request: RawRequest) -> list[tuple[str, str]]:
    """Keep the codings that belong to the object; aws-chunked is the transfer's alone."""
    text = b",".join(request.values(b"content-encoding")).decode("latin-1")
    codings = [coding.strip() for coding in text.split(",")]
    kept = [coding for coding in codings if coding and coding.lower() != "aws-chunked"]
    return [("content-encoding", ",".join(kept))] if kept else []
