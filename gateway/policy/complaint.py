"""What is wrong in a policy, so told that an operator can find and mend it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from gateway.policy.kinds import SECRET_KEYS
from gateway.policy.lines import Path

_MOST_SHOWN_CHARS: Final = 60
_MOST_LISTED: Final = 24
_USER_INFO: Final = re.compile(r"//[^/@\s]*@")


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written; `line` counts from 1, None where there are no lines."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        """Write it as compilers do: `file:line`."""
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake: where, which key, what is expected there, and perhaps what was meant."""

    place: Place
    key: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        """Write it in one line, whatever a key or a value holds."""
        key = f"{self.key}: " if self.key else ""
        hint = f" ({self.hint})" if self.hint else ""
        text = f"{self.place}: {key}{self.message}{hint}"
        return text if text.isprintable() else _printable(text)


def _printable(text: str) -> str:
    """Escape what would break the line, or move a terminal's cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class PolicyError(Exception):
    """A policy that cannot be used. `mistakes` has every mistake that was found, in file order."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(sorted(mistakes, key=lambda m: (m.place.file, m.place.line or 0)))
        super().__init__("\n".join(map(str, self.mistakes)))


class Complaints:
    """Collects the mistakes of one policy."""

    def __init__(self, places: Mapping[Path, Place], fallback: Place) -> None:
        self._places = places
        self._fallback = fallback
        self._seen: set[Path] = set()
        self.mistakes: list[Mistake] = []

    def add(self, path: Path, message: str, hint: str | None = None) -> None:
        """Note a mistake at a path of the document; the first one there is the telling one."""
        if path in self._seen:
            return
        self._seen.add(path)
        self.mistakes.append(Mistake(self.place(path), dotted(path), message, hint))

    def place(self, path: Path) -> Place:
        """Find where a path, or the nearest table around it, was written."""
        while path and path not in self._places:
            path = path[:-1]
        return self._places.get(path, self._fallback)


def dotted(path: Path) -> str:
    """Write a path as TOML writes keys, with the index of an array element in brackets."""
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}"
    return text.removeprefix(".")


def closest(wrong: str, names: Iterable[str]) -> str | None:
    """Guess which of the valid names was meant, as a hint; None when none is close."""
    close = get_close_matches(wrong, sorted(names), n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else None


def nearest(wrong: str, names: Iterable[str]) -> str | None:
    """Guess which of the valid names was meant, as a hint; without a guess, list them."""
    known = sorted(names)
    guess = closest(wrong, known)
    if guess is None and 0 < len(known) <= _MOST_LISTED:
        return f"known: {', '.join(known)}"
    return guess


def shown(path: Path, value: object) -> str:
    """Quote a wrong value for a message; secrets are not repeated."""
    if SECRET_KEYS & {key for key in path if isinstance(key, str)}:
        return "a value that is not shown"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    text = _USER_INFO.sub("//***@", text)
    if len(text) > _MOST_SHOWN_CHARS:
        text = text[:_MOST_SHOWN_CHARS] + "…"
    return text
