"""Listings and buckets: the store's XML read into values.

Source: S3 API reference, ListObjects, ListObjectsV2, ListBuckets, GetBucketLocation. Keys may hold
characters that XML cannot, so they are asked for percent-encoded (encoding-type=url). Documents
with a DOCTYPE are refused: S3 has none, and entities can be made to grow without bound.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import unquote_plus
from xml.parsers import expat

from gateway.model.object_action import Fields, ListObjects
from gateway.model.problem import Code, Problem
from gateway.model.reply import Buckets, ListedObject, Listing

MAX_KEYS: Final = 1000
_NUMBER: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_SIZE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_STAMP_TIME: Final = re.compile(r"([0-9-]{10}T[0-9:]{8})(?:\.[0-9]+)?Z", re.ASCII)


class BadDocument(Exception):
    """The document is not what S3 answers. The text says why."""


@dataclass(slots=True)
class Element:
    """One element: its text, and its children by name in order."""

    name: str
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def value(self, name: str) -> str:
        """The text of the first child of that name, or ""."""
        return next((child.text for child in self.children if child.name == name), "")

    def all(self, name: str) -> list[Element]:
        """All children of that name."""
        return [child for child in self.children if child.name == name]


def parse_document(raw: bytes) -> Element:
    """Read a document; names lose their prefix. Raises `BadDocument`."""
    root = Element("")
    open_elements = [root]
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def start(name: str, _: Mapping[str, str]) -> None:
        element = Element(name.rpartition(":")[2])
        open_elements[-1].children.append(element)
        open_elements.append(element)
        if len(open_elements) > 16:
            raise BadDocument("its XML is nested too deeply")

    def text(data: str) -> None:
        open_elements[-1].text += data

    def doctype(*_: object) -> None:
        raise BadDocument("its XML has a DOCTYPE")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: open_elements.pop()
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(raw, True)
    except expat.ExpatError as error:
        raise BadDocument(f"its XML is broken: {error}") from error
    return root.children[0]


def upstream_query(action: ListObjects) -> Fields | Problem:
    """The parameters of a listing as the store gets them, or what is wrong with them."""
    asked = dict(action.query)
    limit = asked.get("max-keys") or str(MAX_KEYS)
    if not _NUMBER.fullmatch(limit):
        return Problem(
            Code.REQUEST_MALFORMED,
            f"max-keys must be a number from 0 to {MAX_KEYS}.",
            native="InvalidArgument",
        )
    asked["max-keys"] = str(min(int(limit), MAX_KEYS))
    asked["encoding-type"] = "url"
    if action.version == 2:
        asked["list-type"] = "2"
    return tuple(asked.items())


def read_listing(raw: bytes, action: ListObjects) -> Listing:
    """Read the answer to ListObjects or ListObjectsV2. Raises `BadDocument`."""
    root = _expect(parse_document(raw), "ListBucketResult")
    decode = unquote_plus if root.value("EncodingType") == "url" else str
    objects = tuple(_listed(entry, decode(entry.value("Key"))) for entry in root.all("Contents"))
    prefixes = tuple(decode(entry.value("Prefix")) for entry in root.all("CommonPrefixes"))
    next_key: str | None = None
    if root.value("IsTruncated") == "true" and (objects or prefixes):
        next_key = _next_key(root, action.version, decode(root.value("NextMarker")))
        next_key = next_key or max(
            (*(entry.key for entry in objects), *prefixes), key=lambda key: key.encode()
        )
    return Listing(action.bucket, objects, prefixes, next_key)


def _next_key(root: Element, version: int, next_marker: str) -> str:
    """Where the next page starts: the store's own token, or for version 1 a key."""
    if version == 1:
        return next_marker
    token = root.value("NextContinuationToken")
    if not token:
        raise BadDocument("its listing goes on without a NextContinuationToken")
    return token


def _listed(entry: Element, key: str) -> ListedObject:
    size = entry.value("Size")
    if not _SIZE.fullmatch(size):
        raise BadDocument(f"its listing has no size for {key!r}")
    return ListedObject(key, entry.value("ETag"), int(size), unix_s(entry.value("LastModified")))


def read_buckets(raw: bytes) -> Buckets:
    """Read the answer to ListBuckets. Raises `BadDocument`."""
    root = _expect(parse_document(raw), "ListAllMyBucketsResult")
    found = [entry for group in root.all("Buckets") for entry in group.all("Bucket")]
    return Buckets(tuple((b.value("Name"), unix_s(b.value("CreationDate"))) for b in found))


def read_location(raw: bytes) -> str:
    """Read the answer to GetBucketLocation; empty means us-east-1. Raises `BadDocument`."""
    root = _expect(parse_document(raw), "LocationConstraint")
    return root.text.strip() or root.value("LocationConstraint") or "us-east-1"


def _expect(root: Element, name: str) -> Element:
    if root.name != name:
        raise BadDocument(f"it answered <{root.name}> where <{name}> belongs")
    return root


def unix_s(text: str) -> int:
    """Read a time of the form 2026-11-05T10:20:30.000Z; 0 when it is none."""
    match = _STAMP_TIME.fullmatch(text)
    try:
        return timegm(datetime.fromisoformat(match[1]).timetuple()) if match else 0
    except ValueError:
        return 0
