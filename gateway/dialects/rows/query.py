"""The query string of a request: filters, select, order, limit, offset, columns.

Source: PostgREST reference, "Tables and Views". What is left out of that grammar is refused by
its name, never skipped: a filter that is skipped would change more rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from gateway.dialects.rows.filters import column_name, parse_filter
from gateway.dialects.rows.problems import RequestError, bad_range, unreadable, unsupported
from gateway.model.row_action import Filter, Order

Pairs = tuple[tuple[str, str], ...]
"""The parameters of a query string in order, decoded."""

_RESERVED: Final = frozenset({"select", "order", "limit", "offset", "columns", "on_conflict"})
MAX_FILTERS: Final = 100
_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_NEGATIVE: Final = re.compile(r"-[0-9]{1,18}")
_DIRECTIONS: Final = {"asc": False, "desc": True}
_NULLS: Final = {"nullsfirst": True, "nullslast": False}


@dataclass(frozen=True, slots=True)
class Query:
    """A query string, understood. `select` and `columns` are None when not sent.

    An empty `select` stands for all columns.
    """

    pairs: Pairs = ()
    filters: tuple[Filter, ...] = ()
    select: tuple[str, ...] | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    columns: tuple[str, ...] | None = None


def parse_query(raw: bytes, *, mutates: bool) -> Query:
    """Understand a raw query string. Raises RequestError."""
    pairs = tuple(_pair(piece) for piece in raw.split(b"&") if piece)
    if len(pairs) > MAX_FILTERS + len(_RESERVED):
        raise RequestError(unreadable("the query", f"it has more than {MAX_FILTERS} filters"))
    reserved: dict[str, str] = {}
    for key, value in pairs:
        if key in _RESERVED and reserved.setdefault(key, value) != value:
            raise RequestError(unreadable(key, "it was sent twice; send it once"))
    if "on_conflict" in reserved:
        raise RequestError(unsupported("on_conflict (upsert)", mutates=mutates))
    if mutates and (late := sorted(reserved.keys() & {"order", "limit", "offset"})):
        raise RequestError(unsupported(f"{late[0]} on a mutation", mutates=True))
    select = reserved.get("select")
    columns = reserved.get("columns")
    return Query(
        pairs=pairs,
        filters=tuple(
            parse_filter(key, value, mutates=mutates)
            for key, value in pairs
            if key not in _RESERVED
        ),
        select=None if select is None else _select(select, mutates),
        order=_order(reserved.get("order", ""), mutates),
        limit=_count("limit", reserved.get("limit")),
        offset=_count("offset", reserved.get("offset")) or 0,
        columns=None if columns is None else _columns(columns, mutates),
    )


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


def _split(text: str) -> list[str]:
    """Split at commas that stand outside double quotes."""
    parts, start, quoted, at = [], 0, False, 0
    while at < len(text):
        if text[at] == "\\" and quoted:
            at += 1
        elif text[at] == '"':
            quoted = not quoted
        elif text[at] == "," and not quoted:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    return [part.strip() for part in (*parts, text[start:])]


def _select(text: str, mutates: bool) -> tuple[str, ...]:
    items = _split(text)
    if items in ([""], ["*"]):
        return ()
    return tuple(dict.fromkeys(_selected(item, mutates) for item in items))


def _selected(item: str, mutates: bool) -> str:
    if item.startswith('"'):
        return column_name(item, mutates=mutates)
    if "(" in item or item.startswith("..."):
        raise RequestError(unsupported(f'the embedding or aggregate "{item}"', mutates=mutates))
    if "::" in item:
        raise RequestError(unsupported(f'the cast "{item}"', mutates=mutates))
    if ":" in item:
        raise RequestError(unsupported(f'the alias "{item}"', mutates=mutates))
    if item == "*":
        raise RequestError(unreadable("select", "* stands for all columns and must stand alone"))
    return column_name(item, mutates=mutates)


def _columns(text: str, mutates: bool) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column_name(item, mutates=mutates) for item in _split(text)))


def _order(text: str, mutates: bool) -> tuple[Order, ...]:
    return tuple(_order_term(item, mutates) for item in _split(text)) if text else ()


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
    return Order(column_name(rest, mutates=mutates), descending, nulls_first)


def _count(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if _NUMBER.fullmatch(text):
        return int(text)
    if _NEGATIVE.fullmatch(text):
        details = f"{name} is {text}; it must not be negative"
        raise RequestError(bad_range("Requested range not satisfiable", details))
    raise RequestError(unreadable(f"{name}={text}", "expected digits only"))
