"""The decision table of policies/production.toml: bounds, reads that seal, what is read only."""

from __future__ import annotations

import pytest

from gateway.policy.document import PolicySet, Reads
from gateway.policy.load import PolicyError, load
from gateway.policy.strict import doubts
from tests.policies.decision_table import POLICIES, answer

GIVEN = {
    "FENCEGATE_REGISTRY_URL": "postgresql://localhost/fencegate",
    "FENCEGATE_WORKER_SECRET": "given-from-outside",
}
TABLE = [
    ("files PUT /files/reports/acme/q1.txt", 2, "enforce reports/acme"),
    ("files DELETE /files/reports/acme/2026/q1.txt", 2, "enforce reports/acme"),
    ("files PUT /files/reports/acme/q1.txt", None, "fence_token_required"),
    ("files GET /files/releases/v1.tar", None, "enforce files:releases/v1.tar"),
    ("files PUT /files/releases/v1.tar", 2, "method_not_allowed"),
    ("files PUT /files/legacy/a", None, "enforce files:legacy/a"),
    ("files PUT /files/legacy/a", 2, "enforce files:legacy/a"),
    ("files PUT /files/hello.txt", 2, "enforce files:hello.txt"),
    ("files PUT /files/hello.txt", None, "fence_token_required"),
]


@pytest.fixture(scope="module")
def policy() -> PolicySet:
    return load([POLICIES / "production.toml"], environ=GIVEN)


@pytest.mark.parametrize("line, token, told", TABLE)
def test_production_decides(policy: PolicySet, line: str, token: int | None, told: str) -> None:
    """Reports by team, releases read only, legacy without a token, all else by itself."""
    assert answer(policy, line, token) == told


def test_production_is_bounded_and_strict(policy: PolicySet) -> None:
    """Reports seal on reads and bound jumps; no path is without a rule; no secret has a default."""
    assert policy.rules[0].reads is Reads.SEAL
    assert policy.rules[0].max_jump == policy.rules[-1].max_jump == 1_000_000
    assert list(doubts(policy)) == []
    for name in GIVEN:
        rest = {key: value for key, value in GIVEN.items() if key != name}
        with pytest.raises(PolicyError, match=f"the environment variable {name} is not set"):
            load([POLICIES / "production.toml"], environ=rest)
