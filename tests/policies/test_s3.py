"""The decision table of policies/s3.toml: a scope for each table, every other object its own."""

from __future__ import annotations

import pytest

from gateway.policy.load import load
from gateway.policy.strict import doubts
from tests.policies.decision_table import POLICIES, answer

GIVEN = {
    "FENCEGATE_WORKER_SECRET": "given-from-outside",
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "secret",
}
TABLE = [
    ("lake PUT /my-bucket/tables/orders/part-0.parquet", 2, "enforce tables/orders"),
    ("lake DELETE /my-bucket/tables/orders/2026/part-0", 2, "enforce tables/orders"),
    ("lake PUT /my-bucket/tables/orders/part-0.parquet", None, "fence_token_required"),
    ("lake PUT /my-bucket/raw/a.json", 2, "enforce lake:my-bucket/raw/a.json"),
    ("lake PUT /other/tables/orders/part-0", 2, "enforce lake:other/tables/orders/part-0"),
    ("lake GET /my-bucket/tables/orders/part-0.parquet", None, "enforce tables/orders"),
]


@pytest.mark.parametrize("line, token, told", TABLE)
def test_s3_decides(line: str, token: int | None, told: str) -> None:
    """Files of a table share its lease, in the bucket that is meant alone."""
    policy = load([POLICIES / "s3.toml"], environ=GIVEN)
    assert answer(policy, line, token) == told
    assert list(doubts(policy)) == []
