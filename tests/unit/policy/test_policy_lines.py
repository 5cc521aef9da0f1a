"""Laws of the line finder."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.lines import key_lines

KEYS = st.sampled_from(["a", "b", "key-1", "with space", "dot.ted", "hash#"])
SCALARS = st.sampled_from(
    ["1", "true", '"x # y"', "'[no]'", '"\\""', '"""\n a = 1 ""\n"""', "'''\n{'''", "2026-01-02"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3).map(lambda v: "[\n" + ",\n".join(v) + "\n]"),
    max_leaves=4,
)
TABLE = st.dictionaries(KEYS, VALUES, max_size=3)


def quoted(key: str) -> str:
    return key if key.replace("-", "").isalnum() else f'"{key}"'


class Writer:
    """Writes TOML and notes the line of each key as it goes."""

    def __init__(self) -> None:
        self.text = ""
        self.lines: dict[tuple[str | int, ...], int] = {}

    def note(self, path: tuple[str | int, ...]) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def pairs(self, path: tuple[str | int, ...], table: dict[str, str]) -> None:
        for key, value in table.items():
            self.note((*path, key))
            self.text += f" {quoted(key)} = {value} # end\n"


@given(top=TABLE, tables=st.dictionaries(KEYS, TABLE), lists=st.lists(TABLE, max_size=4))
def test_every_key_has_the_line_it_was_written_on(
    top: dict[str, str], tables: dict[str, dict[str, str]], lists: list[dict[str, str]]
) -> None:
    """Whatever stands between keys, each is found on the line where it was written."""
    writer = Writer()
    writer.pairs((), top)
    for name, table in tables.items():
        writer.note(("tables", name))
        writer.text += f"[tables.{quoted(name)}]\n"
        writer.pairs(("tables", name), table)
    for index, table in enumerate(lists):
        writer.note(("lists", index))
        writer.text += "\n[[ lists ]] # one more\n"
        writer.lines[("lists", index)] = writer.text.count("\n")
        writer.pairs(("lists", index), table)
    tomllib.loads(writer.text)
    found = key_lines(writer.text)
    assert {path: found.get(path) for path in writer.lines} == writer.lines


def paths_of(value: Any, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    steps: Any = ()
    if isinstance(value, dict):
        steps = value.items()
    elif isinstance(value, list):
        steps = enumerate(value)
    below = {p for key, inner in steps for p in paths_of(inner, (*path, key))}
    return below | ({path} if path else set())


TRICKY = '''
a.b."c.d" = 1
inline = { x = { y = [1, { z = "}" }] }, 'q' = 2 }
nested = [ [1], # ]
  [2, "],"] ]
[[rules]]
[rules.sub]
k = """a""b"""""
[[rules]]
[[rules.deep]]
k = 1
[[rules.deep]]
k = 2
'''


def test_every_path_of_the_parser_is_found() -> None:
    """Paths are those of the parser: dotted keys, inline tables, lists of tables in lists."""
    assert paths_of(tomllib.loads(TRICKY)) == set(key_lines(TRICKY))


def test_text_that_is_no_toml_is_not_guessed_at() -> None:
    """The finder trusts the parser, and says so when it is asked before it."""
    with pytest.raises(ValueError, match="offset"):
        key_lines("= 1")
