"""Whatever a user can meet, set or read is explained in docs/reference."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from gateway.model.problem import Code
from gateway.policy.document import Document
from tests.tidy import laws

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference() -> str:
    pages = sorted((ROOT / "docs" / "reference").glob("**/*.md"))
    assert pages, "docs/reference has no page yet"
    return "\n".join(page.read_text() for page in pages)


def described_settings(schema: dict[str, Any]) -> Iterator[str]:
    """The keys of a policy document: every property that has a description, wherever it nests."""
    for name, part in schema.get("properties", {}).items():
        if "description" in part:
            yield name
    for part in schema.get("$defs", {}).values():
        yield from described_settings(part)


def words_of_the_package(pattern: str, folder: str = "gateway") -> set[str]:
    found = set()
    for path in (ROOT / folder).glob("**/*.py"):
        found |= set(re.findall(pattern, path.read_text()))
    return found


def test_every_error_code(reference: str) -> None:
    """A client that is refused finds its code, with what to do about it."""
    missing = laws.undocumented("code", [code.value for code in Code], reference)
    assert not missing, "\n" + "\n".join(missing)


def test_every_setting(reference: str) -> None:
    """An operator finds every key of a policy document."""
    settings = sorted(set(described_settings(TypeAdapter(Document).json_schema())))
    assert {"listen", "drain_timeout_ms", "match"} <= set(settings)
    missing = laws.undocumented("setting", settings, reference)
    assert not missing, "\n" + "\n".join(missing)


def test_every_variable_of_the_environment(reference: str) -> None:
    """Every FENCEGATE_… variable that the package reads is explained."""
    variables = words_of_the_package(r"\bFENCEGATE_[A-Z_]+\b")
    assert "FENCEGATE_ADMIN_KEY" in variables
    missing = laws.undocumented("variable", sorted(variables), reference)
    assert not missing, "\n" + "\n".join(missing)


def test_every_metric(reference: str) -> None:
    """Every metric that the telemetry exposes is explained."""
    metrics = words_of_the_package(r"\bfencegate_[a-z_]+\b", "gateway/telemetry")
    assert "fencegate_requests_total" in metrics
    missing = laws.undocumented("metric", sorted(metrics), reference)
    assert not missing, "\n" + "\n".join(missing)
