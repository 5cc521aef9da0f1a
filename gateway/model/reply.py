"""What a store answers, before a dialect gives it its wire form."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from gateway.model.object_action import Fields


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """An object as stored. `etag` keeps its quotes; `last_modified_s` is Unix time in seconds.

    `metadata` never contains the stamp.
    """

    etag: str
    size: int
    last_modified_s: int
    metadata: Fields = ()
    extra: Fields = ()


@dataclass(frozen=True, slots=True)
class ObjectFound:
    """An object that was read. `span` is (first, last, total) of a partial answer (206).

    `chunks` is None for HEAD; whoever gets the reply must exhaust or `aclose()` it.
    """

    meta: ObjectMeta
    length: int
    span: tuple[int, int, int] | None = None
    chunks: AsyncIterator[bytes] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class NotModified:
    """If-None-Match or If-Modified-Since says that the client has it already (304)."""

    etag: str


@dataclass(frozen=True, slots=True)
class ObjectPut:
    """An object was stored under this etag. `created`: it did not exist before (201 for http)."""

    etag: str
    created: bool = False
    extra: Fields = ()


@dataclass(frozen=True, slots=True)
class ObjectDeleted:
    """An object was removed. `existed` False: there was nothing (404 for http, 204 for s3)."""

    existed: bool = True
    extra: Fields = ()


@dataclass(frozen=True, slots=True)
class ListedObject:
    """One entry of a listing."""

    key: str
    etag: str
    size: int
    last_modified_s: int


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of objects in key order; `next_key` is where the following page starts, or None.

    `prefixes` are the common prefixes under the delimiter.
    """

    bucket: str
    objects: tuple[ListedObject, ...]
    prefixes: tuple[str, ...] = ()
    next_key: str | None = None


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of a store: (name, creation time as Unix seconds)."""

    names: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class BucketFound:
    """The bucket exists."""

    region: str


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as text, with their number; `etag` of a single row with a version.

    `json` is an array, or lines of values where those were asked for, and None when nothing is to
    be returned (return=minimal). `offset` is the index of the first row in the whole result, and
    `total` how many rows that has, where it was asked. `inserted`: a row was made that was not
    there before.
    """

    json: str | None
    count: int
    offset: int = 0
    etag: str | None = None
    inserted: bool = False
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Relay:
    """An upstream answer passed on as it is: status, end-to-end fields, body.

    With `chunks` the body is still arriving; whoever gets the reply must exhaust or `aclose()` it.
    Content-Length is among the fields only then.
    """

    status: int
    fields: Fields
    body: bytes = b""
    chunks: AsyncIterator[bytes] | None = field(default=None, compare=False)


ReadReply = ObjectFound | NotModified | Listing | Buckets | BucketFound | Rows | Relay
WriteReply = ObjectPut | ObjectDeleted | Rows | Relay
