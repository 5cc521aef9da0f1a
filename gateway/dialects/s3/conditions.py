"""The conditional fields of a request, as S3 understands them.

Source: S3 user guide, "Conditional requests": writes take one ETag or `*`, quoted or bare; what
S3 itself does not implement is 501 here too, never ignored.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.dialects.s3.bodies import one_value
from gateway.dialects.s3.refused import RefusedError, refused
from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.ports.dialect import RawRequest

_TAG: Final = re.compile(r'(?:W/)?"[^"]*"|[^\s,"]+')


def write_conditions(request: RawRequest) -> Conditions:
    """Read the conditions of PUT and DELETE. Raises `RefusedError`.

    A list or a weak tag stays one text, which equals no ETag: S3 compares the whole value.
    """
    for name in (b"if-modified-since", b"if-unmodified-since"):
        if request.values(name):
            raise _unsupported(request, name.decode())
    match = one_value(request, b"if-match")
    none_match = one_value(request, b"if-none-match")
    if none_match is not None and (none_match != b"*" or request.method != "PUT"):
        raise _unsupported(request, "if-none-match other than * on PUT")
    if match is not None and none_match is not None:
        raise _unsupported(request, "if-match together with if-none-match")
    if match is not None:
        return Conditions(if_match=(_quoted(match.decode("latin-1")),))
    return Conditions(if_none_match=("*",)) if none_match is not None else NO_CONDITIONS


def read_conditions(request: RawRequest) -> Conditions:
    """Read the entity-tag conditions of GET and HEAD, lists included. Raises `RefusedError`.

    If-None-Match compares weakly (RFC 9110 section 13.1.2), so its tags lose their `W/`.
    """
    match = one_value(request, b"if-match")
    none_match = one_value(request, b"if-none-match")
    if match is None and none_match is None:
        return NO_CONDITIONS
    unlike = _tags(none_match)
    if unlike is not None:
        unlike = tuple(tag.removeprefix("W/") for tag in unlike)
    return Conditions(if_match=_tags(match), if_none_match=unlike)


def _unsupported(request: RawRequest, what: str) -> RefusedError:
    return refused("NotImplemented", f"S3 has no {what} for {request.method}; leave it out")


def _quoted(tag: str) -> str:
    return tag if tag == "*" or tag.startswith(('"', "W/")) else f'"{tag}"'


def _tags(text: bytes | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(_quoted(tag) for tag in _TAG.findall(text.decode("latin-1")))
