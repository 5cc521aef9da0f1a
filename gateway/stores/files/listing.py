"""Decides what a page of a bucket holds (Amazon S3 API: ListObjects, ListObjectsV2).

Keys are compared as UTF-8 bytes. Nothing here awaits or touches the disk: keys come from `rows`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from gateway.model.object_action import ListObjects
from gateway.model.problem import Code, Problem
from gateway.model.reply import ListedObject, Listing
from gateway.stores.files.faults import Refusal
from gateway.stores.files.index import Row

MAX_KEYS: Final = 1000
Rows = Callable[[bytes], Iterator[Row]]
"""The keys of the bucket in byte order, from a start on that is itself included, read lazily."""


@dataclass(frozen=True, slots=True)
class Query:
    """A listing's parameters; `after` is the last key or prefix that came before, exclusive."""

    prefix: bytes
    delimiter: bytes
    after: bytes
    limit: int


def query_of(action: ListObjects) -> Query:
    """Read the parameters. Raises `Refusal` (InvalidArgument). Unknown ones are left alone."""
    fields = dict(action.query)
    after = fields.get("marker", "") if action.version == 1 else fields.get("start-after", "")
    token = fields.get("continuation-token")
    return Query(
        prefix=_bytes(fields.get("prefix", "")),
        delimiter=_bytes(fields.get("delimiter", "")),
        after=_bytes(after) if token is None or action.version == 1 else _after_token(token),
        limit=_limit(fields.get("max-keys")),
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _limit(text: str | None) -> int:
    if not text:
        return MAX_KEYS
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise _invalid("max-keys is not a number between 0 and 2147483647")
    return min(int(text), MAX_KEYS)


def _after_token(token: str) -> bytes:
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _invalid("the continuation token is not one of this store's") from None


def _invalid(message: str) -> Refusal:
    return Refusal(Problem(Code.REQUEST_MALFORMED, message, native="InvalidArgument"))


def behind(text: bytes) -> bytes:
    """The smallest text that is above all that begin with `text`, which is not empty.

    UTF-8 has no byte 0xff, so that the last byte can be counted up.
    """
    return text[:-1] + bytes((text[-1] + 1,))


def _group(key: bytes, query: Query) -> bytes | None:
    """The common prefix that a key is rolled up into, if any."""
    if not query.delimiter or not key.startswith(query.prefix):
        return None
    at = key.find(query.delimiter, len(query.prefix))
    return None if at < 0 else key[: at + len(query.delimiter)]


def items(query: Query, rows: Rows) -> Iterator[Row | bytes]:
    """Keys, and common prefixes as bytes, behind `query.after`; each prefix is jumped over."""
    shown = _group(query.after, query) == query.after  # the last page ended with this prefix
    start: bytes | None = max(query.prefix, behind(query.after) if shown else query.after)
    while start is not None:
        begin, start = start, None
        for row in rows(begin):
            if not row.key.startswith(query.prefix):
                return
            if row.key == query.after:
                continue
            group = _group(row.key, query)
            if group is not None:
                yield group
                start = behind(group)
                break
            yield row


def page(action: ListObjects, query: Query, rows: Rows) -> Listing:
    """Fill one page: keys and common prefixes together are at most `query.limit`."""
    found = list(islice(items(query, rows), query.limit + 1)) if query.limit else []
    more, found = len(found) > query.limit, found[: query.limit]
    last = found[-1] if found else b""
    return Listing(
        action.bucket,
        tuple(_listed(item) for item in found if isinstance(item, Row)),
        tuple(_text(item) for item in found if isinstance(item, bytes)),
        _next(action, last.key if isinstance(last, Row) else last) if more else None,
    )


def _listed(row: Row) -> ListedObject:
    return ListedObject(_text(row.key), row.etag, row.size, row.modified_s)


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


def _next(action: ListObjects, last: bytes) -> str:
    """Version 1 tells the last key or prefix; the token of version 2 is opaque, and safe in XML."""
    if action.version == 1:
        return _text(last)
    return base64.urlsafe_b64encode(last).decode()
