"""Laws of docs/operations: whoever is refused or woken finds what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.model.problem import STATUS, Code, Problem

FOLDER = Path(__file__).parents[2] / "docs" / "operations"


def sections(text: str) -> dict[str, dict[str, str]]:
    """The text of each section, by the name of its part and its own."""
    parts: dict[str, dict[str, str]] = {}
    for part in re.split(r"^# ", text, flags=re.MULTILINE)[1:]:
        title, _, rest = part.partition("\n")
        pieces = re.split(r"^## ", rest, flags=re.MULTILINE)[1:]
        parts[title] = {p.partition("\n")[0]: p.partition("\n")[2] for p in pieces}
    return parts


def lacking(section: str, code: Code) -> list[str]:
    """What a section on a refusal does not say."""
    needed = [f"Code `{code.value}`, status {STATUS[code]}.", "**Means:** ", "**Look at:** "]
    return [text for text in [*needed, "**Do:** "] if text not in section]


@pytest.fixture(scope="module")
def runbook() -> dict[str, dict[str, str]]:
    return sections((FOLDER / "runbook.md").read_text())


@pytest.fixture(scope="module")
def alerts() -> list[dict[str, Any]]:
    document = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def test_every_reason_has_a_section(runbook: dict[str, dict[str, str]]) -> None:
    """Each value of the label `reason` is a heading, and nothing else is."""
    assert sorted(runbook["Refusals"]) == sorted(Problem(code, "").reason for code in Code)


@pytest.mark.parametrize("code", Code)
def test_a_section_says_what_to_do(runbook: dict[str, dict[str, str]], code: Code) -> None:
    """Code and status, what it means, where to look, what to do."""
    assert lacking(runbook["Refusals"][Problem(code, "").reason], code) == []


def test_a_section_that_lacks_something_is_found() -> None:
    """The control: a wrong status and a missing paragraph are named."""
    text = "Code `busy`, status 500.\n\n**Means:** x\n\n**Do:** y\n"
    assert lacking(text, Code.BUSY) == ["Code `busy`, status 503.", "**Look at:** "]
    assert sections("# A\n## b\nc\n# D\n## e\n") == {"A": {"b": "c\n"}, "D": {"e": ""}}


def test_every_alert_has_a_section(
    runbook: dict[str, dict[str, str]], alerts: list[dict[str, Any]]
) -> None:
    """Whoever is woken follows a link that leads somewhere; no section is on an alert of before."""
    assert sorted(rule["alert"] for rule in alerts) == sorted(runbook["Alerts"])
    for rule in alerts:
        anchor = f"docs/operations/runbook.md#{rule['alert'].lower()}"
        assert rule["annotations"]["runbook"] == anchor
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"]["summary"]


def test_links_within_the_runbook_lead_somewhere(runbook: dict[str, dict[str, str]]) -> None:
    """Each `(#anchor)` is a heading."""
    anchors = {name.lower() for part in runbook.values() for name in part}
    assert set(re.findall(r"\(#([^)]+)\)", (FOLDER / "runbook.md").read_text())) <= anchors
