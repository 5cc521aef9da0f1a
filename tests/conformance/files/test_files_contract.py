"""The files store under the object-store contract, in both layouts."""

from __future__ import annotations

import pytest

from gateway.testing.store_contract import Law, laws_for
from tests.conformance.files.files_subjects import BUCKETS, TREE, open_buckets, open_tree


@pytest.mark.parametrize("law", laws_for(TREE), ids=lambda law: law.name)
async def test_the_tree_keeps(law: Law) -> None:
    """A plain tree keeps every law that an exact object store without buckets is held to."""
    await law.check(open_tree())


@pytest.mark.parametrize("law", laws_for(BUCKETS), ids=lambda law: law.name)
async def test_the_buckets_keep(law: Law) -> None:
    """The bucket layout keeps every law of an exact object store with buckets."""
    await law.check(open_buckets())
