"""Who may use the gateway: a worker's key (decisions, "Access")."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class WorkerKey:
    """A static key: bearer token for http and rows, access key pair for s3.

    `stores` None means all stores. The secret never appears in a representation.
    """

    id: str
    secret: str = field(repr=False)
    stores: frozenset[str] | None = None

    def may_use(self, store: str) -> bool:
        """True when the key covers the store."""
        return self.stores is None or store in self.stores
