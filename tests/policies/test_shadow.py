"""The decision table of policies/shadow.toml: nothing is refused, what would be is named."""

from __future__ import annotations

import pytest

from gateway.policy.load import load
from tests.policies.decision_table import POLICIES, answer

TABLE = [
    ("files PUT /files/reports/acme/q1.txt", 2, "shadow reports/acme"),
    (
        "files PUT /files/reports/acme/q1.txt",
        None,
        "shadow reports/acme, else fence_token_required",
    ),
    ("files GET /files/reports/acme/q1.txt", None, "shadow reports/acme"),
    ("files DELETE /files/a", 2, "shadow files:a"),
    ("files DELETE /files/a", None, "shadow files:a, else fence_token_required"),
    ("objects PUT /demo/a/b.bin", 2, "shadow objects:demo/a/b.bin"),
    ("objects PUT /demo/a/b.bin", None, "shadow objects:demo/a/b.bin, else fence_token_required"),
]


@pytest.mark.parametrize("line, token, told", TABLE)
def test_shadow_refuses_nothing(line: str, token: int | None, told: str) -> None:
    """Every request of both stores meets a rule that watches."""
    policy = load([POLICIES / "shadow.toml"], environ={"FENCEGATE_WORKER_SECRET": "long-enough"})
    assert answer(policy, line, token) == told
