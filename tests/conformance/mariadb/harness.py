"""MariaDB as the rows contract sees it: a database, its binary log, and stalls."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator
from typing import Any

from gateway.model.operation import Operation
from gateway.ports.body import Body
from gateway.ports.store import WriteFence, WriteResult
from gateway.stores.mariadb.store import MariadbStore
from gateway.testing.rows_contract import KIT_SETTINGS, KIT_TABLES
from tests.services.mariadb import MariadbServer

STALL_S = 0.012
_STALLS = [
    f"CREATE TRIGGER stall_{when}_{what} {when} {what} ON effects FOR EACH ROW "
    f"IF RAND() < 0.25 THEN DO SLEEP(RAND() * {STALL_S}); END IF"
    for when in ("BEFORE", "AFTER")
    for what in ("INSERT", "UPDATE", "DELETE")
]
# A row that is written as it stood is in no binary log: each change leaves something new in it.
_TOUCH = "CREATE TRIGGER touch BEFORE UPDATE ON effects FOR EACH ROW SET NEW.note = UUID()"
_TEXT = re.compile(r"\btext\b")
_HEAD = re.compile(r"^### (INSERT INTO|UPDATE|DELETE FROM) `[^`]+`\.`([^`]+)`$")
_CELL = re.compile(r"^###   @(\d+)=(-?\d+)")


def mariadb_sql(sql: str) -> str:
    """The kit's SQL with texts that can be keys: a `text` has no length to index."""
    return _TEXT.sub("varchar(400)", sql)


class StallingStore(MariadbStore):
    """The store, on a machine that is late now and then: between admission and statement."""

    chance: random.Random | None = None

    async def write(self, operation: Operation, body: Body, fence: WriteFence) -> WriteResult:
        """Write, sometimes a little later."""
        if self.chance is not None and self.chance.random() < 0.3:
            await asyncio.sleep(self.chance.random() * STALL_S)
        return await super().write(operation, body, fence)


def owners_in(log: str, table: str = "effects", place: int = 2) -> Iterator[int]:
    """The values of a column in all changes of a table, in the order of the binary log.

    The new row's, or a deleted row's (`mariadb-binlog -vv`, which writes WHERE before SET).
    """
    kind, found, last = "", "", None
    for line in log.splitlines():
        head = _HEAD.match(line)
        if head is not None or not line.startswith("###"):
            if kind and found == table:
                assert last is not None, line
                yield last
            kind, found, last = (head[1], head[2], None) if head is not None else ("", "", None)
        elif (cell := _CELL.match(line)) is not None and int(cell[1]) == place:
            last = int(cell[2])


class MariadbHarness:
    """One database with the kit's tables."""

    def __init__(
        self,
        dsn: str,
        server: MariadbServer,
        raw: Any,
        store_type: type[MariadbStore] = StallingStore,
    ) -> None:
        self.dsn = dsn
        self.store_type = store_type
        self.stores: list[MariadbStore] = []
        self._server = server
        self._raw = raw
        self._database = dsn.rpartition("/")[2]
        self._place = ("", 0)

    async def set_up(self) -> None:
        """Make the kit's tables, and triggers that stall."""
        for sql in (*map(mariadb_sql, KIT_TABLES.values()), *_STALLS, _TOUCH):
            await self.execute(sql)
        self._place = await asyncio.to_thread(self._server.place_in_binlog)

    async def open(self) -> MariadbStore:
        """Another replica."""
        store = self.store_type("db", self.dsn, tables=KIT_SETTINGS)
        self.stores.append(store)
        await store.migrate()
        await store.probe()
        return store

    async def execute(self, sql: str) -> None:
        """As another client."""
        await self.fetch(sql)

    async def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """As another client."""
        cursor = self._raw.cursor()
        await cursor.execute(sql)
        return list(await cursor.fetchall()) if cursor.description else []

    async def effects(self) -> list[int]:
        """Owners of changed rows in the order of the binary log."""
        after = await asyncio.to_thread(self._server.place_in_binlog)
        log = await asyncio.to_thread(self._server.binlog_from, *self._place, self._database)
        self._place = after
        return list(owners_in(log))

    def stall(self, seed: int) -> None:
        """The table's triggers stall writes anyway; now the stores themselves do too."""
        for number, store in enumerate(self.stores):
            if isinstance(store, StallingStore):
                store.chance = random.Random(seed + number)

    async def aclose(self) -> None:
        """Close every store."""
        for store in self.stores:
            await store.aclose()
