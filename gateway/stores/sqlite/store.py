"""The SQLite rows store: rows and their fence in one file, checked in the writing transaction.

Its guarantee is exact (wire contract, "What is promised"): protocol, rule 11.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from gateway.dialects.rows.etags import etag_of, judge_read
from gateway.dialects.rows.problems import (
    RequestError,
    beyond_the_end,
    busy,
    from_sqlstate,
    not_one_row,
)
from gateway.engine.disk_room import prove_room
from gateway.model.catalogue import Catalogue
from gateway.model.mark import Era, Mark, Scope
from gateway.model.operation import Operation
from gateway.model.problem import Code, Problem
from gateway.model.reply import NotModified, Rows
from gateway.model.row_action import SelectRows
from gateway.model.version import NotLooked
from gateway.policy.document import TableSettings
from gateway.ports.body import Body
from gateway.ports.store import (
    Capabilities,
    CarryFailed,
    MaybeWritten,
    NotWritten,
    ProbeFailed,
    ReadDone,
    ReadRefused,
    ReadResult,
    WriteFence,
    WriteResult,
    Written,
)
from gateway.stores.sqlite import sql, witness
from gateway.stores.sqlite.batch import Carried, NotCarried
from gateway.stores.sqlite.connection import OLDEST_SQLITE, Connect, Database, NotWalError
from gateway.stores.sqlite.errors import problem_of
from gateway.stores.sqlite.introspect import TableUnfit, read_catalogue
from gateway.stores.sqlite.readers import Readers
from gateway.stores.sqlite.result import Found, collect, readout
from gateway.stores.sqlite.schema import SchemaTooNewError, migrate
from gateway.stores.sqlite.transaction import CarryJob, WriteJob, run_write, settle_write
from gateway.stores.sqlite.writer import Writer

CAPABILITIES: Final = Capabilities(
    conditions=True,
    exact=True,
    settle_ms=0,
    guarantee="exact, whatever crashes: the mark is checked in the transaction that writes",
)


class SqliteStore:
    """Rows in a SQLite file. `tables` are those that workers may reach.

    `init` is SQL that runs before the tables are looked at, for a quick start. `path`'s directory
    is created. Times are in ms. `probe` opens the store; nothing is done before.
    """

    capabilities = CAPABILITIES

    def __init__(
        self,
        name: str,
        path: Path,
        *,
        tables: Mapping[str, TableSettings],
        init: str | None = None,
        lock_timeout_ms: int = 2_000,
        statement_timeout_ms: int = 10_000,
        connect: Connect = sqlite3.connect,
    ) -> None:
        self.name = name
        self._tables = tables
        self._init = init
        self._database = Database(path, lock_timeout_ms, connect)
        self._writer = Writer(name, self._open_writer, self._run_write, statement_timeout_ms)
        self._readers = Readers(name, self._database.open_reader, statement_timeout_ms)
        self._seen: tuple[int, Catalogue] | None = None

    def catalogue(self) -> Catalogue:
        """The tables as they were when last looked at. Raises RuntimeError before `probe`."""
        if self._seen is None:
            raise RuntimeError(f"store {self.name} was not probed")
        return self._seen[1]

    async def look(self, operation: Operation, scope: Scope) -> NotLooked:
        """Nothing to look at before admission: the transaction checks."""
        return NotLooked()

    async def write(self, operation: Operation, body: Body, fence: WriteFence) -> WriteResult:
        """Carry a mutation out in one transaction with its check. The body was parsed before."""
        result = await self._writer.submit(WriteJob(operation, fence))
        assert not isinstance(result, Carried | NotCarried | Exception)
        return result

    async def find_out(self, operation: Operation, fence: WriteFence, age_s: float) -> WriteResult:
        """See `FindsOut`: the write's id stands in the database, or is taken there from now on."""
        del operation, age_s
        try:
            found = await self._writer.call(
                lambda connection: settle_write(connection, fence.write_id)
            )
        except sqlite3.Error as error:
            text = f"the database cannot tell how the write ended: {problem_of(error).message}"
            return MaybeWritten(Problem(Code.OUTCOME_UNKNOWN, text))
        if found is not None:
            return Written(found)
        return NotWritten(busy("the database failed while it committed; nothing was changed"))

    async def recall(
        self, operation: Operation, scope: Scope, era: Era | None
    ) -> WriteResult | None:
        """See `Recalls`."""
        if era is None:
            return None
        try:
            return await self._readers.call(
                lambda connection: witness.recall_key(connection, operation, scope, era)
            )
        except sqlite3.Error:
            return None

    async def read(self, operation: Operation) -> ReadResult:
        """Answer a read from one snapshot."""
        try:
            answer = await self._readers.call(lambda connection: self._read(connection, operation))
        except RequestError as error:
            return ReadRefused(error.problem)
        except sqlite3.Error as error:
            return ReadRefused(problem_of(error))
        return ReadRefused(answer) if isinstance(answer, Problem) else ReadDone(answer)

    async def carry(self, scope: Scope, mark: Mark) -> Mark | None:
        """Raise the fence row to the mark in a transaction. Raises CarryFailed."""
        result = await self._writer.submit(CarryJob(scope, mark))
        if isinstance(result, NotCarried):
            raise CarryFailed(f"store {self.name}: {result.problem.message}")
        assert isinstance(result, Carried)
        return result.above

    async def probe(self) -> Capabilities:
        """Open the database, bring its fence schema up to date, read the catalogue.

        Raises ProbeFailed.
        """
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            needed = ".".join(map(str, OLDEST_SQLITE))
            raise ProbeFailed(
                f"store {self.name}: SQLite {sqlite3.sqlite_version} is too old; use a Python "
                f"with SQLite {needed} or newer"
            )
        try:
            await self._writer.open()
            await self._writer.call(self._look_at_tables)
        except (sqlite3.Error, OSError, NotWalError, SchemaTooNewError, TableUnfit) as error:
            raise ProbeFailed(f"store {self.name} ({self._database.path}): {error}") from error
        return CAPABILITIES

    async def check(self) -> str | None:
        """See `Store.check`: a connection of its own reads the tables, and the disk takes bytes."""
        try:
            await asyncio.to_thread(self._look_anew)
        except (sqlite3.Error, OSError, TableUnfit) as error:
            return f"{self._database.path}: {error}"
        return None

    async def migrate(self) -> int:
        """Create or upgrade the fence schema alone. Returns the version before.

        Raises ProbeFailed.
        """
        try:
            connection = self._database.open_writer()
            try:
                return migrate(connection)
            finally:
                connection.close()
        except (sqlite3.Error, OSError, NotWalError, SchemaTooNewError) as error:
            raise ProbeFailed(f"store {self.name} ({self._database.path}): {error}") from error

    async def aclose(self) -> None:
        """Finish the writes under way and close all connections."""
        await self._writer.aclose()
        await self._readers.aclose()

    # --- on the writer's thread -----------------------------------------------------------------
    def _open_writer(self) -> sqlite3.Connection:
        self._database.path.parent.mkdir(parents=True, exist_ok=True)
        connection = self._database.open_writer()
        try:
            migrate(connection)
            if self._init is not None:
                connection.executescript(self._init)
        except BaseException:
            connection.close()
            raise
        return connection

    def _run_write(self, connection: sqlite3.Connection, job: WriteJob) -> WriteResult:
        return run_write(connection, self._current(connection), job)

    # --- on a reader's thread, too --------------------------------------------------------------
    def _look_at_tables(self, connection: sqlite3.Connection) -> Catalogue:
        """Read the catalogue anew if another client changed a table. Raises TableUnfit."""
        version: int = connection.execute("PRAGMA schema_version").fetchone()[0]
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, read_catalogue(connection, self._tables))
        return self._seen[1]

    def _look_anew(self) -> None:
        with closing(self._database.open_reader()) as connection:
            read_catalogue(connection, self._tables)
        prove_room(self._database.path.parent)

    def _current(self, connection: sqlite3.Connection) -> Catalogue:
        """The catalogue that holds now. Raises RequestError when a table is gone."""
        try:
            return self._look_at_tables(connection)
        except TableUnfit as error:
            raise RequestError(from_sqlstate("42P01", str(error))) from None

    def _read(
        self, connection: sqlite3.Connection, operation: Operation
    ) -> Rows | NotModified | Problem:
        action = operation.action
        assert isinstance(action, SelectRows)
        table = self._current(connection).tables[action.table]
        shown = readout(table, action.columns, csv=action.csv)
        piece = sql.select(table, action, shown)
        found = collect(connection.execute(piece.sql, piece.values), shown)
        total = None
        if action.count is not None:
            counted = sql.count(table, action.filters)
            total = connection.execute(counted.sql, counted.values).fetchone()[0]
        row_version = None
        if operation.resource.exact or action.single:
            row_version = _version_in(found)
        return _judged(operation, action, found, row_version, total)


def _version_in(found: Found) -> int | None:
    """The version of the one row that was found."""
    one = found.count == 1 and isinstance(found.version, int)
    return found.version if one and isinstance(found.version, int) else None


def _judged(
    operation: Operation,
    action: SelectRows,
    found: Found,
    version: int | None,
    total: int | None,
) -> Rows | NotModified | Problem:
    """Evaluate the conditions of the read, then whether there is exactly one row if it must be."""
    if found.count <= 1 and (verdict := judge_read(operation.conditions, version)) is not None:
        return verdict
    if action.single and found.count != 1:
        return not_one_row(found.count)
    if total is not None and found.count == 0 and action.offset > 0 and action.offset >= total:
        return beyond_the_end(action.offset, total)
    etag = None if version is None else etag_of(version)
    return Rows(found.text, found.count, action.offset, etag, total=total)
