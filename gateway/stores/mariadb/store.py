"""The MariaDB store: the port's verbs over one database that keeps its own fence.

Its guarantee is exact: marks are checked in the transaction that writes, and a raise commits there
and waits for older writes before it is answered (protocol, rule 11).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.dialects.rows import problems
from gateway.dialects.rows.problems import RequestError
from gateway.engine.bulkhead import Bulkhead, LanesBusy
from gateway.engine.raises import Raises
from gateway.model.catalogue import Catalogue
from gateway.model.mark import Era, Mark, Scope
from gateway.model.operation import Operation
from gateway.model.problem import Problem
from gateway.model.row_action import SelectRows
from gateway.model.version import Look, NotLooked
from gateway.model.write_id import request_name
from gateway.ports.body import Body
from gateway.ports.store import (
    Capabilities,
    ProbeFailed,
    ReadDone,
    ReadRefused,
    ReadResult,
    WriteFence,
    WriteResult,
)
from gateway.stores.mariadb import fence as witness
from gateway.stores.mariadb import probe, reads, schema
from gateway.stores.mariadb.catalogue import CatalogueError, TableRules
from gateway.stores.mariadb.changes import Result
from gateway.stores.mariadb.connection import (
    Target,
    Tls,
    open_connection,
    read_only,
    session_settings,
)
from gateway.stores.mariadb.failures import (
    Unreachable,
    Way,
    is_driver_error,
    understand,
    unreachable_problem,
)
from gateway.stores.mariadb.lanes import Lane, Lanes
from gateway.stores.mariadb.probe import Server
from gateway.stores.mariadb.raises import FenceRows
from gateway.stores.mariadb.readout import readout
from gateway.stores.mariadb.requests import Requests
from gateway.stores.mariadb.sql import Sql
from gateway.stores.mariadb.tables import Tables
from gateway.stores.mariadb.writer import Writer

RAISE_CONNECTIONS: Final = 2
KEEPER_CONNECTIONS: Final = 1
_ANSWER_GRACE_S: Final = 2.0
"""How long after the server's own time-out an answer is still waited for."""
_READ_TRIES: Final = 3
_DENIED: Final = frozenset({1044, 1142, 1143, 1227})


