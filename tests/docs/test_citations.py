"""What the code cites is in the repository: numbered rules, sections, habits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROTOCOL = (ROOT / "docs" / "explanation" / "protocol.md").read_text()
CONTRACT = (ROOT / "docs" / "decisions" / "0006-contract.md").read_text()
MAP = (ROOT / "ARCHITECTURE.md").read_text()
HABITS = (ROOT / "CONTRIBUTING.md").read_text().partition("## Habits")[2].partition("\n## ")[0]

_TITLE = r'"([A-Z][^"]+)"'
_SECTION = re.compile(
    rf"\b(protocol|decisions|wire contract|architecture\.md), {_TITLE}", re.IGNORECASE
)
_MORE = re.compile(rf" and {_TITLE}")
_RULES = re.compile(r"\brules? ((?:\d+(?:, | and | to | or |-)?)+)")
_HABIT = re.compile(r"\bhabit (\d+)")
_UNNAMED = re.compile(r"\((?:the )?design,|\barchitecture, |\bdesign's decisions")


def headings(text: str) -> set[str]:
    """The titles of a page."""
    return set(re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE))


def numbers(text: str) -> set[str]:
    """The numbers of a numbered list."""
    return set(re.findall(r"^(\d+)\. ", text, flags=re.MULTILINE))


def titles(text: str) -> Iterator[tuple[str, str]]:
    """Each section that a text cites, with the name of its page."""
    for found in _SECTION.finditer(text):
        yield found[1].lower(), found[2]
        rest = text[found.end() :]
        while more := _MORE.match(rest):
            yield found[1].lower(), more[1]
            rest = rest[more.end() :]


def dangling(text: str) -> list[str]:
    """The citations of a text that lead nowhere."""
    flat = re.sub(r"\s+(?:#|--)?\s*", " ", text)
    pages = {"protocol": PROTOCOL, "architecture.md": MAP}
    lost = [f"{n}: {t}" for n, t in titles(flat) if t not in headings(pages.get(n, CONTRACT))]
    rules = {n for found in _RULES.findall(flat) for n in re.findall(r"\d+", found)}
    lost += [f"rule {number}" for number in sorted(rules - numbers(PROTOCOL))]
    habits = set(_HABIT.findall(flat))
    lost += [f"habit {number}" for number in sorted(habits - numbers(HABITS))]
    return lost + _UNNAMED.findall(flat)


def sources() -> list[Path]:
    """What cites: the package, the tests, the bench."""
    folders = ("gateway", "tests", "bench")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    return [path for path in found if path.suffix in {".py", ".lua", ".sql"}]


def test_every_citation_leads_somewhere() -> None:
    """A rule, section or habit that a comment names can be read by whoever has the repository."""
    lost = {
        str(path.relative_to(ROOT)): found
        for path in sources()
        if path != Path(__file__) and (found := dangling(path.read_text()))
    }
    assert lost == {}


@pytest.mark.parametrize(
    "text, lost",
    [
        ("(protocol, rule 5)", []),
        ("(protocol, rules 7 to 16)", ["rule 16"]),
        ('(decisions,\n# "Stamps" and "Stumps")', ["decisions: Stumps"]),
        ('wire contract, "Nowhere"', ["wire contract: Nowhere"]),
        ("CONTRIBUTING.md, habit 99", ["habit 99"]),
        ('(design, "Words")', ["(design,"]),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(text: str, lost: list[str]) -> None:
    """The control: a number or title that no page has is named."""
    assert dangling(text) == lost


def test_the_rules_are_numbered_without_a_gap() -> None:
    """The numbers that comments have used for long stay what they are: 1 to 15."""
    assert numbers(PROTOCOL) == {str(number) for number in range(1, 16)}
