"""The fields If-Match and If-None-Match (RFC 9110, sections 8.8.3, 13.1.1 and 13.1.2)."""

from __future__ import annotations

import re
from typing import Final

from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.problem import Code, Problem

_TAG: Final = rb'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*+"'
_LIST: Final = re.compile(rb"[ \t,]*+(?:" + _TAG + rb"(?:[ \t]*+,[ \t,]*+|[ \t]*+$))*+")
_ONE: Final = re.compile(_TAG)


def conditions(if_match: list[bytes], if_none_match: list[bytes]) -> Conditions | Problem:
    """Read all fields of both names, several lines of one name being one list.

    If-Match compares strongly, so a weak tag stays in the list as it came and never equals a
    store's strong one. If-None-Match compares weakly, so its tags lose their `W/`.
    """
    if not if_match and not if_none_match:
        return NO_CONDITIONS
    match = _tags("If-Match", if_match)
    if isinstance(match, Problem):
        return match
    none_match = _tags("If-None-Match", if_none_match)
    if isinstance(none_match, Problem):
        return none_match
    if none_match is not None:
        none_match = tuple(tag.removeprefix("W/") for tag in none_match)
    return Conditions(match, none_match)


def _tags(name: str, fields: list[bytes]) -> tuple[str, ...] | Problem | None:
    if not fields:
        return None
    text = b",".join(fields)
    if text == b"*":
        return ("*",)
    tags = tuple(tag.decode("latin-1") for tag in _ONE.findall(text))
    if not tags or not _LIST.fullmatch(text):
        return Problem(
            Code.REQUEST_MALFORMED,
            f'{name} must be * or a list of entity tags in quotes, such as "abc"',
        )
    return tags
