"""The commit-order law on real PostgreSQL: no effect of a lower token after one of a higher."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.conformance.postgres.conftest import OpenStore
from tests.conformance.postgres.journal import CommitJournal, Effect, violations
from tests.conformance.postgres.order_race import (
    Race,
    SqlForm,
    StoreForm,
    check_then_write,
    effects_by_request,
    effects_by_row,
    prepare,
    unlocked_subselect,
)

WRITES = 2_000
ENOUGH = 600
DEADLINE_S = 40.0


@pytest.fixture
async def pool(postgres_dsn: str) -> AsyncIterator[Any]:
    """Connections for the plain forms."""
    async with asyncpg.create_pool(postgres_dsn, min_size=1, max_size=16) as opened:
        yield opened


async def test_no_lower_token_commits_after_a_higher_one(
    postgres_dsn: str, open_store: OpenStore, journal: CommitJournal
) -> None:
    """Two replicas, stalls everywhere, inserts, updates and deletes: the order of tokens holds."""
    await prepare(postgres_dsn, journal)
    stores = [await open_store({"items": None}, pool_size=20) for _ in range(2)]
    race = Race(StoreForm(stores))
    await race.run(lambda now: now.accepted >= WRITES, DEADLINE_S)
    effects = effects_by_request(await journal.transactions(), race.jobs)
    assert len(effects) == race.accepted >= WRITES
    assert race.refused > WRITES / 20, "the race had hardly a stale writer in it"
    assert {effect.scope for effect in effects} == {"red", "green", "blue"}
    assert violations(effects) == 0
    assert race.late_acknowledgements == 0


@pytest.mark.parametrize("form", [unlocked_subselect, check_then_write])
async def test_forms_that_fail_are_caught(
    form: Any, postgres_dsn: str, pool: Any, journal: CommitJournal
) -> None:
    """Negative control: the same race finds the violations of forms known to fail.

    And looking at acknowledgements alone would have passed them: no write that began after a
    newer one was acknowledged is accepted.
    """
    await prepare(postgres_dsn, journal)
    race = Race(SqlForm(pool, form), verbs=("update",))
    await race.run(lambda now: now.accepted >= ENOUGH, DEADLINE_S)
    assert violations(await effects_by_row(journal)) > 0
    assert race.late_acknowledgements == 0


SPOILED_GUARDS = {
    "guard in the statement's snapshot": (
        "ALTER FUNCTION fencegate.admit(text, bigint, bigint, text) STABLE"
    ),
    "raise that does not wait": (
        "CREATE FUNCTION fencegate.no_lock(bigint) RETURNS void LANGUAGE sql AS '';"
        "DO $$ BEGIN EXECUTE replace(pg_get_functiondef('fencegate.raise_mark'::regproc), "
        "'pg_advisory_xact_lock(', 'fencegate.no_lock('); END $$"
    ),
}


@pytest.mark.parametrize("spoil", SPOILED_GUARDS.values(), ids=SPOILED_GUARDS.keys())
async def test_each_half_of_the_guard_is_needed(
    spoil: str, postgres_dsn: str, open_store: OpenStore, journal: CommitJournal
) -> None:
    """Negative control: the shipped statement with one half of its guard taken away is caught."""
    await prepare(postgres_dsn, journal)
    stores = [await open_store({"items": None}, pool_size=20) for _ in range(2)]
    connection = await asyncpg.connect(postgres_dsn)
    await connection.execute(spoil)
    await connection.close()
    race = Race(StoreForm(stores))
    await race.run(lambda now: now.accepted >= ENOUGH, DEADLINE_S)
    assert violations(effects_by_request(await journal.transactions(), race.jobs)) > 0


def test_the_law_is_per_scope_and_sees_one_step_back() -> None:
    """The judge itself: equal and rising tokens pass, one step back in the same scope does not."""
    rising = [Effect("a", 1), Effect("b", 5), Effect("a", 1), Effect("a", 2), Effect("b", 5)]
    assert violations(rising) == 0
    assert violations([*rising, Effect("a", 1)]) == 1
