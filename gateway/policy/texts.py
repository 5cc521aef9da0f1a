"""The texts of a policy's files as they were at one moment, for several readers of one policy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gateway.policy.complaint import Mistake, Place, PolicyError
from gateway.policy.source import read_file


class Texts:
    """What each file held, or why it could not be read. As written: secrets are not filled in."""

    def __init__(self, found: Mapping[str, str | Mistake]) -> None:
        self._found = dict(found)

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Texts:
        """Read the files now."""
        found: dict[str, str | Mistake] = {}
        for path in paths:
            try:
                found[str(path)] = read_file(path)
            except PolicyError as error:
                found[str(path)] = error.mistakes[0]
        return cls(found)

    def read(self, path: Path) -> str:
        """What `read_file` gave at that moment. Raises `PolicyError` as it did."""
        found = self._found[str(path)]
        if isinstance(found, Mistake):
            raise PolicyError([found])
        return found

    def values(self) -> dict[str, Any]:
        """As JSON values."""
        return {name: _value(found) for name, found in self._found.items()}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Texts:
        """The inverse of `values`."""
        return cls({name: _found(value) for name, value in values.items()})


def line_of(number: int, texts: Texts) -> bytes:
    """One line that hands texts to another process, under a number."""
    return json.dumps([number, texts.values()]).encode() + b"\n"


def from_line(line: bytes) -> tuple[int, Texts]:
    """The inverse of `line_of`."""
    number, values = json.loads(line)
    return int(number), Texts.from_values(values)


def _value(found: str | Mistake) -> object:
    if isinstance(found, str):
        return found
    return [found.place.file, found.place.line, found.key, found.message, found.hint]


def _found(value: Any) -> str | Mistake:
    if isinstance(value, str):
        return value
    file, line, key, message, hint = value
    return Mistake(Place(file, line), key, message, hint)
