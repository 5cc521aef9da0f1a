"""The object-store contract: every law that an implementation of the store port must keep.

A test opens its store as a `Subject`, states its `Traits`, and runs each law of `laws_for(traits)`.
Laws that a store's traits do not claim are left out by name; none is waived (habit 4).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from gateway.testing import (
    store_basic_laws,
    store_condition_laws,
    store_listing_laws,
    store_order,
    store_race,
)
from gateway.testing.store_subject import Effect, OpenSubject, Pieces, Subject, Traits

__all__ = [
    "OBJECT_STORE_LAWS",
    "Effect",
    "Law",
    "OpenSubject",
    "Pieces",
    "Subject",
    "Traits",
    "laws_for",
]


def _always(_: Traits) -> bool:
    return True


def _conditions(traits: Traits) -> bool:
    return traits.conditions


def _exact(traits: Traits) -> bool:
    return traits.exact


def _bucketed(traits: Traits) -> bool:
    return traits.bucketed


@dataclass(frozen=True, slots=True)
class Law:
    """One law: its check, and whether a store with these traits is held to it."""

    check: Callable[[OpenSubject], Awaitable[None]]
    applies: Callable[[Traits], bool] = _always

    @property
    def name(self) -> str:
        """The law's name, for test ids."""
        return self.check.__name__.removeprefix("check_")


OBJECT_STORE_LAWS: Final = (
    Law(store_basic_laws.check_round_trip),
    Law(store_basic_laws.check_exact_bytes),
    Law(store_basic_laws.check_unknown_length, lambda traits: traits.unknown_length),
    Law(store_basic_laws.check_metadata),
    Law(store_basic_laws.check_put_reply),
    Law(store_basic_laws.check_etags),
    Law(store_basic_laws.check_etags_unique, lambda traits: traits.etag_unique),
    Law(store_basic_laws.check_ranges),
    Law(store_basic_laws.check_read_conditions),
    Law(store_basic_laws.check_broken_body),
    Law(store_basic_laws.check_short_body),
    Law(store_basic_laws.check_gate_shut),
    Law(store_basic_laws.check_gate_last),
    Law(store_basic_laws.check_reads_do_not_mix),
    Law(store_condition_laws.check_put_conditions, _conditions),
    Law(store_condition_laws.check_put_any_match, _conditions),
    Law(store_condition_laws.check_tag_lists, _conditions),
    Law(store_condition_laws.check_delete_conditions, _conditions),
    Law(store_condition_laws.check_looks),
    Law(store_condition_laws.check_replays, lambda traits: traits.replays),
    Law(
        store_condition_laws.check_delete_replays,
        lambda traits: traits.replays and traits.exact,
    ),
    Law(store_condition_laws.check_carry, _exact),
    Law(store_condition_laws.check_two_hands, _exact),
    Law(store_condition_laws.check_behind, _exact),
    Law(store_race.check_race_to_create, _conditions),
    Law(store_race.check_race_to_replace, _conditions),
    Law(store_race.check_race_to_delete, lambda traits: traits.conditions and traits.exact),
    Law(store_race.check_unconditional_race),
    Law(store_listing_laws.check_odd_keys, _bucketed),
    Law(store_listing_laws.check_key_limits, _bucketed),
    Law(store_listing_laws.check_list_order, _bucketed),
    Law(store_listing_laws.check_list_pages, _bucketed),
    Law(store_listing_laws.check_list_parameters, _bucketed),
    Law(store_listing_laws.check_list_follows_writes, _bucketed),
    Law(store_listing_laws.check_buckets, _bucketed),
    Law(store_order.check_order_of_a_stalled_body, lambda traits: traits.numbered),
    Law(store_order.check_order_at_the_gate, lambda traits: traits.numbered),
    Law(store_order.check_order_in_storms, lambda traits: traits.numbered),
)


def laws_for(traits: Traits) -> tuple[Law, ...]:
    """The laws that a store with these traits must keep."""
    return tuple(law for law in OBJECT_STORE_LAWS if law.applies(traits))
