"""What a worker wants done with objects, in the words of the object stores (files, s3, http).

`bucket` is empty in the `http` dialect's plain tree; `key` is what the store keys by: for s3 the
percent-decoded key as text, for http the raw path below the mount.
"""

from __future__ import annotations

from dataclasses import dataclass

Fields = tuple[tuple[str, str], ...]
"""Header fields in order; names in lower case, values as they came (latin-1)."""


@dataclass(frozen=True, slots=True)
class GetObject:
    """Read an object, or its metadata alone; `range_` is the Range field as sent."""

    bucket: str
    key: str
    head: bool = False
    range_: str | None = None
    if_modified_since: str | None = None
    if_unmodified_since: str | None = None


@dataclass(frozen=True, slots=True)
class PutObject:
    """Replace an object. `length` is the number of body bytes, None when unknown (chunked).

    `metadata` holds the fields the store keeps and gives back: content-type, content-encoding,
    content-disposition, content-language, cache-control, expires, x-amz-meta-*, and for an s3
    store every other x-amz-* field of its allow-list. `sha256` is the hex digest of the body that
    the client signed, when it signed one; `digests` are the fields of other digests that it sent.
    """

    bucket: str
    key: str
    length: int | None
    metadata: Fields = ()
    sha256: str | None = None
    digests: Fields = ()


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Remove an object."""

    bucket: str
    key: str


@dataclass(frozen=True, slots=True)
class ListObjects:
    """List a bucket. `query` holds the listing parameters, percent-decoded; version is 1 or 2."""

    bucket: str
    version: int
    query: Fields = ()


@dataclass(frozen=True, slots=True)
class ListBuckets:
    """List the buckets of the store."""


@dataclass(frozen=True, slots=True)
class HeadBucket:
    """Ask whether a bucket exists (HEAD), or where it is (`location`: GET ?location)."""

    bucket: str
    location: bool = False


ObjectRead = GetObject | ListObjects | ListBuckets | HeadBucket
ObjectWrite = PutObject | DeleteObject
