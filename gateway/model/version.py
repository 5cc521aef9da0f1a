"""What a store holds for a resource at one moment: its version, and the stamp of who wrote it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.model.stamp import Stamp


@dataclass(frozen=True, slots=True)
class Absent:
    """The resource does not exist."""


@dataclass(frozen=True, slots=True)
class Present:
    """The resource exists. `etag` is opaque and keeps its quotes; `stamp` is None if not ours."""

    etag: str
    stamp: Stamp | None = None


@dataclass(frozen=True, slots=True)
class NotLooked:
    """The store needs no look before admission: it checks in the transaction or under a lock."""


Look = Absent | Present | NotLooked
