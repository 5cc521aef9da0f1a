"""Reads the hash locks in requirements/ and the dependencies that pyproject.toml names."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements"
_PIN = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>\S+)(?P<rest>.*)$")


@dataclass(frozen=True)
class Pin:
    """One locked package."""

    name: str
    version: str
    hashes: tuple[str, ...]
    marker: str


def project_dependencies(*extras: str) -> list[str]:
    """The requirement strings of pyproject.toml, with those of the extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    return [*project["dependencies"], *(entry for extra in extras for entry in optional[extra])]


def read_lock(text: str) -> tuple[list[Pin], list[str]]:
    """The pins of a lock, and every line that is neither a pin, nor a hash, nor a comment."""
    pins, strange = [], []
    for line in text.replace("\\\n", " ").splitlines():
        stated = re.sub(r"(^|\s)#.*", "", line).strip()
        if not stated:
            continue
        found = _PIN.match(stated)
        if found is None:
            strange.append(stated)
            continue
        hashes = tuple(re.findall(r"--hash=(sha256:[0-9a-f]{64})", found["rest"]))
        marker = found["rest"].split("--hash")[0].strip(" ;")
        pins.append(Pin(found["name"], found["version"], hashes, marker))
    return pins, strange
