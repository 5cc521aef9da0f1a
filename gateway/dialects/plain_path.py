"""Paths of the http dialect: what is refused in them, and the one canonical name they have.

Decisions, "Canonical resources": the bytes stay as they came, the name is compared. Origins may
decode a path once or not at all, remove dot segments or keep them, take `\\` for `/`: a path that
these would understand differently is refused. What is left has one normal form, in which an escape
and the character that it stands for (`%2B`, `+`) are the same thing.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from gateway.model.problem import Code, Problem
from gateway.policy.pattern import normal_path

_UNRESERVED_ESCAPE: Final = re.compile(
    rb"%(?:2[DdEe]|3[0-9]|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9AaEe])"
)
# A path without any of these needs no closer look.
_SUSPICIOUS: Final = re.compile(rb"[%\\]|//|/\.")


class PlainPath(NamedTuple):
    """A path below the mount, without its leading slash: as it came, and its canonical name."""

    raw: str
    canonical: str


def plain_path(below_mount: bytes) -> PlainPath | Problem:
    """Read a raw path below the mount: empty, or starting with `/`. It is visible ASCII."""
    if _SUSPICIOUS.search(below_mount):
        problem = _ambiguity(below_mount)
        if problem is not None:
            return problem
    raw = below_mount.removeprefix(b"/").decode("ascii")
    return PlainPath(raw, normal_path(raw))


def is_directory(path: PlainPath) -> bool:
    """True for the mount itself and for a path that ends in a slash, escaped or not."""
    return not path.raw or path.raw.endswith("/") or path.canonical.endswith("%2F")


def _ambiguity(path: bytes) -> Problem | None:
    escape = _UNRESERVED_ESCAPE.search(path)
    if escape is not None:
        shown, plain = escape[0].decode("ascii"), unquote_to_bytes(escape[0]).decode("ascii")
        return _refused(f'write "{plain}" instead of {shown}: it needs no escape')
    decoded = unquote_to_bytes(path)
    if b"\\" in decoded:
        return _refused('a path must not hold a backslash, nor its escape "%5C"')
    if b"//" in decoded:
        return _refused('a path must not hold an empty segment ("//"), escaped or not')
    if b"\0" in decoded:
        return _refused("a path must not hold a NUL byte (%00)")
    if any(segment in (b".", b"..") for segment in decoded.split(b"/")):
        return _refused('a path must not hold "." or ".." as a segment, escaped or not')
    return None


def _refused(message: str) -> Problem:
    return Problem(Code.REQUEST_MALFORMED, message)
