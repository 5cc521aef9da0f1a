"""The query string of a request: filters, select, order, limit, offset, columns, on_conflict.

Source: PostgREST reference, "Tables and Views". What is left out of that grammar is refused by
its name, never skipped: a filter that is skipped would change more rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote_to_bytes

from gateway.dialects.rows.filters import parse_filter
from gateway.dialects.rows.names import column_name, field_of
from gateway.dialects.rows.problems import RequestError, bad_range, unreadable, unsupported
from gateway.dialects.rows.select import parse_select, split
from gateway.model.row_action import Order, Predicate, Selection, filters_in

Pairs = tuple[tuple[str, str], ...]
"""The parameters of a query string in order, decoded."""

_RESERVED: Final = frozenset({"select", "order", "limit", "offset", "columns", "on_conflict"})
MAX_FILTERS: Final = 100
_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_RANGE: Final = re.compile(r"(?:items=)?([0-9]{1,18})-([0-9]{1,18})?")
_NEGATIVE: Final = re.compile(r"-[0-9]{1,18}")
_DIRECTIONS: Final = {"asc": False, "desc": True}
_NULLS: Final = {"nullsfirst": True, "nullslast": False}


@dataclass(frozen=True, slots=True)
class Query:
    """A query string, understood. `select`, `columns`, `on_conflict` are None when not sent.

    An empty `select` stands for all columns.
    """

    pairs: Pairs = ()
    filters: tuple[Predicate, ...] = ()
    select: Selection | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    columns: tuple[str, ...] | None = None
    on_conflict: tuple[str, ...] | None = None


def parse_query(raw: bytes, *, mutates: bool) -> Query:
    """Understand a raw query string. Raises RequestError."""
    pairs = tuple(_pair(piece) for piece in raw.split(b"&") if piece)
    if len(pairs) > MAX_FILTERS + len(_RESERVED):
        raise RequestError(unreadable("the query", f"it has more than {MAX_FILTERS} filters"))
    reserved: dict[str, str] = {}
    for key, value in pairs:
        if key in _RESERVED and reserved.setdefault(key, value) != value:
            raise RequestError(unreadable(key, "it was sent twice; send it once"))
    if mutates and (late := sorted(reserved.keys() & {"order", "limit", "offset"})):
        raise RequestError(unsupported(f"{late[0]} on a mutation", mutates=True))
    filters = tuple(
        parse_filter(key, value, mutates=mutates) for key, value in pairs if key not in _RESERVED
    )
    if sum(1 for _ in filters_in(filters)) > MAX_FILTERS:
        raise RequestError(unreadable("the query", f"it has more than {MAX_FILTERS} filters"))
    select = reserved.get("select")
    return Query(
        pairs=pairs,
        filters=filters,
        select=None if select is None else parse_select(select, mutates=mutates),
        order=_order(reserved.get("order", ""), mutates),
        limit=_count("limit", reserved.get("limit")),
        offset=_count("offset", reserved.get("offset")) or 0,
        columns=_columns(reserved.get("columns"), mutates),
        on_conflict=_columns(reserved.get("on_conflict"), mutates),
    )


def with_range(query: Query, ranges: list[bytes], units: list[bytes]) -> Query:
    """Let a Range of items replace limit and offset. Raises RequestError.

    Source: PostgREST reference, "Pagination". Other units, and what is no range, are ignored as
    RFC 9110, section 14.2 says.
    """
    if len(ranges) != 1 or (units and units[0].strip().lower() != b"items"):
        return query
    match = _RANGE.fullmatch(ranges[0].decode("latin-1").strip())
    if match is None:
        return query
    first, last = int(match[1]), None if not match[2] else int(match[2])
    if last is not None and last < first:
        details = "The lower boundary must be lower than or equal to the upper boundary"
        raise RequestError(bad_range("Requested range not satisfiable", details))
    return replace(query, offset=first, limit=None if last is None else last - first + 1)


def decode(raw: bytes) -> str:
    """Percent-decode to text. Raises RequestError for a bad escape, bad UTF-8 or a NUL."""
    shown = raw.decode("latin-1")
    if _BAD_ESCAPE.search(raw):
        raise RequestError(unreadable(shown, "a % is not followed by two hexadecimal digits"))
    try:
        text = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError(unreadable(shown, "it is not UTF-8")) from None
    if "\0" in text:
        raise RequestError(unreadable(shown, "no database text can hold the character NUL"))
    return text


def _pair(piece: bytes) -> tuple[str, str]:
    key, _, value = piece.replace(b"+", b" ").partition(b"=")
    return decode(key), decode(value)


def _columns(text: str | None, mutates: bool) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(dict.fromkeys(column_name(item, mutates=mutates) for item in split(text)))


def _order(text: str, mutates: bool) -> tuple[Order, ...]:
    return tuple(_order_term(item, mutates) for item in split(text)) if text else ()


def _order_term(item: str, mutates: bool) -> Order:
    rest, words = item, list[str]()
    while not rest.endswith('"') and "." in rest:
        rest, _, word = rest.rpartition(".")
        words.insert(0, word)
    descending = _DIRECTIONS[words.pop(0)] if words and words[0] in _DIRECTIONS else False
    nulls_first = _NULLS[words.pop(0)] if words and words[0] in _NULLS else descending
    if words:
        why = "expected a column, then .asc or .desc, then .nullsfirst or .nullslast"
        raise RequestError(unreadable(f"order={item}", why))
    column, path = field_of(rest, mutates=mutates)
    return Order(column, descending, nulls_first, path)


def _count(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if _NUMBER.fullmatch(text):
        return int(text)
    if _NEGATIVE.fullmatch(text):
        details = f"{name} is {text}; it must not be negative"
        raise RequestError(bad_range("Requested range not satisfiable", details))
    raise RequestError(unreadable(f"{name}={text}", "expected digits only"))
