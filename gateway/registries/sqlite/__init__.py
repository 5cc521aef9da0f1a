"""The `sqlite` registry, the embedded default: durable marks in one file, one process at a time."""

from gateway.registries.sqlite.registry import SqliteRegistry

__all__ = ["SqliteRegistry"]
