"""The condition fields of a request, If-Match and If-None-Match (RFC 9110 section 13.1).

The grammar is strict: a condition that is half understood would let a write pass that its sender
wanted to be refused.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.problem import Code, Problem
from gateway.ports.dialect import RawFields

# RFC 9110 section 8.8.3: etagc = %x21 / %x23-7E / obs-text. Lists may have empty elements (5.6.1).
_TAG: Final = r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"'
_LIST: Final = re.compile(rf"[ \t,]*{_TAG}(?:[ \t]*,(?:[ \t]*{_TAG})?)*[ \t]*")
_EACH: Final = re.compile(_TAG)


def entity_tags(values: list[bytes]) -> tuple[str, ...] | None:
    """Read all lines of one condition field: the tags as sent, or `("*",)`.

    Raises ValueError when they are not of the grammar. None without a line.
    """
    if not values:
        return None
    text = ",".join(value.decode("latin-1") for value in values)
    if text.strip(" \t") == "*":
        return ("*",)
    if not _LIST.fullmatch(text):
        raise ValueError("expected * or a list of entity tags in double quotes")
    return tuple(_EACH.findall(text))


def parse_conditions(fields: RawFields) -> Conditions | Problem:
    """Read If-Match and If-None-Match of a request."""
    found: dict[str, tuple[str, ...] | None] = {}
    for name in ("if-match", "if-none-match"):
        values = [value for key, value in fields if key == name.encode()]
        try:
            found[name] = entity_tags(values)
        except ValueError as error:
            return Problem(Code.REQUEST_MALFORMED, f"{name} cannot be understood: {error}")
    if not any(tags is not None for tags in found.values()):
        return NO_CONDITIONS
    return Conditions(if_match=found["if-match"], if_none_match=found["if-none-match"])
