"""The resource: one thing in a store, in canonical form (decisions, "Canonical resources")."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """An object key, a row by primary key, or a URL path, so named that one thing has one name.

    `path` is the canonical form without a leading slash: `bucket/key`, `table/key`, or the raw
    path below the mount. `exact` is False for a mutation whose rows are not known by their key
    (`path` is then the table alone), and for one of a path with everything below it.
    """

    store: str
    path: str
    exact: bool = True
