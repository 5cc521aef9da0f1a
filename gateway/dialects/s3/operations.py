"""The allow-list: which requests are operations of this dialect, by method, query and fields.

Decisions, "What is a mutation": denied by default. A query key or a field that is not listed could
turn a read into a write (`?tagging`, `x-amz-copy-source`), so it is refused by name. Source: S3 API
reference, the pages of the operations below.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.dialects.s3.canonical import Pair
from gateway.dialects.s3.refused import not_fenced
from gateway.dialects.s3.target import Target


class Name(StrEnum):
    """The operations, by S3's own names; `x-id` in a query must agree with it."""

    PUT_OBJECT = "PutObject"
    GET_OBJECT = "GetObject"
    HEAD_OBJECT = "HeadObject"
    DELETE_OBJECT = "DeleteObject"
    LIST_OBJECTS = "ListObjects"
    LIST_OBJECTS_V2 = "ListObjectsV2"
    LIST_BUCKETS = "ListBuckets"
    HEAD_BUCKET = "HeadBucket"
    GET_BUCKET_LOCATION = "GetBucketLocation"


class Level(StrEnum):
    """What a path names."""

    SERVICE = "the service"
    BUCKET = "a bucket"
    OBJECT = "an object"


@dataclass(frozen=True, slots=True)
class Shape:
    """How a request must look to be an operation: every query key and vendor field it may have."""

    name: Name
    method: str
    level: Level
    query: frozenset[bytes] = frozenset()
    fields: frozenset[bytes] = frozenset()
    selector: bytes | None = None


RESPONSE_OVERRIDES: Final = {
    b"response-cache-control": "cache-control",
    b"response-content-disposition": "content-disposition",
    b"response-content-encoding": "content-encoding",
    b"response-content-language": "content-language",
    b"response-content-type": "content-type",
    b"response-expires": "expires",
}

STORED_VENDOR_FIELDS: Final = frozenset(
    {
        b"x-amz-acl",
        b"x-amz-server-side-encryption",
        b"x-amz-server-side-encryption-aws-kms-key-id",
        b"x-amz-server-side-encryption-bucket-key-enabled",
        b"x-amz-server-side-encryption-context",
        b"x-amz-storage-class",
        b"x-amz-tagging",
        b"x-amz-website-redirect-location",
    }
)
USER_METADATA: Final = b"x-amz-meta-"

CHECKSUM_FIELDS: Final = frozenset(
    {
        b"x-amz-checksum-crc32",
        b"x-amz-checksum-crc32c",
        b"x-amz-checksum-crc64nvme",
        b"x-amz-checksum-sha1",
        b"x-amz-checksum-sha256",
    }
)

# Other services' spellings of the same dangers (copy sources, conditions) count as vendor fields.
_VENDOR_PREFIXES: Final = (b"x-amz-", b"x-goog-", b"cf-copy-")
_ALWAYS: Final = frozenset(
    {b"x-amz-date", b"x-amz-content-sha256", b"x-amz-user-agent", b"x-amz-request-payer"}
)
_READ_FIELDS: Final = _ALWAYS | {b"x-amz-checksum-mode"}
_PUT_FIELDS: Final = (
    _ALWAYS
    | STORED_VENDOR_FIELDS
    | CHECKSUM_FIELDS
    | {b"x-amz-decoded-content-length", b"x-amz-trailer", b"x-amz-sdk-checksum-algorithm"}
)
_LISTING: Final = frozenset({b"prefix", b"delimiter", b"max-keys", b"encoding-type"})
_LISTING_V2: Final = _LISTING | {b"start-after", b"continuation-token", b"fetch-owner"}
_OVERRIDES: Final = frozenset(RESPONSE_OVERRIDES)

_SHAPES: Final = (
    Shape(Name.PUT_OBJECT, "PUT", Level.OBJECT, fields=_PUT_FIELDS),
    Shape(Name.GET_OBJECT, "GET", Level.OBJECT, query=_OVERRIDES, fields=_READ_FIELDS),
    Shape(Name.HEAD_OBJECT, "HEAD", Level.OBJECT, query=_OVERRIDES, fields=_READ_FIELDS),
    Shape(Name.DELETE_OBJECT, "DELETE", Level.OBJECT, fields=_ALWAYS),
    Shape(
        Name.LIST_OBJECTS_V2,
        "GET",
        Level.BUCKET,
        query=_LISTING_V2,
        fields=_ALWAYS,
        selector=b"list-type",
    ),
    Shape(Name.GET_BUCKET_LOCATION, "GET", Level.BUCKET, fields=_ALWAYS, selector=b"location"),
    Shape(Name.LIST_OBJECTS, "GET", Level.BUCKET, query=_LISTING | {b"marker"}, fields=_ALWAYS),
    Shape(Name.HEAD_BUCKET, "HEAD", Level.BUCKET, fields=_ALWAYS),
    Shape(Name.LIST_BUCKETS, "GET", Level.SERVICE, fields=_ALWAYS),
)


def classify(
    method: str, target: Target, query: Sequence[Pair], field_names: Iterable[bytes]
) -> Name:
    """Find the operation that a request is. Raises `RefusedError`: 501, or 400 for a repeated key.

    `query` is decoded and without the parameters of a presigned request.
    """
    level = _level(target)
    keys = [name for name, _ in query]
    for shape in _SHAPES:
        if (shape.method, shape.level) == (method, level) and (
            shape.selector is None or shape.selector in keys
        ):
            _check_query(shape, query)
            _check_fields(shape, field_names)
            return shape.name
    raise not_fenced(f"{method} of {level.value}")


def _level(target: Target) -> Level:
    if not target.bucket:
        return Level.SERVICE
    return Level.OBJECT if target.key else Level.BUCKET


def _check_query(shape: Shape, query: Sequence[Pair]) -> None:
    seen: set[bytes] = set()
    for key, value in query:
        known = key in shape.query or key == shape.selector
        if key == b"x-id":
            known = value == shape.name.encode()
        if not known or key in seen:
            raise not_fenced(f"{shape.method} with the query parameter {ascii_text(key)!r}")
        seen.add(key)
    if shape.selector == b"list-type" and (b"list-type", b"2") not in query:
        raise not_fenced("a listing whose list-type is not 2")


def _check_fields(shape: Shape, names: Iterable[bytes]) -> None:
    seen: set[bytes] = set()
    for name in names:
        if not name.startswith(_VENDOR_PREFIXES):
            continue
        known = name in shape.fields or (
            shape.name is Name.PUT_OBJECT and name.startswith(USER_METADATA)
        )
        if not known or name in seen:
            raise not_fenced(f"{shape.name.value} with the field {ascii_text(name)!r}")
        seen.add(name)


def ascii_text(raw: bytes) -> str:
    """Show bytes of a request in a message: printable ASCII, at most 64 characters."""
    return "".join(chr(b) if 0x20 < b < 0x7F else "?" for b in raw[:64])
