"""The grammar of `select`: columns, JSON paths, aliases and casts.

Source: PostgREST reference, "Vertical Filtering", "Renaming Columns", "Casting Columns". Embedded
resources and aggregates are refused by their name.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from gateway.dialects.rows.names import QUOTED, field_of, unquoted
from gateway.dialects.rows.problems import RequestError, unreadable, unsupported
from gateway.model.catalogue import Table
from gateway.model.row_action import Selected, Selection

CASTS: Final = MappingProxyType(
    {
        **{name: name for name in ("text", "json", "jsonb", "uuid", "bytea", "date", "money")},
        **{name: name for name in ("inet", "cidr", "interval", "real", "numeric", "time")},
        **{name: name for name in ("timetz", "timestamp", "timestamptz", "smallint", "integer")},
        **{name: name for name in ("bigint", "boolean", "double precision", "character varying")},
        "varchar": "character varying",
        "int": "integer",
        "int2": "smallint",
        "int4": "integer",
        "int8": "bigint",
        "float4": "real",
        "float8": "double precision",
        "bool": "boolean",
        "decimal": "numeric",
    }
)
"""The types that a worker may cast to, with the name that SQL has for each."""

_ALIAS: Final = re.compile(r'([^":().,>]+):(?!:)')
_QUOTED_ALIAS: Final = re.compile(r'"((?:[^"\\]|\\.)*)":(?!:)', re.DOTALL)
MOST_COMPUTED: Final = 50
"""Items that are not plain columns; each is two arguments of a function that takes 100."""


def split(text: str) -> list[str]:
    """Split at commas that stand outside double quotes and parentheses."""
    parts, start, depth, at = [], 0, 0, 0
    while at < len(text):
        if quoted := QUOTED.match(text, at):
            at = quoted.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if text[at] == "," and depth <= 0:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    return [part.strip() for part in (*parts, text[start:])]


def parse_select(text: str, *, mutates: bool) -> Selection:
    """Read the value of `select`; `*` stands for all columns. Raises RequestError."""
    items = split(text)
    if items in ([""], ["*"]):
        return ()
    return tuple(dict.fromkeys(_selected(item, mutates) for item in items))


def spelt_out(selection: Selection, table: Table) -> Selection:
    """Put the columns in the place of a `*` that stands beside others. Raises RequestError."""
    columns = tuple(Selected(column.name) for column in table.columns)
    found = [
        item
        for one in selection
        for item in (columns if one == Selected("*") and table.column("*") is None else (one,))
    ]
    if sum(not item.plain for item in found) and len(found) > MOST_COMPUTED:
        why = f"with an alias, a cast or a path in it, it has at most {MOST_COMPUTED} items"
        raise RequestError(unreadable("select", why))
    return tuple(dict.fromkeys(found))


def _selected(item: str, mutates: bool) -> Selected:
    if item.startswith("..."):
        raise RequestError(unsupported(f'the embedding "{item}"', mutates=mutates))
    alias, rest = None, item
    if match := _QUOTED_ALIAS.match(item):
        alias, rest = unquoted(match[1]), item[match.end() :]
    elif match := _ALIAS.match(item):
        alias, rest = match[1], item[match.end() :]
    rest, colons, cast = _before_cast(rest)
    if "(" in QUOTED.sub("", rest):
        raise RequestError(unsupported(f'the embedding or aggregate "{item}"', mutates=mutates))
    if colons and cast not in CASTS:
        known = ", ".join(sorted(CASTS))
        raise RequestError(unreadable(item, f'no cast to "{cast}"; there are those to {known}'))
    if rest == "*" and (alias or colons):
        raise RequestError(unreadable(item, "* stands for all columns, as they are"))
    column, path = field_of(rest, mutates=mutates)
    return Selected(column, path, CASTS[cast] if colons else None, alias)


def _before_cast(text: str) -> tuple[str, str, str]:
    """Part at the last `::` outside of quotes."""
    start, at = 0, -1
    while start < len(text):
        if quoted := QUOTED.match(text, start):
            start = quoted.end()
            continue
        if text.startswith("::", start):
            at = start
        start += 1
    return (text, "", "") if at < 0 else (text[:at], "::", text[at + 2 :].lower())
