"""Owns the PostgreSQL store: the port's verbs over one database that keeps its own fence.

Its guarantee is exact: marks are checked in the transaction that writes, and a raise commits there
and waits for older writes before it is answered (protocol, rule 11).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from gateway.dialects.rows import problems
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
    CarryFailed,
    ProbeFailed,
    ReadRefused,
    ReadResult,
    WriteFence,
    WriteResult,
)
from gateway.stores.postgres import probe, schema
from gateway.stores.postgres.answers import judge_prior, judge_read_rows, mark_of
from gateway.stores.postgres.catalogue import CatalogueError
from gateway.stores.postgres.connection import Target, open_connection, session_settings
from gateway.stores.postgres.failures import (
    Unreachable,
    Way,
    is_driver_error,
    understand,
    unreachable_problem,
)
from gateway.stores.postgres.lanes import Lanes
from gateway.stores.postgres.predicates import UnknownColumn
from gateway.stores.postgres.reads import build_read
from gateway.stores.postgres.requests import Requests
from gateway.stores.postgres.sql import Arguments, Statement, compose
from gateway.stores.postgres.tables import Tables
from gateway.stores.postgres.writer import Writer, row_write

RAISE_CONNECTIONS: Final = 2
KEEPER_CONNECTIONS: Final = 1
_ANSWER_GRACE_S: Final = 2.0
"""How long after the server's own time-out an answer is still waited for."""
_READ_TRIES: Final = 3

_RAISE: Final = (
    "SELECT era, token, burnt, holder FROM "
    "fencegate.raise_mark({scope}, {era}, {token}, {burnt}, {holder})"
)


class TableRules(Protocol):
    """What a policy says about a table."""

    @property
    def version_column(self) -> str | None:
        """The integer column that is raised with every change, if any."""
        ...


