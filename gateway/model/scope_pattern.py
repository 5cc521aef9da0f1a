"""Which scopes a key covers: a text with captures, matched against the name of a scope.

`{x}` is one or more characters without a slash, `{x*}` at the end is everything that follows. The
rest of the pattern is compared as it stands: scopes have one spelling each, so there is nothing to
decode. Two captures may not touch, which keeps matching linear for each of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_CAPTURE: Final = re.compile(r"\{([a-z_][a-z0-9_]*)(\*?)\}")
_MAX_CHARS: Final = 512
_MAX_CAPTURES: Final = 8


@dataclass(frozen=True, slots=True)
class ScopePattern:
    """A pattern as it was written, and ready to match. Made by `scope_pattern`."""

    text: str
    _whole: re.Pattern[str] = field(repr=False, compare=False)

    def matches(self, scope: str) -> bool:
        """True when the key covers this scope."""
        return self._whole.fullmatch(scope) is not None


def scope_pattern(text: str) -> ScopePattern:
    """Read a pattern. Raises ValueError with what to write instead."""
    if not 0 < len(text) <= _MAX_CHARS:
        raise ValueError(f"expected 1 to {_MAX_CHARS} characters")
    found = list(_CAPTURE.finditer(text))
    if len(found) > _MAX_CAPTURES:
        raise ValueError(f'"{text}": expected at most {_MAX_CAPTURES} captures')
    expression, end = "", 0
    for capture in found:
        literal = text[end : capture.start()]
        if end and not literal:
            raise ValueError(f'"{text}": put a character between two captures')
        expression += re.escape(_literal(literal, text))
        if capture[2] and capture.end() != len(text):
            raise ValueError(f'"{text}": {{x*}} takes all that follows, so it must be the end')
        expression += ".*" if capture[2] else "[^/]+"
        end = capture.end()
    expression += re.escape(_literal(text[end:], text))
    return ScopePattern(text, re.compile(expression, re.DOTALL))


def _literal(part: str, text: str) -> str:
    if any(character in part for character in "{}*"):
        raise ValueError(f'"{text}": write {{name}} for one segment, {{name*}} for the rest')
    return part
