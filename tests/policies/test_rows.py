"""The decision table of policies/rows.toml: one lease a table, or one an account."""

from __future__ import annotations

import pytest

from gateway.policy.load import load
from gateway.policy.strict import doubts
from tests.policies.decision_table import POLICIES, answer

GIVEN = {
    "FENCEGATE_WORKER_SECRET": "given-from-outside",
    "DATABASE_URL": "postgresql://localhost/app",
}
TABLE = [
    ("db POST /db/jobs", False, 2, "enforce jobs"),
    ("db DELETE /db/jobs", False, 2, "enforce jobs"),
    ("db DELETE /db/jobs/1", True, 2, "enforce jobs"),
    ("db DELETE /db/jobs/1", True, None, "fence_token_required"),
    ("db DELETE /db/accounts/7", True, 2, "enforce accounts/7"),
    ("db DELETE /db/accounts", False, 2, "fence_scope_undetermined"),
    ("db GET /db/accounts", False, None, "enforce -"),
]


@pytest.mark.parametrize("line, exact, token, told", TABLE)
def test_rows_decides(line: str, exact: bool, token: int | None, told: str) -> None:
    """Jobs may be changed by any filter; an account only by its key."""
    policy = load([POLICIES / "rows.toml"], environ=GIVEN)
    assert answer(policy, line, token, exact=exact) == told
    assert list(doubts(policy)) == []
