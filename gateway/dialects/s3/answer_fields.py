"""The fields of S3's answers: an allow-list, so that nothing of a store leaks by accident.

Source: S3 API reference, response elements of GetObject, HeadObject, PutObject, DeleteObject.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from email.utils import formatdate
from typing import Final

from gateway.dialects.s3.operations import CHECKSUM_FIELDS, USER_METADATA
from gateway.model.object_action import Fields
from gateway.model.reply import ObjectFound
from gateway.model.stamp import METADATA_NAME
from gateway.ports.dialect import RawFields

DEFAULT_CONTENT_TYPE: Final = "binary/octet-stream"

_USER_METADATA: Final = USER_METADATA.decode()
_STAMP_FIELD: Final = _USER_METADATA + METADATA_NAME
_CHECKSUMS: Final = frozenset(name.decode() for name in CHECKSUM_FIELDS) | {"x-amz-checksum-type"}
_REPRESENTATION: Final = frozenset(
    {
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-type",
        "expires",
    }
)
_VENDOR: Final = frozenset(
    {
        "x-amz-delete-marker",
        "x-amz-expiration",
        "x-amz-missing-meta",
        "x-amz-mp-parts-count",
        "x-amz-object-size",
        "x-amz-replication-status",
        "x-amz-restore",
        "x-amz-server-side-encryption",
        "x-amz-server-side-encryption-aws-kms-key-id",
        "x-amz-server-side-encryption-bucket-key-enabled",
        "x-amz-storage-class",
        "x-amz-tagging-count",
        "x-amz-version-id",
        "x-amz-website-redirect-location",
    }
)
_RELAYED: Final = frozenset(
    {"content-range", "etag", "last-modified", "retry-after", "x-amz-bucket-region"}
)

# A store that keeps what it was given could hold a value that splits an answer in two.
_BREAKS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")


def object_fields(found: ObjectFound, overrides: Fields) -> RawFields:
    """Describe an object that was read; `overrides` come from response-* parameters."""
    # A checksum covers the whole object; beside a range it would fail the client's check.
    checksums: frozenset[str] = _CHECKSUMS if found.span is None else frozenset()
    chosen = {"content-type": DEFAULT_CONTENT_TYPE}
    chosen |= {
        name: value
        for name, value in (*found.meta.metadata, *found.meta.extra)
        if _is_allowed(name) or name in checksums
    }
    chosen |= dict(overrides)
    chosen["etag"] = found.meta.etag
    chosen["last-modified"] = formatdate(found.meta.last_modified_s, usegmt=True)
    chosen["accept-ranges"] = "bytes"
    chosen["content-length"] = str(found.length)
    if found.span is not None:
        first, last, total = found.span
        chosen["content-range"] = f"bytes {first}-{last}/{total}"
    return encode_fields(chosen.items())


def vendor_fields(extra: Fields) -> RawFields:
    """Pick what the answer to a write passes on of the store's."""
    return encode_fields(pair for pair in extra if pair[0] in _VENDOR | _CHECKSUMS)


def relayed_fields(fields: Fields) -> RawFields:
    """Pick what a store's answer that is passed on as it is may carry."""
    return encode_fields(
        pair for pair in fields if _is_allowed(pair[0]) or pair[0] in _RELAYED | _CHECKSUMS
    )


def encode_fields(fields: Iterable[tuple[str, str]]) -> RawFields:
    """Give fields their wire form; one whose value cannot be a field value is left out."""
    return tuple(
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in fields
        if not _BREAKS.search(value)
    )


def _is_allowed(name: str) -> bool:
    if name.startswith(_USER_METADATA):
        return name != _STAMP_FIELD
    return name in _REPRESENTATION or name in _VENDOR
