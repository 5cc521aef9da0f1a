"""The `postgres` registry: the ledger in one function, and one transaction, a step."""

from gateway.registries.postgres.registry import PostgresRegistry

__all__ = ["PostgresRegistry"]
