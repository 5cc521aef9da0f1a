"""The file name of a URL path segment: percent-decoded, as a person expects to see it.

Two spellings of one path name one file, and have one canonical form, so one scope (decisions,
"Canonical resources"); two paths that are not spellings of each other never share a file.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from gateway.model.problem import Code, Problem
from gateway.stores.files.faults import Refusal

RESERVED_PREFIX: Final = b".fencegate"
_MAX_NAME_BYTES: Final = 255
_SEGMENT: Final = re.compile(r"(?:[!-$&-~]|%[0-9A-Fa-f]{2})+")
"""Visible ASCII, and a percent sign only as part of an escape."""


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
    if not segment:
        raise _refused("an empty name", "paths here have no `//` and no `/` at the end")
    if not _SEGMENT.fullmatch(segment):
        raise _refused(f"{segment!r}", "escape blanks and all but visible ASCII as %XX, `%` as %25")
    name = unquote_to_bytes(segment)
    if name in (b".", b".."):
        raise _refused(f"{segment!r}", "`.` and `..` are not names of files")
    if b"/" in name or b"\0" in name:
        raise _refused(f"{segment!r}", "the name of a file has no slash and no NUL in it")
    if len(name) > _MAX_NAME_BYTES:
        raise _refused(f"{segment[:40]!r}…", f"a name has at most {_MAX_NAME_BYTES} bytes")
    if name.startswith(RESERVED_PREFIX):
        raise _refused(f"{segment!r}", "names that begin with `.fencegate` are the gateway's own")
    return name


def _refused(what: str, why: str) -> Refusal:
    return Refusal(
        Problem(Code.CONFLICT, f"this store keeps plain files and cannot hold {what}: {why}")
    )
