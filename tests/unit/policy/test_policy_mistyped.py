"""Every key, section and value of the shipped policies, mistyped in every way we can think of."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.policy.load import PolicyError, loads

POLICIES = sorted((Path(__file__).parents[3] / "policies").glob("*.toml"))
SECRET = "value-of-a-secret-0123456789"
_TEXT = r"""\"[^\"]*\"|'[^']*'|[^\[{#\"'\n]+?"""
_KEY = re.compile(rf"^(?P<key>[a-z_]+) = (?P<value>{_TEXT})(?P<rest>\s*(#.*)?)$")
_SECTION = re.compile(r"^\[\[?(?P<path>[a-z_.]+)\]\]?$")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class Mistyped:
    """A policy in which one thing is wrong: its line, and what a message must name and guess."""

    what: str
    text: str
    line: int
    named: str
    hint: str = ""


def slips(word: str) -> Iterator[str]:
    """How fingers slip: a letter left out, two exchanged, one doubled, `-` for `_`."""
    middle = len(word) // 2
    yield word[:middle] + word[middle + 1 :]
    yield word[: middle - 1] + word[middle] + word[middle - 1] + word[middle + 1 :]
    yield word[:middle] + word[middle] + word[middle:]
    if "_" in word:
        yield f'"{word.replace("_", "-")}"'


def other_types(value: object) -> Iterator[str]:
    """Values of every other type of TOML, and numbers that are none of ours."""
    yield from ("{}", "[[1]]", "1979-05-27T07:32:00Z", "nan", "inf", "1.5")
    if not isinstance(value, bool):
        yield "true"
    if isinstance(value, int) and not isinstance(value, bool):
        yield from ("-1", str(10**30), '"1"', '"1_000"', "1e3")
    if isinstance(value, str):
        yield from ("7", '""', '"\\u0000"', '"a\\nb"')


def mistyped(text: str) -> Iterator[Mistyped]:
    """Every way, one at a time."""
    lines = text.splitlines()

    def put(number: int, line: str) -> str:
        return "\n".join([*lines[: number - 1], line, *lines[number:]]) + "\n"

    for number, line in enumerate(lines, start=1):
        if found := _KEY.match(line):
            key, raw = found["key"], found["value"]
            for slip in slips(key):
                if slip in lines or slip == key:
                    continue
                wrong = f"{slip} = {raw}"
                yield Mistyped(f"{key} as {slip}", put(number, wrong), number, slip.strip('"'), key)
            value = tomllib.loads(f"x = {raw}")["x"]
            for other in other_types(value):
                yield Mistyped(f"{key} = {other}", put(number, f"{key} = {other}"), number, key)
            yield Mistyped(f"{key} without a value", put(number, f"{key} ="), number, "")
        elif found := _SECTION.match(line):
            head = found["path"].partition(".")[0]
            for slip in slips(head):
                if slip != head:
                    wrong = line.replace(head, slip, 1)
                    yield Mistyped(f"[{head}] as [{slip}]", put(number, wrong), number, slip, head)
            yield Mistyped(f"{line} not closed", put(number, line[:-1]), number, "")


def told(text: str) -> list[str] | None:
    """The messages of `check`, a line each, or None when nothing is wrong."""
    environment = {
        name: f"postgresql://u:{SECRET}@h/d" if name.endswith("_URL") else SECRET
        for name in _VARIABLE.findall(text)
    }
    try:
        loads(text, name="p.toml", environ=environment)
    except PolicyError as error:
        return str(error).split("\n")
    return None


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_whatever_is_mistyped_is_told_where_it_stands(path: Path) -> None:
    """File, line and key of the slip, in a line each; no secret is repeated."""
    text = path.read_text()
    assert told(text) is None, told(text)
    wrong: dict[str, Any] = {}
    count = 0
    for case in mistyped(text):
        count += 1
        found = told(case.text)
        if found is None or not any(
            message.startswith(f"p.toml:{case.line}: ")
            and case.named in message
            and case.hint in message
            for message in found
        ):
            wrong[f"{case.line}: {case.what}"] = found
        assert "value-of-a-secret" not in "\n".join(found or ())
    print("\n".join(f"{k}: {v}" for k, v in wrong.items()))
    assert count > 100
    assert wrong == {}
