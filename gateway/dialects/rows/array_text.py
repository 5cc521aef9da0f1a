"""PostgreSQL's array literals, for engines that have no arrays (its manual, 8.15.2)."""

from __future__ import annotations

import json
import re
from typing import Final

from gateway.dialects.rows.problems import RequestError, from_sqlstate

_ELEMENT: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^,{}"]*))\s*', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


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
