"""Versions as entity tags: what a row's ETag is, and what conditions say about it.

Source: RFC 9110 sections 8.8.3 and 13.1; tags are strong, since the gateway raises the version
with every change of the row.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.dialects.rows.problems import precondition_failed
from gateway.model.conditions import Conditions
from gateway.model.problem import Problem
from gateway.model.reply import NotModified

ANY: Final = ("*",)
"""The value of a condition field that was sent as `*`."""

_TAG: Final = re.compile(r'"(0|-?[1-9][0-9]{0,18})"')


def etag_of(version: int) -> str:
    """Write a version as an entity tag, quotes included."""
    return f'"{version}"'


def version_of(tag: str) -> int | None:
    """Read one tag of If-Match. None: no row can have it (weak tags never match, section 8.8.3)."""
    match = _TAG.fullmatch(tag)
    return int(match[1]) if match else None


def versions_of(tags: tuple[str, ...]) -> tuple[int, ...]:
    """Read all tags of a condition that can match at all; `*` is the caller's to handle."""
    found = (version_of(tag) for tag in tags)
    return tuple(version for version in found if version is not None)


def weak_versions_of(tags: tuple[str, ...]) -> tuple[int, ...]:
    """Read the tags of If-None-Match, which are compared weakly (section 13.1.2)."""
    return versions_of(tuple(tag.removeprefix("W/") for tag in tags))


def judge_read(conditions: Conditions, version: int | None) -> NotModified | Problem | None:
    """Evaluate the conditions of a read of one row; `version` None: there is no row.

    Returns None when the row is to be sent, in the order of RFC 9110 section 13.2.2.
    """
    wanted = conditions.if_match
    if wanted is not None:
        if version is None:
            return precondition_failed("there is no such row")
        if wanted != ANY and version not in versions_of(wanted):
            return precondition_failed("the row has another version")
    known = conditions.if_none_match
    if known is None or version is None:
        return None
    if known == ANY or version in weak_versions_of(known):
        return NotModified(etag_of(version))
    return None
