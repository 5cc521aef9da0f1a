"""The rows contract on a real MariaDB."""

from __future__ import annotations

import pytest

from gateway.testing.rows_contract import ROWS_LAWS, RowsLaw
from tests.conformance.mariadb.harness import MariadbHarness, StallingStore

pytestmark = [pytest.mark.extra, pytest.mark.timeout(180)]


@pytest.mark.parametrize("law", ROWS_LAWS, ids=lambda law: law.__name__)
async def test_the_store_keeps(law: RowsLaw, harness: MariadbHarness) -> None:
    """Every law that holds for the other engines holds here."""
    await law(harness)


def test_laws_are_not_lost() -> None:
    """The kit has not shrunk unnoticed, and commit order is in it."""
    assert len(ROWS_LAWS) >= 40
    assert "check_commit_order" in {law.__name__ for law in ROWS_LAWS}


def test_stores_are_opened_alike() -> None:
    """The store under the kit differs from the shipped one by its stalls alone."""
    own = {name for name in vars(StallingStore) if not name.startswith("__")}
    assert own == {"chance", "write"}
