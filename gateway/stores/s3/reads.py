"""Reads: objects with a streamed body, listings and buckets as values.

Source: S3 API reference, GetObject, HeadObject, ListObjects, ListObjectsV2, ListBuckets,
HeadBucket, GetBucketLocation. Reads need no token; the stamp is hidden, redirects are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from email.utils import mktime_tz, parsedate_tz
from typing import Final, assert_never

from gateway.model.conditions import Conditions
from gateway.model.object_action import (
    Fields,
    GetObject,
    HeadBucket,
    ListBuckets,
    ListObjects,
    ObjectRead,
)
from gateway.model.problem import Code, Problem
from gateway.model.reply import BucketFound, NotModified, ObjectFound, ObjectMeta, ReadReply
from gateway.ports.store import ReadDone, ReadRefused, ReadResult
from gateway.stores.s3.answers import refusal, store_fields
from gateway.stores.s3.listings import (
    BadDocument,
    read_buckets,
    read_listing,
    read_location,
    upstream_query,
)
from gateway.stores.s3.site import Site
from gateway.stores.s3.wire import STAMP_FIELD, object_path
from gateway.upstream.exchange import Incoming, Message, StreamBroken, UpstreamFailed
from gateway.upstream.response import Head

_ERROR_BYTES: Final = 65_536
_RANGE: Final = re.compile(r"bytes ([0-9]+)-([0-9]+)/([0-9]+)", re.ASCII)
_ONE_RANGE: Final = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})", re.ASCII)
_METADATA: Final = frozenset(
    {
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-type",
        "expires",
    }
)


async def read(site: Site, action: ObjectRead, client: Conditions) -> ReadResult:
    """Answer a read."""
    match action:
        case GetObject():
            return await _object(site, action, client)
        case ListObjects(bucket):
            query = upstream_query(action)
            if isinstance(query, Problem):
                return ReadRefused(query)
            message = site.requests.write("GET", object_path(bucket, ""), query=query)
            return await _document(site, message, lambda raw: read_listing(raw, action))
        case ListBuckets():
            return await _document(site, site.requests.write("GET", b"/"), read_buckets)
        case HeadBucket(bucket, location=True):
            path = object_path(bucket, "")
            message = site.requests.write("GET", path, query=[("location", "")])
            return await _document(site, message, lambda raw: BucketFound(read_location(raw)))
        case HeadBucket(bucket):
            return await _bucket(site, bucket)
        case _:
            assert_never(action)


def _failed(site: Site, why: object) -> ReadRefused:
    text = f"The store {site.store!r} could not be read: {why}."
    return ReadRefused(Problem(Code.UPSTREAM_FAILED, text))


# --- objects ------------------------------------------------------------------------------------
async def _object(site: Site, action: GetObject, client: Conditions) -> ReadResult:
    message = site.requests.write(
        "HEAD" if action.head else "GET",
        object_path(action.bucket, action.key),
        fields=_read_conditions(action, client),
    )
    try:
        incoming = await site.client.open(message)
    except UpstreamFailed as error:
        return _failed(site, error)
    try:
        result = await _object_answered(site, action, incoming)
    except BaseException:
        await incoming.aclose()
        raise
    if isinstance(result, ReadRefused) or action.head:
        await incoming.aclose()
    return result


def _read_conditions(action: GetObject, client: Conditions) -> list[tuple[bytes, bytes]]:
    asked = (
        ("range", _valid_range(action.range_)),
        ("if-match", None if client.if_match is None else ", ".join(client.if_match)),
        (
            "if-none-match",
            None if client.if_none_match is None else ", ".join(client.if_none_match),
        ),
        ("if-modified-since", action.if_modified_since),
        ("if-unmodified-since", action.if_unmodified_since),
    )
    return [(name.encode(), value.encode("latin-1")) for name, value in asked if value is not None]


def _valid_range(asked: str | None) -> str | None:
    """A range that ends before it begins is no range (RFC 9110 section 14.1.1); stores differ."""
    backwards = _ONE_RANGE.fullmatch(asked or "")
    return None if backwards and int(backwards[1]) > int(backwards[2]) else asked


async def _object_answered(site: Site, action: GetObject, incoming: Incoming) -> ReadResult:
    head = incoming.head
    if head.status == 304:
        await incoming.aclose()
        return ReadDone(NotModified(head.get("etag") or ""))
    if head.status not in {200, 206}:
        return await _refused(site, incoming, native="NoSuchKey" if head.status == 404 else "")
    found = _found(head, None if action.head else incoming)
    if found is None:
        return _failed(site, "its answer for the object lacks an ETag, a length or a range")
    return ReadDone(found)


async def _refused(site: Site, incoming: Incoming, *, native: str = "") -> ReadRefused:
    try:
        body = await incoming.read(_ERROR_BYTES)
    except StreamBroken as error:
        return _failed(site, error)
    return ReadRefused(refusal(site.store, incoming.head.status, body, native=native))


def _found(head: Head, chunks: Incoming | None) -> ObjectFound | None:
    etag, length = head.get("etag"), head.get("content-length")
    span = _span(head)
    if not etag or length is None or not length.isdecimal() or (head.status == 206) != bool(span):
        return None
    size = span[2] if span else int(length)
    meta = ObjectMeta(etag, size, _unix_s(head), _metadata(head), store_fields(head))
    return ObjectFound(meta, int(length), span, chunks)


def _span(head: Head) -> tuple[int, int, int] | None:
    match = _RANGE.fullmatch(head.get("content-range") or "")
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _unix_s(head: Head) -> int:
    parsed = parsedate_tz(head.get("last-modified"))
    return 0 if parsed is None else int(mktime_tz(parsed))


def _metadata(head: Head) -> Fields:
    return tuple(
        (name, value)
        for name, value in head.fields
        if name in _METADATA or (name.startswith("x-amz-meta-") and name != STAMP_FIELD)
    )


# --- listings and buckets -----------------------------------------------------------------------
async def _document(
    site: Site, message: Message, parse: Callable[[bytes], ReadReply]
) -> ReadResult:
    try:
        answer = await site.client.ask(message)
        if answer.status != 200:
            return ReadRefused(refusal(site.store, answer.status, answer.body))
        return ReadDone(parse(answer.body))
    except (UpstreamFailed, BadDocument) as error:
        return _failed(site, error)


async def _bucket(site: Site, bucket: str) -> ReadResult:
    try:
        answer = await site.client.ask(site.requests.write("HEAD", object_path(bucket, "")))
    except UpstreamFailed as error:
        return _failed(site, error)
    if answer.status == 404:
        text = f"The bucket {bucket!r} does not exist."
        return ReadRefused(Problem(Code.NOT_FOUND, text, native="NoSuchBucket"))
    if answer.status != 200:
        return ReadRefused(refusal(site.store, answer.status, answer.body))
    return ReadDone(BucketFound(answer.head.get("x-amz-bucket-region") or site.requests.region))