class MariadbStore:
    """Rows of one MariaDB database, fenced in the database itself.

    `pool_size` connections are shared out between writes and reads; besides these there are two
    for raises, one for finding out and for the catalogue, and one for health checks, so that no
    write can starve them. `password` goes before the one in `dsn`. Times are in ms.
    """

    def __init__(
        self,
        name: str,
        dsn: str,
        *,
        tables: Mapping[str, TableRules],
        password: str | None = None,
        tls: Tls | None = None,
        pool_size: int = 10,
        lock_timeout_ms: int = 2_000,
        statement_timeout_ms: int = 10_000,
        connect_timeout_ms: int = 2_000,
        acquire_timeout_ms: int = 1_000,
        find_out_ms: int = 5_000,
    ) -> None:
        self.name = name
        self.capabilities = Capabilities(
            conditions=False, exact=True, settle_ms=0, guarantee="not probed yet"
        )
        self._target = Target(name, dsn, password, connect_timeout_ms / 1000, tls)
        self._settings = session_settings(
            lock_timeout_ms=lock_timeout_ms, statement_timeout_ms=statement_timeout_ms
        )
        self._deadline_s = statement_timeout_ms / 1000 + _ANSWER_GRACE_S
        self._wait_s = acquire_timeout_ms / 1000
        writing = max(1, (pool_size * 6 + 9) // 10)
        self._writing = self._lanes("writes", writing, self._settings)
        self._reading = self._lanes("reads", max(1, pool_size - writing), read_only(self._settings))
        self._raising = self._lanes("raises", RAISE_CONNECTIONS, self._settings)
        self._keeping = self._lanes("housekeeping", KEEPER_CONNECTIONS, self._settings)
        self._checking = self._lanes("health checks", 1, self._settings)
        self._tables = Tables(
            self._keeping, self._target.database, tables, deadline_s=self._deadline_s
        )
        self._requests = Requests(
            self._keeping, deadline_s=self._deadline_s, find_out_s=find_out_ms / 1000
        )
        self._writer = Writer(
            self._writing,
            Bulkhead(max(1, writing * 2 // 3), self._wait_s),
            self._tables,
            self._requests,
            self._keeping,
            deadline_s=self._deadline_s,
        )
        fence_rows = FenceRows(name, self._raising, deadline_s=self._deadline_s)
        self._raises = Raises(fence_rows.raise_mark)

    def _lanes(self, purpose: str, size: int, settings: Sql) -> Lanes:
        return Lanes(
            lambda: open_connection(self._target, settings),
            size=size,
            wait_s=self._wait_s,
            purpose=purpose,
        )

    def __repr__(self) -> str:
        return f"MariadbStore({self.name!r}, {self._target.where})"

    def catalogue(self) -> Catalogue:
        """The tables that workers may reach; empty before `probe`."""
        return self._tables.catalogue

    async def look(self, operation: Operation, scope: Scope) -> Look | ReadRefused:
        """Nothing to look at: the transaction that writes checks everything."""
        return NotLooked()

    async def write(self, operation: Operation, body: Body, fence: WriteFence) -> WriteResult:
        """Carry a mutation out in one transaction that checks the mark itself.

        Once the first packet has left, cancelling the call only delays it: its end is waited for
        and returned. An answer that is lost is found out in the database.
        """
        return await self._writer.write(operation, fence)

    async def find_out(self, operation: Operation, fence: WriteFence, age_s: float) -> WriteResult:
        """See `FindsOut`: the write's id is claimed, so that what is found stays true."""
        del operation, age_s
        return await self._writer.find_out(fence.write_id)

    async def recall(
        self, operation: Operation, scope: Scope, era: Era | None
    ) -> WriteResult | None:
        """See `Recalls`."""
        name = request_name(operation, scope)
        if name is None or era is None:
            return None
        retry = witness.retry_of(name, era)
        assert retry is not None
        return await self._requests.recall(retry, name.content)

    async def read(self, operation: Operation) -> ReadResult:
        """Answer a read from a connection that cannot write, from one snapshot."""
        action = operation.action
        if not isinstance(action, SelectRows):
            raise TypeError(f"not a read of rows: {type(action).__name__}")
        problem = problems.busy("the read was in the way of others")
        for _ in range(_READ_TRIES):
            try:
                return await self._read(operation, action)
            except RequestError as refused:
                return ReadRefused(refused.problem)
            except (LanesBusy, Unreachable) as error:
                return ReadRefused(unreachable_problem(error))
            except Exception as error:
                if not is_driver_error(error):
                    raise
                failure = understand(error)
            problem = failure.problem
            match failure.way:
                case Way.ANSWER | Way.LOST:
                    break
                case Way.RELOAD if not await self._tables.reload():
                    break
        return ReadRefused(problem)

    async def _read(self, operation: Operation, action: SelectRows) -> ReadResult:
        shape = self._tables.shape(action.table)
        if isinstance(shape, Problem):
            return ReadRefused(shape)
        shown = readout(shape.table, action.columns, csv=action.csv)
        batch = reads.build_read(shape.table, action, shown)
        results = await self._reading.run(batch, deadline_s=self._deadline_s)
        answer = reads.judge(operation, action, shown, results)
        return ReadRefused(answer) if isinstance(answer, Problem) else ReadDone(answer)

    async def carry(self, scope: Scope, mark: Mark) -> Mark | None:
        """Commit the mark, after every older write of the scope has ended (rule 11).

        Answers the database's mark when it is above ours. Raises `CarryFailed` when an older
        write does not end within the lock time-out, or the database cannot be reached.
        """
        after = await self._raises.carry(scope, mark)
        return after if after.rank > mark.rank else None

    async def probe(self) -> Capabilities:
        """Prove the server's settings, the fence's tables, the user's rights and the tables.

        Raises `ProbeFailed`; for missing or older tables its text holds the SQL.
        """
        try:
            server = probe.read_server((await self._ask(probe.SERVER)).rows)
            probe.judge_server(self.name, server)
            found = (await self._ask(schema.EXISTS)).rows
            installed = (await self._ask(schema.INSTALLED)).rows if found else []
            probe.judge_schema(self.name, int(installed[0][0] or 0) if installed else 0)
            await self._prove_rights(server)
            await self._tables.load()
        except CatalogueError as error:
            raise ProbeFailed(f'store "{self.name}": {error}') from None
        except Unreachable as error:
            raise ProbeFailed(f"{error}; check dsn and that the server runs") from None
        except LanesBusy as error:
            raise ProbeFailed(f'store "{self.name}": {error}') from None
        except Exception as error:
            if not is_driver_error(error):
                raise
            raise ProbeFailed(self._words(error)) from None
        tables = self._tables.catalogue.tables.values()
        conditions = any(table.version_column is not None for table in tables)
        self.capabilities = probe.capabilities(server, conditions=conditions)
        return self.capabilities

    async def _prove_rights(self, server: Server) -> None:
        try:
            await self._writing.run(probe.FENCE, deadline_s=self._deadline_s)
        except Exception as error:
            if not is_driver_error(error) or understand(error).number not in _DENIED:
                raise
            words = self._target.hide(understand(error).text)
            database = self._target.database
            raise probe.no_rights(self.name, server, database, words) from None

    async def check(self) -> str | None:
        """See `Store.check`: the server answers, takes writes, and keeps marks durably."""
        try:
            results = await self._checking.run([probe.SERVER], deadline_s=self._deadline_s)
        except (LanesBusy, Unreachable) as error:
            return str(error)
        except Exception as error:
            if not is_driver_error(error):
                raise
            return understand(error).problem.message
        wrong = probe.misfit(probe.read_server(results[0].rows))
        return None if wrong is None else f"{self._target.where}: {wrong}"

    async def _ask(self, statement: Sql) -> Result:
        return (await self._writing.run([statement], deadline_s=self._deadline_s))[0]

    async def migrate(self) -> schema.Migration:
        """Create or upgrade the fence's tables; safe to repeat.

        Raises `ProbeFailed` when the database cannot be reached, refuses, or is newer.
        """
        try:
            connection = await open_connection(self._target, self._settings)
        except Unreachable as error:
            raise ProbeFailed(f"{error}; check dsn and that the server runs") from None
        lane = Lane(connection)
        try:
            return await schema.migrate(lane, self._deadline_s)
        except (schema.NewerSchema, schema.MigrationBusy) as error:
            raise ProbeFailed(f'store "{self.name}": {error}') from None
        except Exception as error:
            if not is_driver_error(error):
                raise
            raise ProbeFailed(f"{self._words(error)}; the migration can be repeated") from None
        finally:
            await lane.close()

    def _words(self, error: BaseException) -> str:
        said = understand(error).text or type(error).__name__
        return f'store "{self.name}" at {self._target.where}: {self._target.hide(said)}'

    async def aclose(self) -> None:
        """Close every connection, after the raises under way have ended."""
        await self._raises.aclose()
        await self._requests.aclose()
        for lanes in (
            self._writing,
            self._reading,
            self._raising,
            self._keeping,
            self._checking,
        ):
            await lanes.aclose()
