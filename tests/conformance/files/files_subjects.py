"""The two layouts of the files store as subjects of the object-store contract, with journals."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from tempfile import TemporaryDirectory

from gateway.model.problem import Code
from gateway.stores.files import BucketStore, TreeStore
from gateway.testing.store_contract import Effect, OpenSubject, Subject, Traits
from tests.conformance.files.kernel_journal import KernelJournal

TREE = Traits(bucketed=False, numbered=True)
BUCKETS = Traits(bucketed=True, numbered=True, absent_code=Code.NOT_FOUND)


def open_tree(
    make: Callable[[str, Path], TreeStore] = TreeStore, traits: Traits = TREE
) -> OpenSubject:
    """Opens a fresh tree; its journal is the kernel's."""

    @asynccontextmanager
    async def open_subject() -> AsyncIterator[Subject]:
        with TemporaryDirectory(prefix="fencegate-tree-") as directory:
            root = Path(directory)
            store = make("files", root)
            await store.probe()
            uploads = [path for path in (root / ".fencegate/tmp").iterdir() if path.is_dir()]
            journal = KernelJournal(uploads, root)
            try:
                yield Subject(store, traits, journal=journal)
            finally:
                journal.close()
                await store.aclose()

    return open_subject


class IndexJournal:
    """A table that the database itself fills, in each write's transaction: the commit order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(
                """
                CREATE TABLE effects(number INTEGER PRIMARY KEY AUTOINCREMENT,
                  key BLOB NOT NULL, write_id TEXT NOT NULL);
                CREATE TRIGGER effect AFTER INSERT ON objects BEGIN
                  INSERT INTO effects(key, write_id)
                  VALUES(NEW.key, json_extract(NEW.record, '$.write_id'));
                END;
                """
            )

    async def __call__(self) -> list[Effect]:
        with closing(sqlite3.connect(self._path)) as connection:
            found = connection.execute("SELECT key, write_id FROM effects ORDER BY number")
            return [Effect(key.decode(), write_id) for key, write_id in found]


def open_buckets(
    make: Callable[[str, Path, list[str]], BucketStore] = BucketStore, traits: Traits = BUCKETS
) -> OpenSubject:
    """Opens a fresh bucket store; its journal is filled by a trigger of its index."""

    @asynccontextmanager
    async def open_subject() -> AsyncIterator[Subject]:
        with TemporaryDirectory(prefix="fencegate-buckets-") as directory:
            root = Path(directory)
            store = make("objects", root, ["kit", "other"])
            await store.probe()
            journal = IndexJournal(root / "index.sqlite")
            try:
                yield Subject(store, traits, bucket="kit", journal=journal)
            finally:
                await store.aclose()

    return open_subject
