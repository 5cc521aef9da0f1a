"""Names of columns in the query string, and the ways from a column into its document.

Source: PostgREST reference, "JSON Columns" and its list of reserved characters.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.dialects.rows.problems import RequestError, unreadable, unsupported
from gateway.model.row_action import Path, Step

QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ARROW: Final = re.compile(r"->>?")
_INDEX: Final = re.compile(r"-?[0-9]{1,9}")
_KEY: Final = re.compile(r'(?:(?!->)[^".,():])+')
_MOST_STEPS: Final = 32


def unquoted(inner: str) -> str:
    r"""The text that stands between double quotes: `\"` and `\\` are the characters themselves."""
    return _ESCAPE.sub(r"\1", inner)


def column_name(text: str, *, mutates: bool) -> str:
    """Read the name of a column, and nothing but that. Raises RequestError."""
    column, path = field_of(text, mutates=mutates)
    if path:
        raise RequestError(unsupported(f'the JSON path "{text}" here', mutates=mutates))
    return column


def field_of(text: str, *, mutates: bool) -> tuple[str, Path]:
    """Read a column, bare or in double quotes, and the path into it. Raises RequestError."""
    if match := QUOTED.match(text):
        return unquoted(match[1]), _path(text, match.end())
    column = text.partition("->")[0]
    if "." in column or "(" in column:
        raise RequestError(unsupported(f'the embedded resource "{text}"', mutates=mutates))
    if not column or '"' in column:
        raise RequestError(unreadable(text, "a column name is missing or its quotes do not match"))
    return column, _path(text, len(column))


def _path(text: str, at: int) -> Path:
    steps: list[Step] = []
    while at < len(text):
        arrow = _ARROW.match(text, at)
        if arrow is None:
            raise RequestError(unreadable(text, "expected -> or ->> after the name of a column"))
        if steps and steps[-1].as_text:
            raise RequestError(unreadable(text, "->> gives a text, so nothing can follow it"))
        key, at = _key(text, arrow.end())
        steps.append(Step(key, as_text=arrow[0] == "->>"))
    if len(steps) > _MOST_STEPS:
        raise RequestError(unreadable(text, f"a path has at most {_MOST_STEPS} steps"))
    return tuple(steps)


def _key(text: str, at: int) -> tuple[str | int, int]:
    if match := QUOTED.match(text, at):
        return unquoted(match[1]), match.end()
    bare = _KEY.match(text, at)
    if bare is None:
        raise RequestError(unreadable(text, "a key or an index must follow -> and ->>"))
    return (int(bare[0]) if _INDEX.fullmatch(bare[0]) else bare[0]), bare.end()
