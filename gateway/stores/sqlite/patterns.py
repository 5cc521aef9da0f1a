"""PostgreSQL's notations of patterns, arrays and paths, as values that SQLite understands."""

from __future__ import annotations

from gateway.dialects.rows.problems import RequestError, from_sqlstate, unsupported
from gateway.model.row_action import Path


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
