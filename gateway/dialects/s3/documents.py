"""The XML documents of S3's answers.

Source: S3 API reference, "Error responses", ListObjects, ListObjectsV2, ListBuckets and
GetBucketLocation. Text comes from clients and stores, so all of it is escaped in one place.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from gateway.dialects.s3.listing import ListingQuery, wrap_token
from gateway.model.reply import Buckets, ListedObject, Listing

_HEAD: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
_NAMESPACE: Final = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
_OWNER: Final = "<Owner><ID>fencegate</ID></Owner>"
_UNLOCATED: Final = "us-east-1"

# The five of XML, and every character that a parser would normalise or that XML 1.0 cannot hold;
# S3 writes the latter as references too, which is why clients ask for encoding-type=url.
_SPECIAL: Final = re.compile("[&<>\"'\x00-\x1f\x7f-\x9f\ufffe\uffff]")


def escape(text: str) -> str:
    """Make text safe between tags."""
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", text)


def element(name: str, text: str) -> str:
    """Write one element with text in it."""
    return f"<{name}>{escape(text)}</{name}>"


def error_document(elements: dict[str, str]) -> bytes:
    """Write `<Error>` with its elements in order: Code, Message, Resource, RequestId and more."""
    inner = "".join(element(name, text) for name, text in elements.items())
    return f"{_HEAD}<Error>{inner}</Error>".encode()


def buckets_document(buckets: Buckets) -> bytes:
    """Write `<ListAllMyBucketsResult>`."""
    inner = "".join(
        f"<Bucket>{element('Name', name)}{element('CreationDate', _timestamp(created_s))}</Bucket>"
        for name, created_s in buckets.names
    )
    return _document("ListAllMyBucketsResult", f"{_OWNER}<Buckets>{inner}</Buckets>")


def location_document(region: str) -> bytes:
    """Write `<LocationConstraint>`, which is empty for the oldest region."""
    return _document("LocationConstraint", "" if region == _UNLOCATED else escape(region))


def listing_document(listing: Listing, asked: ListingQuery) -> bytes:
    """Write `<ListBucketResult>` in the version that was asked for."""
    parts = [
        element("Name", listing.bucket),
        _key_element("Prefix", asked.given.get("prefix", ""), asked),
    ]
    parts.extend(_paging(listing, asked))
    parts.append(element("MaxKeys", str(asked.max_keys)))
    if asked.given.get("delimiter"):
        parts.append(_key_element("Delimiter", asked.given["delimiter"], asked))
    if asked.url_encoded:
        parts.append(element("EncodingType", "url"))
    parts.append(element("IsTruncated", "false" if listing.next_key is None else "true"))
    owner = asked.version == 1 or asked.given.get("fetch-owner") == "true"
    parts.extend(_contents(entry, asked, owner) for entry in listing.objects)
    parts.extend(
        f"<CommonPrefixes>{_key_element('Prefix', prefix, asked)}</CommonPrefixes>"
        for prefix in listing.prefixes
    )
    return _document("ListBucketResult", "".join(parts))


def _paging(listing: Listing, asked: ListingQuery) -> Iterator[str]:
    """Write where this page started and where the next one does."""
    if asked.version == 1:
        yield _key_element("Marker", asked.given.get("marker", ""), asked)
        if listing.next_key is not None:
            yield _key_element("NextMarker", listing.next_key, asked)
        return
    if "start-after" in asked.given:
        yield _key_element("StartAfter", asked.given["start-after"], asked)
    if "continuation-token" in asked.given:
        yield element("ContinuationToken", asked.given["continuation-token"])
    if listing.next_key is not None:
        yield element("NextContinuationToken", wrap_token(listing.next_key))
    yield element("KeyCount", str(len(listing.objects) + len(listing.prefixes)))


def _contents(entry: ListedObject, asked: ListingQuery, owner: bool) -> str:
    parts = (
        _key_element("Key", entry.key, asked),
        element("LastModified", _timestamp(entry.last_modified_s)),
        element("ETag", entry.etag),
        element("Size", str(entry.size)),
        _OWNER if owner else "",
    )
    return f"<Contents>{''.join(parts)}</Contents>"


def _key_element(name: str, key: str, asked: ListingQuery) -> str:
    return element(name, quote(key, safe="/") if asked.url_encoded else key)


def _document(name: str, inner: str) -> bytes:
    return f"{_HEAD}<{name}{_NAMESPACE}>{inner}</{name}>".encode()


def _timestamp(unix_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(unix_s))
