"""The object-store contract, run against the `s3` store: over a real server, and numbered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gateway.model.problem import Code
from gateway.testing.store_contract import Effect, Law, Subject, Traits, laws_for
from tests.conformance.s3_lake import BUCKET, open_lake, s3_store
from tests.services.object_stores import ObjectStore, fresh_bucket

TRAITS = Traits(
    bucketed=True,
    exact=False,
    etag_unique=False,
    absent_code=Code.NOT_FOUND,
    race_losers=frozenset({Code.CHANGED_UNDERNEATH, Code.BUSY}),
)
NUMBERED = replace(TRAITS, numbered=True)
WEAK = replace(TRAITS, conditions=False, replays=False)  # the law of replays sends conditions
# The origin and rclone list nothing, or list it in ways of their own; ministack is held to that.
LISTINGS = {"odd_keys", "list_order", "list_pages", "list_parameters", "list_follows_writes"}
OVER_ORIGIN = [law for law in laws_for(NUMBERED) if law.name not in LISTINGS | {"buckets"}]


@pytest.mark.parametrize("law", laws_for(TRAITS), ids=lambda law: law.name)
async def test_law_over_ministack(law: Law, ministack: ObjectStore) -> None:
    """Each law of the contract holds over a server that honours conditions, after its probe."""

    @asynccontextmanager
    async def open_subject() -> AsyncIterator[Subject]:
        bucket = fresh_bucket(ministack)
        store = s3_store(ministack, bucket)
        try:
            capabilities = await store.probe()
            assert capabilities.conditions
            yield Subject(store, TRAITS, bucket=bucket)
        finally:
            await store.aclose()

    await law.check(open_subject)


@pytest.mark.parametrize("law", OVER_ORIGIN, ids=lambda law: law.name)
async def test_law_over_numbering_origin(law: Law) -> None:
    """The laws hold while bodies stream through, and effects keep the order of tokens."""

    @asynccontextmanager
    async def open_subject() -> AsyncIterator[Subject]:
        async with open_lake(probe=True) as lake:
            assert not lake.store.profile.keeps_half

            async def journal() -> Sequence[Effect]:
                return [Effect(effect.key, effect.write_id) for effect in lake.origin.effects]

            yield Subject(lake.store, NUMBERED, bucket=BUCKET, journal=journal)

    await law.check(open_subject)


# Of its own accord rclone gives a wrong Content-Range for a suffix longer than the object, takes
# If-None-Match for a single tag, and shows an object while it is being replaced.
RCLONE_FAULTS = LISTINGS | {"ranges", "read_conditions", "reads_do_not_mix"}
OVER_RCLONE = [law for law in laws_for(WEAK) if law.name not in RCLONE_FAULTS]


@pytest.mark.parametrize("law", OVER_RCLONE, ids=lambda law: law.name)
async def test_law_over_rclone(law: Law, rclone_s3: ObjectStore) -> None:
    """A store without conditional writes, accepted by name, keeps all laws but those of conditions.

    It verifies signatures, so every request of the store's is signed right.
    """

    @asynccontextmanager
    async def open_subject() -> AsyncIterator[Subject]:
        bucket = fresh_bucket(rclone_s3)
        store = s3_store(rclone_s3, bucket, conditions="none")
        try:
            capabilities = await store.probe()
            assert not capabilities.conditions
            yield Subject(store, WEAK, bucket=bucket)
        finally:
            await store.aclose()

    await law.check(open_subject)
