"""The rows contract on SQLite, and a store that checks too early, which it must catch."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.model.operation import Operation
from gateway.model.reply import Rows
from gateway.ports.body import Body
from gateway.ports.store import WriteFence, WriteResult, Written
from gateway.stores.sqlite import SqliteStore, witness
from gateway.stores.sqlite.transaction import WriteJob, apply
from gateway.testing.rows_commit_order import accepted_late, lower_after_higher, observe
from gateway.testing.rows_contract import ROWS_LAWS, RowsLaw
from tests.conformance.rows.sqlite_harness import SqliteHarness, stalled


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SqliteHarness]:
    """An empty database with the kit's tables."""
    made = SqliteHarness(tmp_path / "kit.sqlite")
    yield made
    await made.aclose()


@pytest.mark.parametrize("law", ROWS_LAWS, ids=lambda law: law.__name__.removeprefix("check_"))
async def test_law(law: RowsLaw, harness: SqliteHarness) -> None:
    """SQLite keeps the law."""
    await law(harness)


def test_no_law_is_missing() -> None:
    """The contract is not empty, and names no law twice."""
    names = [law.__name__ for law in ROWS_LAWS]
    assert len(names) == len(set(names)) >= 40


class ChecksFirst(SqliteStore):
    """Looks at the fence row before the transaction, and no more in it: check, then forward."""

    _chance = random.Random(1)

    async def write(self, operation: Operation, body: Body, fence: WriteFence) -> WriteResult:
        refused = await self._readers.call(lambda connection: witness.judge(connection, fence))
        if refused is not None:
            return refused
        await stalled(self._chance)
        return await super().write(operation, body, fence)

    def _run_write(self, connection: sqlite3.Connection, job: WriteJob) -> WriteResult:
        reply: Rows = apply(connection, self._current(connection), job.operation)
        return Written(reply)


async def test_check_before_the_transaction_is_caught(tmp_path: Path) -> None:
    """Negative control: the commit order shows stale writes that no acknowledgement shows."""
    harness = SqliteHarness(tmp_path / "kit.sqlite", ChecksFirst)
    seen = await observe(harness, [await harness.open(), await harness.open()])
    await harness.aclose()
    assert lower_after_higher(seen.effects)
    assert accepted_late(seen.accepted) == []
