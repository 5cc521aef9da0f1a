"""SQLite as the rows contract sees it: a file, a log table filled by triggers, and stalls."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from pathlib import Path
from typing import Any

from gateway.stores.sqlite import SqliteStore
from gateway.testing.rows_contract import KIT_SETTINGS, KIT_TABLES

STALL_SHARE = 0.2
STALL_MAX_S = 0.008

_LOG = """
CREATE TABLE effect_log(seq INTEGER PRIMARY KEY AUTOINCREMENT, token INTEGER NOT NULL);
CREATE TRIGGER log_insert AFTER INSERT ON effects BEGIN
  INSERT INTO effect_log(token) VALUES (NEW.owner); END;
CREATE TRIGGER log_update AFTER UPDATE ON effects BEGIN
  INSERT INTO effect_log(token) VALUES (NEW.owner); END;
CREATE TRIGGER log_delete AFTER DELETE ON effects BEGIN
  INSERT INTO effect_log(token) VALUES (OLD.owner); END;
"""


async def stalled(chance: random.Random) -> None:
    """What lies between check and write in a store that checks too early."""
    await asyncio.sleep(chance.random() * 0.03)


class SqliteHarness:
    """A database file with the kit's tables. SQLite has one writer, so `seq` is commit order."""

    def __init__(self, path: Path, store_type: type[SqliteStore] = SqliteStore) -> None:
        self.path = path
        self._store_type = store_type
        self._stores: list[SqliteStore] = []
        self._chance: random.Random | None = None
        self._read_up_to = 0
        connection = self._connection()
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(";".join(KIT_TABLES.values()) + ";" + _LOG)
        connection.close()

    async def open(self) -> SqliteStore:
        store = self._store_type(
            "db", self.path, tables=KIT_SETTINGS, lock_timeout_ms=10_000, connect=self._connect
        )
        await store.probe()
        self._stores.append(store)
        return store

    async def execute(self, sql: str) -> None:
        connection = self._connection()
        connection.execute(sql)
        connection.close()

    async def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        connection = self._connection()
        rows = connection.execute(sql).fetchall()
        connection.close()
        return rows

    async def effects(self) -> list[int]:
        rows = await self.fetch(
            f"SELECT seq, token FROM effect_log WHERE seq > {self._read_up_to} ORDER BY seq"
        )
        self._read_up_to = rows[-1][0] if rows else self._read_up_to
        return [token for _, token in rows]

    def stall(self, seed: int) -> None:
        self._chance = random.Random(seed)

    async def aclose(self) -> None:
        await asyncio.gather(*(store.aclose() for store in self._stores))

    def _connection(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, timeout=10)

    def _connect(self, *arguments: Any, **settings: Any) -> sqlite3.Connection:
        connection = sqlite3.connect(*arguments, **settings)
        connection.set_trace_callback(self._before_statement)
        return connection

    def _before_statement(self, statement: str) -> None:
        """SQLite calls this when a statement starts: between the check and the write, too."""
        if self._chance is not None and self._chance.random() < STALL_SHARE:
            time.sleep(self._chance.random() * STALL_MAX_S)
