"""The rows contract: every law that a rows store must keep, for any engine.

A test opens its engine as a `RowsHarness` on an empty database with the kit's tables, and runs
each law of `ROWS_LAWS` on a harness of its own. No law is waived (CONTRIBUTING.md, habit 10).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from gateway.testing import (
    rows_basic_laws,
    rows_commit_order,
    rows_condition_laws,
    rows_fence_laws,
    rows_filter_laws,
)
from gateway.testing.rows_subject import (
    KIT_SETTINGS,
    KIT_TABLES,
    Answer,
    Client,
    RowsHarness,
    RowsStore,
)

__all__ = [
    "KIT_SETTINGS",
    "KIT_TABLES",
    "ROWS_LAWS",
    "Answer",
    "Client",
    "RowsHarness",
    "RowsLaw",
    "RowsStore",
]

RowsLaw = Callable[[RowsHarness], Awaitable[None]]

_ROOMS: Final = (
    rows_basic_laws,
    rows_filter_laws,
    rows_condition_laws,
    rows_fence_laws,
    rows_commit_order,
)

ROWS_LAWS: Final[tuple[RowsLaw, ...]] = tuple(
    law for room in _ROOMS for name, law in vars(room).items() if name.startswith("check_")
)
"""All laws, in the order in which their modules state them."""
