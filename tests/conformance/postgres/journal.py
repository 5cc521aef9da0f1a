"""The order in which transactions committed, read from PostgreSQL's own write-ahead log."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import Any, Self

import asyncpg

_CHANGE = re.compile(
    r"table (?P<table>\S+): (?P<verb>INSERT|UPDATE|DELETE):(?P<columns>.*)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Change:
    """One changed row. `columns` is test_decoding's text: `name[type]:value` pairs.

    They are those of the new row; of a deleted row as much as its replica identity shows.
    """

    table: str
    verb: str
    columns: str

    def integer(self, name: str) -> int | None:
        """The value of an integer column, None when it is not shown."""
        found = re.search(rf"\b{name}\[(?:bigint|integer)\]:(-?\d+)", self.columns)
        return int(found[1]) if found else None

    def text(self, name: str) -> str | None:
        """The value of a text column without quotes in it, None when it is not shown."""
        found = re.search(rf"\b{name}\[text\]:'([^']*)'", self.columns)
        return found[1] if found else None


@dataclass(slots=True)
class Transaction:
    """One committed transaction with its changes."""

    xid: int
    changes: list[Change] = field(default_factory=list)


class CommitJournal:
    """A logical replication slot with test_decoding: transactions come out in commit order."""

    def __init__(self, connection: Any, slot: str) -> None:
        self._connection = connection
        self._slot = slot

    @classmethod
    async def start(cls, dsn: str) -> Self:
        """Begin to record. Needs `wal_level = logical`."""
        connection = await asyncpg.connect(dsn)
        slot = f"journal_{uuid.uuid4().hex[:12]}"
        await connection.execute(
            "SELECT pg_create_logical_replication_slot($1, 'test_decoding')", slot
        )
        return cls(connection, slot)

    async def transactions(self) -> list[Transaction]:
        """What has committed since the last call, first commit first."""
        rows = await self._connection.fetch(
            "SELECT data FROM pg_logical_slot_get_changes($1, NULL, NULL)", self._slot
        )
        found: list[Transaction] = []
        for (data,) in rows:
            if data.startswith("BEGIN "):
                found.append(Transaction(int(data.split()[1])))
            elif match := _CHANGE.match(data):
                columns = match["columns"].rpartition(" new-tuple:")[2]
                found[-1].changes.append(Change(match["table"], match["verb"], columns))
        return [one for one in found if one.changes]

    async def aclose(self) -> None:
        """Drop the slot: a database with one cannot be dropped."""
        await self._connection.execute("SELECT pg_drop_replication_slot($1)", self._slot)
        await self._connection.close()


@dataclass(frozen=True, slots=True)
class Effect:
    """A committed change of a scope, and the token of who made it."""

    scope: str
    token: int


def violations(effects: list[Effect]) -> int:
    """Count effects that come after one of a higher token in their scope: the commit-order law."""
    highest: dict[str, int] = {}
    broken = 0
    for effect in effects:
        top = highest.get(effect.scope, 0)
        broken += effect.token < top
        highest[effect.scope] = max(top, effect.token)
    return broken
