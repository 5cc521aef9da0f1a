"""The text of a policy: files and overrides, merged, with the place of every key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final

from gateway.policy.complaint import (
    Complaints,
    Mistake,
    Place,
    PolicyError,
    closest,
    dotted,
    nearest,
)
from gateway.policy.lines import Path, key_lines

_AT_LINE: Final = re.compile(r" \(at line (\d+), column \d+\)$")
_VARIABLE: Final = re.compile(r"\$\$|\$\{([^}]*)\}|\$\{")
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CONTROL_OF_LINES: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_OF_LINES: Final = frozenset({"init"})
_MOST_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Source:
    """The merged document as plain values, and where each of them stands."""

    data: dict[str, Any] = field(default_factory=dict)
    places: dict[Path, Place] = field(default_factory=dict)


def read_file(path: FilePath) -> str:
    """Read a policy file. Raises `PolicyError` when it cannot be read as text."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise _unreadable(path, "no such file", _neighbour(path)) from None
    except IsADirectoryError:
        raise _unreadable(path, "is a directory, expected a TOML file", None) from None
    except OSError as error:
        raise _unreadable(path, f"cannot be read: {error.strerror}", None) from None
    if len(raw) > _MOST_BYTES:
        raise _unreadable(path, "is larger than 1 MiB, so it is hardly a policy", None)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = "is not UTF-8 text, which TOML demands"
        raise PolicyError([Mistake(Place(str(path), line), "", message)]) from None


def _unreadable(path: FilePath, message: str, hint: str | None) -> PolicyError:
    return PolicyError([Mistake(Place(str(path)), "", message, hint)])


def _neighbour(path: FilePath) -> str | None:
    """Guess which file was meant: one of the TOML files beside the path."""
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.suffix == ".toml"]
    except OSError:
        return f"nor is there a directory {path.parent}"
    return nearest(path.name, names)


def parse(text: str, file: str) -> Source:
    """Parse TOML. Raises `PolicyError` with the line of a syntax error."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        line = int(found[1]) if found else None
        message = _AT_LINE.sub("", str(error))
        if line is None:
            line = text.count("\n") + 1
        hint = 'text stands in quotes: key = "value"' if message == "Invalid value" else None
        raise PolicyError([Mistake(Place(file, line), "", message, hint)]) from None
    places = {path: Place(file, line) for path, line in key_lines(text).items()}
    return Source(data, places)


def merge(into: Source, other: Source) -> None:
    """Add another file: tables are united, rules and keys appended. Raises `PolicyError`."""
    mistakes: list[Mistake] = []
    _merge_table(into, other, (), mistakes)
    if mistakes:
        raise PolicyError(mistakes)


def _merge_table(into: Source, other: Source, path: Path, mistakes: list[Mistake]) -> None:
    mine, theirs = _at(into.data, path), _at(other.data, path)
    for key, value in theirs.items():
        here = (*path, key)
        if key not in mine:
            mine[key] = value
            _take_places(into, other, here, here)
        elif isinstance(value, dict) and isinstance(mine[key], dict):
            _merge_table(into, other, here, mistakes)
        elif _tables(value) and _tables(mine[key]):
            for index, element in enumerate(value):
                _take_places(into, other, (*here, index), (*here, len(mine[key])))
                mine[key].append(element)
        else:
            message = f"is set already at {into.places[here]}; set it in one file"
            mistakes.append(Mistake(other.places[here], dotted(here), message))


def _tables(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(element, dict) for element in value)


def _at(data: Any, path: Path) -> dict[str, Any]:
    for key in path:
        data = data[key]
    table: dict[str, Any] = data
    return table


def _take_places(into: Source, other: Source, old: Path, new: Path) -> None:
    for path, place in other.places.items():
        if path[: len(old)] == old:
            into.places[new + path[len(old) :]] = place


def override(source: Source, assignment: str) -> None:
    """Set one key from `section.key=value`; what is no TOML value is text.

    Raises `PolicyError`.
    """
    dotted_key, equals, text = assignment.partition("=")
    place = Place("--set")
    keys = dotted_key.split(".")
    if not equals or not all(keys):
        message = "expected section.key=value, such as server.listen=127.0.0.1:0"
        raise PolicyError([Mistake(place, dotted_key, message)])
    table: Any = source.data
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            message = "only keys of single tables can be set here, not of lists"
            raise PolicyError([Mistake(place, dotted_key, message)])
    table[keys[-1]] = _override_value(text)
    for depth in range(1, len(keys)):
        source.places.setdefault(tuple(keys[:depth]), place)
    source.places[tuple(keys)] = place


def _override_value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def interpolate(source: Source, environ: Mapping[str, str], complaints: Complaints) -> None:
    """Replace `${NAME}` by environment variables, everywhere but in rules; `$$` stands for `$`.

    No text may hold a control character, wherever it came from: no path, name or secret has one.
    """
    for section, value in source.data.items():
        known = None if section == "rules" else environ
        source.data[section] = _interpolated(value, (section,), known, complaints)


def _interpolated(
    value: Any, path: Path, environ: Mapping[str, str] | None, complaints: Complaints
) -> Any:
    match value:
        case str():
            text = value
            if environ is not None:
                text = _VARIABLE.sub(lambda v: _variable(v, path, environ, complaints), value)
            return _plain(text, value, path, complaints)
        case dict():
            return {k: _interpolated(v, (*path, k), environ, complaints) for k, v in value.items()}
        case list():
            return [_interpolated(v, (*path, i), environ, complaints) for i, v in enumerate(value)]
        case _:
            return value


def _plain(text: str, written: str, path: Path, complaints: Complaints) -> str:
    pattern = _CONTROL_OF_LINES if path[-1] in _OF_LINES else _CONTROL
    found = pattern.search(text)
    if found is None:
        return text
    here = f"holds a control character, {ascii(found[0])[1:-1]}"
    source = _VARIABLE.search(written) if pattern.search(written) is None else None
    complaints.add(path, f"the value of {source[0]} {here}" if source else here)
    return "invalid"


def _variable(
    found: re.Match[str], path: Path, environ: Mapping[str, str], complaints: Complaints
) -> str:
    if found[0] == "$$":
        return "$"
    name = found[1]
    if name is None:
        complaints.add(path, '"${" is never closed: write ${NAME}; a "$" itself is "$$"')
        return "invalid"
    if not _VARIABLE_NAME.fullmatch(name):
        complaints.add(path, f'"${{{name}}}" is no environment variable; a "$" itself is "$$"')
        return "invalid"
    if name not in environ:
        complaints.add(path, f"the environment variable {name} is not set", closest(name, environ))
        return "invalid"
    return environ[name]
