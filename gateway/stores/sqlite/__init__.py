"""The SQLite rows store: rows, and the fence of their scopes, in one file."""

from gateway.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
