"""The line of every key in a TOML text, which the parser does not tell.

Works on text that `tomllib` has accepted, so it only has to find its way and may trust the syntax
(TOML 1.0: keys, strings, arrays, inline tables, headers).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Final

Path = tuple[str | int, ...]

_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_STRINGS: Final = (
    re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}', re.DOTALL),
    re.compile(r"'''(?:[^']|'(?!''))*'{3,5}", re.DOTALL),
    re.compile(r'"(?:[^"\\]|\\.)*"'),
    re.compile(r"'[^']*'"),
)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE: Final = re.compile(r"[^,\]}#\r\n]+")


def key_lines(text: str) -> Mapping[Path, int]:
    """Give the line, from 1, where each table, key and array element of a TOML text begins."""
    return _Scan(text).run()


class _Scan:
    """One walk over a text; `at` is where it stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self._counts: dict[Path, int] = {}
        self._line = 1
        self._counted_to = 0

    def run(self) -> dict[Path, int]:
        table: Path = ()
        self._skip(_BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK)
        return self.lines

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise ValueError(f"not the TOML that was parsed, at offset {self.at}")
        self.at = found.end()
        return found.group()

    def _note(self, path: Path) -> None:
        """Remember where a path was first named."""
        self._line += self.text.count("\n", self._counted_to, self.at)
        self._counted_to = self.at
        self.lines.setdefault(path, self._line)

    def _inside(self, path: Path, key: str) -> Path:
        """Step into a key; an array of tables means its last element."""
        path = (*path, key)
        self._note(path)
        count = self._counts.get(path)
        return path if count is None else (*path, count - 1)

    def _header(self) -> Path:
        array = self.text.startswith("[[", self.at)
        self.at += 2 if array else 1
        *parents, last = self._keys()
        path: Path = ()
        for key in parents:
            path = self._inside(path, key)
        if array:
            whole = (*path, last)
            self._counts[whole] = self._counts.get(whole, 0) + 1
        path = self._inside(path, last)
        self._note(path)
        self.at += 2 if array else 1
        return path

    def _keys(self) -> list[str]:
        """Read a dotted key, and stop behind it."""
        keys = []
        while True:
            self._skip(_SPACE)
            keys.append(self._key())
            self._skip(_SPACE)
            if self.text[self.at] != ".":
                return keys
            self.at += 1

    def _key(self) -> str:
        if self.text[self.at] in "\"'":
            quoted = self._string()
            return str(tomllib.loads(f"k = {quoted}")["k"])
        return self._skip(_BARE_KEY)

    def _pair(self, table: Path) -> None:
        path = table
        for key in self._keys():
            path = self._inside(path, key)
        self.at += 1  # the equals sign
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: Path) -> None:
        first = self.text[self.at]
        if first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        elif first in "\"'":
            self._string()
        else:
            self._skip(_BARE_VALUE)

    def _string(self) -> str:
        for pattern in _STRINGS:
            found = pattern.match(self.text, self.at)
            if found is not None:
                self.at = found.end()
                return found.group()
        raise ValueError(f"not the TOML that was parsed, at offset {self.at}")

    def _array(self, path: Path) -> None:
        self.at += 1
        self._skip(_BLANK)
        index = 0
        while self.text[self.at] != "]":
            self._note((*path, index))
            self._value((*path, index))
            index += 1
            self._comma()
        self.at += 1

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        self._skip(_BLANK)
        while self.text[self.at] != "}":
            self._pair(path)
            self._comma()
        self.at += 1

    def _comma(self) -> None:
        self._skip(_BLANK)
        if self.text[self.at] == ",":
            self.at += 1
            self._skip(_BLANK)
