"""PostgreSQL's notations of patterns, arrays and paths, as values that SQLite understands."""

from __future__ import annotations

import json
import re
from typing import Final

from gateway.dialects.rows.problems import RequestError, from_sqlstate, unsupported
from gateway.model.row_action import Path

_ELEMENT: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^,{}"]*))\s*', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def json_way(path: Path) -> str:
    """A path as SQLite writes it (SQLite, "JSON Functions", 3.3). Raises RequestError."""
    return "$" + "".join(_step(step.key) for step in path)


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[#{key}]" if key < 0 else f"[{key}]"
    if '"' in key or "\\" in key:
        raise RequestError(unsupported(f"the key {key!r} of a path", mutates=True))
    return f'."{key}"'


def glob_of(pattern: str) -> str:
    r"""A LIKE pattern as one of GLOB, which tells large letters from small as PostgreSQL does.

    `\` takes the special meaning from what follows it. Raises RequestError where nothing does.
    """
    found, at = "", 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 1
            found += _literal(pattern[at : at + 1])
        else:
            found += {"%": "*", "_": "?"}.get(character) or _literal(character)
        at += 1
    return found


def like_of(pattern: str) -> str:
    """A pattern for `LIKE … ESCAPE`, which takes no pattern that ends with the escape."""
    glob_of(pattern)
    return pattern


def _literal(character: str) -> str:
    if not character:
        message = "LIKE pattern must not end with escape character"
        raise RequestError(from_sqlstate("22025", message))
    return f"[{character}]" if character in "*?[" else character


def array_elements(text: str) -> tuple[str, ...]:
    """Read a PostgreSQL array literal of one dimension (its manual, 8.15.2). Raises RequestError.

    An element NULL is refused: nothing compares with it.
    """
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise _malformed(text)
    inner = inner[1:-1]
    found: list[str] = []
    at = 0
    while inner.strip():
        match = _ELEMENT.match(inner, at)
        assert match is not None  # the second branch matches the empty text too
        bare = match[2]
        if bare is not None and bare.strip().upper() in ("", "NULL"):
            raise _malformed(text)
        found.append(_ESCAPE.sub(r"\1", match[1]) if bare is None else bare.strip())
        at = match.end()
        if at == len(inner):
            break
        if inner[at] != ",":
            raise _malformed(text)
        at += 1
    return tuple(found)


def _malformed(text: str) -> RequestError:
    shown = json.dumps(text, ensure_ascii=False)
    return RequestError(from_sqlstate("22P02", f"malformed array literal: {shown}"))
