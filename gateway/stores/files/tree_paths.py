"""The file name of a URL path segment, one to one: two spellings never name one file.

Escapes of bytes that have no other spelling are decoded, so that a person reads `a b` and `über`.
Escapes of bytes that may also stand bare (RFC 3986, reserved) are kept: `a%21` is not `a!`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from gateway.model.problem import Code, Problem
from gateway.stores.files.faults import Refusal

RESERVED_PREFIX: Final = b".fencegate"
_MAX_NAME_BYTES: Final = 255
_BARE: Final = rb"A-Za-z0-9\-._~!$&'()*+,;=:@"
_SEGMENT: Final = re.compile(rb"(?:[" + _BARE + rb"]|%[0-9A-Fa-f]{2})+")
_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})(?=([0-9A-Fa-f]{2})?)")
_UNRESERVED: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
)
_KEPT: Final = frozenset(b"!$&'()*+,;=:@/") | frozenset(range(32)) | {127}


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object lies: the names of its directories and its file; `digest` names it flatly."""

    names: tuple[bytes, ...]
    digest: str

    @property
    def text(self) -> str:
        """The path below the root, for people."""
        return b"/".join(self.names).decode("utf-8", "backslashreplace")


def place_of(key: str) -> Place:
    """The place of a raw URL path below the mount, without a slash in front.

    Raises `Refusal` (409 conflict) for what a file system cannot hold, with the reason.
    """
    names = tuple(_name(segment) for segment in key.split("/"))
    return Place(names, hashlib.sha256(b"/".join(names)).hexdigest())


def _name(segment: str) -> bytes:
    raw = segment.encode("utf-8", "surrogateescape")
    if not raw:
        raise _refused("an empty name", "paths here have no `//` and no `/` at the end")
    if not _SEGMENT.fullmatch(raw):
        raise _refused(
            f"{segment!r}", "percent-escape all but letters, digits and -._~!$&'()*+,;=:@"
        )
    if raw in (b".", b".."):
        raise _refused(f"{segment!r}", "`.` and `..` are not names of files")
    name = _ESCAPE.sub(_decoded, raw)
    if len(name) > _MAX_NAME_BYTES:
        raise _refused(f"{segment[:40]!r}…", f"a name has at most {_MAX_NAME_BYTES} bytes")
    if name.startswith(RESERVED_PREFIX):
        raise _refused(f"{segment!r}", "names that begin with `.fencegate` are the gateway's own")
    return name


def _decoded(match: re.Match[bytes]) -> bytes:
    byte = int(match[1], 16)
    if byte in _UNRESERVED:
        raise _refused(f"`{match[0].decode()}`", f"write `{chr(byte)}`, which needs no escape")
    # A percent sign before two hex digits would read like one of the escapes that are kept.
    if byte in _KEPT or (byte == ord("%") and match[2] is not None):
        return match[0].upper()
    return bytes((byte,))


def _refused(what: str, why: str) -> Refusal:
    return Refusal(
        Problem(Code.CONFLICT, f"this store keeps plain files and cannot hold {what}: {why}")
    )
