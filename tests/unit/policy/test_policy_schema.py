"""Laws of the settings: each is described, each has an effect, errors know where it belongs."""

from __future__ import annotations

import ast
import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from gateway.policy.document import Document, Limits
from gateway.policy.load import loads
from gateway.policy.schema import INTERNAL, SECTIONS, STORE_TYPES, owners_of, settings_of

PACKAGE = Path(__file__).parents[3] / "gateway"


@pytest.mark.parametrize("title", SECTIONS)
def test_every_setting_is_described(title: str) -> None:
    """The reference and the errors have words for each key."""
    for setting in settings_of(SECTIONS[title]):
        assert setting.description.endswith((".", '".')), setting
        assert setting.key not in INTERNAL


def test_the_sections_are_those_of_the_document() -> None:
    """No section is missing from the reference."""
    named = {re.findall(r"\w+", title)[0] for title in SECTIONS}
    assert {field.name for field in fields(Document)} == named
    assert set(STORE_TYPES.values()) <= set(SECTIONS.values())


def test_required_keys_are_told_apart_from_defaults() -> None:
    """A default of None is a default."""
    settings = {s.key: s for s in settings_of(SECTIONS["[[rules]]"])}
    assert settings["match"].required
    assert settings["match"].default is MISSING
    assert not settings["scope"].required


def test_a_key_knows_its_sections() -> None:
    """A key in the wrong place is answered with the right ones."""
    assert owners_of("drain_timeout_ms") == ("[limits]",)
    assert owners_of("settle_ms") == (
        '[stores.<name>] of type "s3"',
        '[stores.<name>] of type "http"',
    )
    assert owners_of("nothing") == ()


def read_attributes() -> set[str]:
    """Every attribute that the package reads outside gateway/policy."""
    modules = [p for p in PACKAGE.rglob("*.py") if PACKAGE / "policy" not in p.parents]
    nodes = (node for path in modules for node in ast.walk(ast.parse(path.read_text())))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def test_every_limit_has_an_effect() -> None:
    """A limit that nobody reads would promise what is not done."""
    read = read_attributes()
    assert "no_such_limit_ms" not in read
    assert {field.name for field in fields(Limits)} - read == set()


def test_the_defaults_fit_together() -> None:
    """A policy that changes no limit has none to complain of."""
    assert loads('[stores.files]\ntype = "files"\nroot = "f"\n').limits == Limits()