class PostgresStore:
    """Rows of one PostgreSQL schema, fenced in the database itself.

    `pool_size` connections are shared out between writes and reads; besides these there are two
    for raises, one for finding out and for the catalogue, and one for health checks, so that no
    write can starve them.
    """

    def __init__(
        self,
        name: str,
        dsn: str,
        *,
        tables: Mapping[str, TableRules],
        schema: str = "public",
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
        self._target = Target(name, dsn, connect_timeout_ms / 1000)
        self._settings = session_settings(
            name, lock_timeout_ms=lock_timeout_ms, statement_timeout_ms=statement_timeout_ms
        )
        self._deadline_s = statement_timeout_ms / 1000 + _ANSWER_GRACE_S
        self._wait_s = acquire_timeout_ms / 1000
        writing = max(1, (pool_size * 6 + 9) // 10)
        self._writing = self._lanes("writes", writing)
        self._reading = self._lanes(
            "reads", max(1, pool_size - writing), default_transaction_read_only="on"
        )
        self._raising = self._lanes("raises", RAISE_CONNECTIONS)
        self._keeping = self._lanes("housekeeping", KEEPER_CONNECTIONS, search_path="")
        self._checking = self._lanes("health checks", 1)
        versions = {table: rules.version_column for table, rules in tables.items()}
        self._tables = Tables(self._keeping, schema, versions, deadline_s=self._deadline_s)
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
        self._raises = Raises(self._raise_mark)

    def _lanes(self, purpose: str, size: int, **settings: str) -> Lanes:
        wanted = {**self._settings, **settings}
        return Lanes(
            lambda: open_connection(self._target, wanted),
            size=size,
            wait_s=self._wait_s,
            purpose=purpose,
        )

    def __repr__(self) -> str:
        return f"PostgresStore({self.name!r}, {self._target.where})"

    def catalogue(self) -> Catalogue:
        """The tables that workers may reach; empty before `probe`."""
        return self._tables.catalogue

    async def look(self, operation: Operation, scope: Scope) -> Look | ReadRefused:
        """Nothing to look at: the transaction that writes checks everything."""
        return NotLooked()

    async def write(self, operation: Operation, body: Body, fence: WriteFence) -> WriteResult:
        """Carry a mutation out in one statement that checks the mark itself.

        Once the statement has left, cancelling the call only delays it: its end is waited for and
        returned. An answer that is lost is found out in the database.
        """
        return await self._writer.write(operation, fence)

    async def find_out(self, operation: Operation, fence: WriteFence, age_s: float) -> WriteResult:
        """See `FindsOut`: the write's id is claimed, so that what is found stays true."""
        del age_s
        return await self._writer.find_out(row_write(operation), fence.write_id)

    async def recall(
        self, operation: Operation, scope: Scope, era: Era | None
    ) -> WriteResult | None:
        """See `Recalls`."""
        name = request_name(operation, scope)
        if name is None or era is None:
            return None
        record = await self._requests.recall(f"{era}.{name.digest}")
        return None if record is None else judge_prior(record, row_write(operation), name.content)

    async def read(self, operation: Operation) -> ReadResult:
        """Answer a read from a read-only connection, in one statement."""
        action = operation.action
        if not isinstance(action, SelectRows):
            raise TypeError(f"not a read of rows: {type(action).__name__}")
        exact = operation.resource.exact
        problem = problems.busy("the read was in the way of others")
        for _ in range(_READ_TRIES):
            statement = self._read_statement(action)
            if isinstance(statement, Problem):
                return ReadRefused(statement)
            try:
                rows = await self._reading.run(statement, deadline_s=self._deadline_s)
            except (LanesBusy, Unreachable) as error:
                return ReadRefused(unreachable_problem(error))
            except Exception as error:
                if not is_driver_error(error):
                    raise
                failure = understand(error)
            else:
                return judge_read_rows(rows[0], action, operation.conditions, exact=exact)
            problem = failure.problem
            match failure.way:
                case Way.ANSWER | Way.LOST:
                    break
                case Way.RELOAD if not await self._tables.reload():
                    break
        return ReadRefused(problem)

    def _read_statement(self, action: SelectRows) -> Statement | Problem:
        shape = self._tables.shape(action.table)
        if isinstance(shape, Problem):
            return shape
        try:
            return build_read(shape, action)
        except UnknownColumn as unknown:
            return problems.no_column(unknown.column, action.table)

    async def carry(self, scope: Scope, mark: Mark) -> Mark | None:
        """Commit the mark, after every older write of the scope has ended (rule 11).

        Answers the database's mark when it is above ours. Raises `CarryFailed` when an older
        write does not end within the lock time-out, or the database cannot be reached.
        """
        after = await self._raises.carry(scope, mark)
        return after if after.rank > mark.rank else None

    async def _raise_mark(self, scope: Scope, mark: Mark) -> Mark:
        arguments = Arguments()
        text = compose(
            _RAISE,
            scope=arguments.text(scope),
            era=arguments.number(mark.era),
            token=arguments.number(mark.token),
            burnt=arguments.truth(mark.burnt),
            holder=arguments.text(mark.holder),
        )
        try:
            rows = await self._raising.run(arguments.statement(text), deadline_s=self._deadline_s)
        except (LanesBusy, Unreachable) as error:
            reason = str(error)
        except Exception as error:
            if not is_driver_error(error):
                raise
            reason = understand(error).problem.message
        else:
            after = mark_of(rows[0])
            if after is not None:
                return after
            reason = "the database did not keep it"
        raise CarryFailed(f'store "{self.name}": the mark was not raised: {reason}')

    async def probe(self) -> Capabilities:
        """Prove the fence's schema, the role's rights, the isolation and the tables.

        Raises `ProbeFailed`; for a missing or older schema its text holds the SQL.
        """
        try:
            server = (await self._ask(probe.SERVER_QUERY, self._writing))[0]
            probe.judge_server(self.name, server)
            versions = await self._ask(probe.RIGHTS_QUERY) if server["is_migrated"] else []
            probe.judge_schema(self.name, versions[0]["version"] if versions else 0)
            probe.judge_rights(self.name, versions[0], server["role"])
            await self._ask(probe.GUARD_QUERY, self._writing)
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
            text = self._target.hide(str(error))
            raise ProbeFailed(f'store "{self.name}" at {self._target.where}: {text}') from None
        tables = self._tables.catalogue.tables.values()
        conditions = any(table.version_column is not None for table in tables)
        self.capabilities = probe.capabilities(server, conditions=conditions)
        return self.capabilities

    async def check(self) -> str | None:
        """See `Store.check`: the server answers and takes writes."""
        try:
            rows = await self._checking.run(probe.CHECK_QUERY, deadline_s=self._deadline_s)
        except (LanesBusy, Unreachable) as error:
            return str(error)
        except Exception as error:
            if not is_driver_error(error):
                raise
            return understand(error).problem.message
        if rows[0]["is_read_only"]:
            return f"{self._target.where} takes no writes; let dsn name the primary"
        return None

    async def _ask(
        self, statement: Statement, lanes: Lanes | None = None
    ) -> list[Mapping[str, Any]]:
        return await (lanes or self._keeping).run(statement, deadline_s=self._deadline_s)

    async def migrate(self) -> schema.Migration:
        """Create or upgrade the fence's schema; safe to repeat.

        Raises `ProbeFailed` when the database cannot be reached, refuses, or is newer.
        """
        settings = {**self._settings, "default_transaction_read_only": "off"}
        try:
            connection = await open_connection(self._target, settings)
        except Unreachable as error:
            raise ProbeFailed(f"{error}; check dsn and that the server runs") from None
        try:
            return await schema.migrate(connection)
        except schema.NewerSchema as error:
            raise ProbeFailed(f'store "{self.name}": {error}') from None
        except Exception as error:
            if not is_driver_error(error):
                raise
            text = self._target.hide(str(error))
            raise ProbeFailed(f'store "{self.name}": the migration was undone: {text}') from None
        finally:
            await connection.close()

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
