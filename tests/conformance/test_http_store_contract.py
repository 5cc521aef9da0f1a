"""The object-store contract, run against the `http` store over an origin that numbers effects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gateway.model.problem import Code
from gateway.stores.http import OriginStore
from gateway.testing.store_contract import Effect, Law, Subject, Traits, laws_for
from tests.conformance.origin_objects import OriginObjects
from tests.services.http_origin import HttpOrigin, serving

ETAG = Traits(
    bucketed=False,
    exact=False,
    replays=False,
    stamped=False,
    numbered=True,
    race_losers=frozenset({Code.CHANGED_UNDERNEATH}),
)
NONE = replace(ETAG, conditions=False)
# A store that does not look must be exact, says this law; one without conditions cannot be.
OVER_NONE = [law for law in laws_for(NONE) if law.name != "looks"]


@asynccontextmanager
async def open_origin(conditions: str, traits: Traits) -> AsyncIterator[Subject]:
    async with serving(HttpOrigin()) as origin:
        probe = "/probe" if conditions == "etag" else None
        store = OriginStore("origin", origin.url, conditions=conditions, probe_path=probe)  # type: ignore[arg-type]
        assert (await store.probe()).conditions is traits.conditions

        async def journal() -> Sequence[Effect]:
            return [Effect(effect.path, effect.head) for effect in origin.effects]

        try:
            yield Subject(OriginObjects(store), traits, journal=journal)
        finally:
            await store.aclose()


@pytest.mark.parametrize("law", laws_for(ETAG), ids=lambda law: law.name)
async def test_law_with_conditions(law: Law) -> None:
    """Each law holds over an origin with conditional writes, the order of effects included."""
    await law.check(lambda: open_origin("etag", ETAG))


@pytest.mark.parametrize("law", OVER_NONE, ids=lambda law: law.name)
async def test_law_without_conditions(law: Law) -> None:
    """Without conditions the drain alone keeps the order, and every other law holds as well."""
    await law.check(lambda: open_origin("none", NONE))
