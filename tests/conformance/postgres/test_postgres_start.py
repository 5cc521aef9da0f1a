"""Start and migration: what a store refuses to start on, and that its words hold no secrets."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from gateway.model.mark import Scope
from gateway.ports.store import CarryFailed, NotWritten, ProbeFailed, ReadRefused
from gateway.stores.postgres import schema
from gateway.stores.postgres.store import PostgresStore
from tests.conformance.postgres.conftest import JOBS, OpenStore, Rules
from tests.conformance.postgres.requests import mark_at, operation, select, update, write
from tests.conformance.postgres.wire import Wire

SECRET = "hu%24h-hu%24h"  # "hu$h-hu$h", percent-encoded as a DSN has it


async def test_it_refuses_to_start_without_its_schema_and_prints_the_sql(
    open_store: OpenStore, raw: Any
) -> None:
    """The refusal names the command, and the SQL it prints is the migration itself."""
    await raw.execute(JOBS)
    store = await open_store({"jobs": "version"}, probe=False)
    with pytest.raises(ProbeFailed, match="fencegate migrate db") as caught:
        await store.probe()
    printed = str(caught.value).partition("\n\n")[2]
    await raw.execute(printed)
    assert (await store.probe()).exact
    assert (await store.migrate()).before == schema.VERSION


async def test_an_older_and_a_newer_schema_are_refused(open_store: OpenStore, raw: Any) -> None:
    """An older schema is refused with the way out; a newer one is neither used nor touched."""
    await raw.execute(JOBS)
    store = await open_store({"jobs": "version"})
    await raw.execute("UPDATE fencegate.version SET version = 0")
    with pytest.raises(ProbeFailed, match="schema fencegate is missing"):
        await store.probe()
    await raw.execute(f"UPDATE fencegate.version SET version = {schema.VERSION + 1}")
    for attempt in (store.probe, store.migrate):
        with pytest.raises(ProbeFailed, match="use the newer release"):
            await attempt()


async def test_migrations_can_be_repeated_and_run_side_by_side(
    open_store: OpenStore, raw: Any
) -> None:
    """Three migrations at once: one does it, the others find it done; marks survive them all."""
    stores = [await open_store({}, probe=False) for _ in range(3)]
    done = await asyncio.gather(*(store.migrate() for store in stores))
    assert sorted(one.before for one in done) == [0, schema.VERSION, schema.VERSION]
    await stores[0].carry(Scope("s"), mark_at(7))
    await stores[1].migrate()
    assert await raw.fetchval("SELECT token FROM fencegate.fence") == 7


async def test_a_migration_that_fails_leaves_nothing_behind(
    open_store: OpenStore, raw: Any
) -> None:
    """All or nothing: a half-made schema would be taken for a whole one."""
    await raw.execute("CREATE SCHEMA fencegate; CREATE TABLE fencegate.request (theirs int)")
    store = await open_store({}, probe=False)
    with pytest.raises(ProbeFailed, match=r'undone: relation "request" already exists'):
        await store.migrate()
    tables = "SELECT relname::text FROM pg_class WHERE relnamespace = 'fencegate'::regnamespace"
    assert [row[0] for row in await raw.fetch(tables)] == ["request"]


@pytest.mark.parametrize(
    "table, version, words",
    [
        ("nothing", None, 'no table "nothing" in schema "public"'),
        ("jobs", "name", 'no integer column "name".*tables.jobs.version_column'),
        ("jobs", "missing", 'no integer column "missing"'),
    ],
)
async def test_tables_that_are_not_there_are_refused_by_name(
    table: str, version: str | None, words: str, open_store: OpenStore, raw: Any
) -> None:
    """A typo in the policy is told at start, with the setting to change."""
    await raw.execute(JOBS)
    store = await open_store({table: version}, probe=False)
    await store.migrate()
    with pytest.raises(ProbeFailed, match=words):
        await store.probe()


async def test_a_foreign_table_is_refused(open_store: OpenStore, raw: Any) -> None:
    """Its rows commit on another server, so the fence could not be in the same transaction."""
    await raw.execute(
        "CREATE FOREIGN DATA WRAPPER away; CREATE SERVER far FOREIGN DATA WRAPPER away;"
        "CREATE FOREIGN TABLE there (id int) SERVER far"
    )
    store = await open_store({"there": None}, probe=False)
    await store.migrate()
    with pytest.raises(ProbeFailed, match="would not commit together with the fence"):
        await store.probe()


async def test_a_role_that_may_not_keep_the_fence_is_refused(
    jobs: PostgresStore, open_store: OpenStore, raw: Any, postgres_dsn: str
) -> None:
    """A worker's role without rights on the fence is told which rights; with them it starts."""
    role = f"writer_{urlsplit(postgres_dsn).path[-8:]}"
    await raw.execute(f"CREATE ROLE {role} LOGIN; GRANT ALL ON jobs TO {role}")
    try:
        dsn = postgres_dsn.replace("postgres@", f"{role}@")
        store = await open_store({"jobs": "version"}, dsn=dsn, probe=False)
        with pytest.raises(ProbeFailed, match=r"permission denied|may not use the fence"):
            await store.probe()
        await raw.execute(f"GRANT USAGE ON SCHEMA fencegate TO {role}")
        await raw.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA fencegate TO {role}")
        with pytest.raises(ProbeFailed, match="may not use the fence") as caught:
            await store.probe()
        await raw.execute(str(caught.value).partition(":\n")[2])
        assert (await store.probe()).exact
        assert await store.carry(Scope("jobs"), mark_at(2)) is None
        assert (await write(store, update("jobs", 1, state="x"), 2)).reply.count == 1
    finally:
        await raw.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def unreachable(dsn: str) -> str:
    """A port of this machine where nobody listens."""
    port = urlsplit(dsn).port
    return f"postgresql://worker:{SECRET}@127.0.0.1:1/db" if port else ""


SECRET_DSNS: list[Callable[[str], str]] = [
    unreachable,
    lambda dsn: dsn.replace("postgres@", f"nobody:{SECRET}@"),
    lambda dsn: dsn.replace("postgres@", f"postgres:{SECRET}@") + "_missing",
    lambda dsn: f"postgresql://worker:{SECRET}@127.0.0.1:notaport/db",
    lambda dsn: f"postgresql://worker@127.0.0.1:1/db?password={SECRET}",
    lambda dsn: f"postgresql://worker:{SECRET}@[::1/db",
    lambda dsn: f"postgresql://worker:{SECRET}@127.0.0.1:1/db?sslmode={SECRET}",
]


@pytest.mark.parametrize("make_dsn", SECRET_DSNS)
async def test_no_password_in_any_words(make_dsn: Callable[[str], str], postgres_dsn: str) -> None:
    """Errors, answers and representations name the place, never the password; nothing is lost."""
    store = PostgresStore("db", make_dsn(postgres_dsn), tables={"jobs": Rules()})
    told = [repr(store), repr(store._target)]
    for attempt in (store.probe, store.migrate):
        with pytest.raises(ProbeFailed, match='store "db": cannot connect') as caught:
            await attempt()
        told.append("".join(traceback.format_exception(caught.value)))
    with pytest.raises(CarryFailed) as failed:
        await store.carry(Scope("s"), mark_at(1))
    told.append("".join(traceback.format_exception(failed.value)))
    store._tables._shapes = await _some_shapes(postgres_dsn)
    written = await write(store, update("jobs", 1, state="x"))
    read = await store.read(operation(select("jobs")))
    assert isinstance(written, NotWritten)
    assert isinstance(read, ReadRefused)
    assert (written.problem.status, read.problem.status) == (503, 503)
    told += [repr(written), repr(read)]
    await store.aclose()
    for text in told:
        assert "hu$h" not in text
        assert "hu%24h" not in text


async def _some_shapes(dsn: str) -> Any:
    connection = await asyncpg.connect(dsn)
    await connection.execute(JOBS)
    await connection.close()
    store = PostgresStore("db", dsn, tables={"jobs": Rules()})
    await store._tables.load()
    await store.aclose()
    return store._tables._shapes


async def test_what_weakens_the_promise_is_said(jobs: PostgresStore) -> None:
    """The guarantee's line tells what the server's own settings take away."""
    assert "exact" in jobs.capabilities.guarantee
    assert "no synchronous standby" in jobs.capabilities.guarantee
    assert "fsync" not in jobs.capabilities.guarantee
    assert jobs.capabilities.conditions
    assert jobs.capabilities.settle_ms == 0


async def test_columns_that_come_and_go_are_noticed(jobs: PostgresStore, raw: Any) -> None:
    """After a DDL the next statement reads the tables again, once, and goes out as it should."""
    assert (await write(jobs, update("jobs", 1, ()), 1)).reply.count == 0
    whole = update("jobs", 1, (), state="a")
    assert '"name"' in (await write(jobs, whole)).reply.json
    await raw.execute("ALTER TABLE jobs DROP COLUMN name")
    written = await write(jobs, whole)
    assert '"name"' not in written.reply.json
    assert "name" not in {column.name for column in jobs.catalogue().tables["jobs"].columns}
    await raw.execute("ALTER TABLE jobs ADD COLUMN name text, ALTER COLUMN state TYPE varchar(9)")
    assert (await write(jobs, whole)).reply.count == 1
    read = await jobs.read(operation(select("jobs")))
    assert read.reply.count == 5
    refused = await write(jobs, update("jobs", 1, name="x"))
    assert isinstance(refused, NotWritten)
    assert (refused.problem.native, refused.problem.status) == ("42703", 400)


async def test_a_column_whose_type_changes_is_noticed(jobs: PostgresStore, raw: Any) -> None:
    """A body typed by yesterday's catalogue does not fit: read it again, write what was meant."""
    assert (await write(jobs, update("jobs", 1, state="7"))).reply.count == 1
    await raw.execute("UPDATE jobs SET state = NULL")
    await raw.execute("ALTER TABLE jobs ALTER COLUMN state TYPE jsonb USING NULL")
    assert (await write(jobs, update("jobs", 1, state={"a": 1}))).reply.count == 1
    assert await raw.fetchval("SELECT state->>'a' FROM jobs WHERE id = 1") == "1"


async def test_a_table_that_is_gone_is_said_to_be(jobs: PostgresStore, raw: Any) -> None:
    """A dropped table is a 404, for reads and writes, and never an empty success."""
    assert (await write(jobs, update("jobs", 1, state="a"))).reply.count == 1
    await raw.execute("DROP TABLE jobs")
    written = await write(jobs, update("jobs", 1, state="b"))
    read = await jobs.read(operation(select("jobs")))
    assert isinstance(written, NotWritten)
    assert isinstance(read, ReadRefused)
    assert (written.problem.status, read.problem.status) == (404, 404)


async def test_a_database_that_restarts_is_found_again(
    new_postgres: Callable[[], Any],
) -> None:
    """Connections that died with the server are replaced; reads and raises do not even notice."""
    server = new_postgres()
    connection = await asyncpg.connect(server.dsn())
    await connection.execute(JOBS)
    await connection.close()
    store = PostgresStore("db", server.dsn(), tables={"jobs": Rules("version")})
    await store.migrate()
    await store.probe()
    await store.carry(Scope("jobs"), mark_at(4))
    assert (await write(store, update("jobs", 1, state="a"), 4)).reply.count == 1
    server.crash()
    async with asyncio.timeout(5):
        while store._writing._idle[-1].alive:  # noqa: ASYNC110 - until the loop has seen it die
            await asyncio.sleep(0.005)
    down = await write(store, update("jobs", 1, state="b"), 4)
    assert isinstance(down, NotWritten)
    assert down.problem.status == 503
    server.restart()
    read = await store.read(operation(select("jobs")))
    assert read.reply.count == 5
    assert await store.carry(Scope("jobs"), mark_at(3)) == mark_at(4), "the fence was durable"
    assert (await write(store, update("jobs", 1, state="c"), 4)).reply.count == 1
    await store.aclose()


async def test_a_check_tells_a_lost_server_and_a_standby(
    open_store: OpenStore, wire: tuple[Wire, str], raw: Any
) -> None:
    """The check is None while the server takes writes; else it names the place, no password."""
    line, dsn = wire
    await raw.execute(JOBS)
    store = await open_store({"jobs": "version"}, dsn=dsn)
    assert await store.check() is None
    database = urlsplit(dsn).path.removeprefix("/")
    await raw.execute(f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')
    standby = await open_store({"jobs": "version"}, dsn=dsn, probe=False)
    assert "takes no writes" in (await standby.check() or "")
    await line.aclose()
    assert "cannot connect to 127.0.0.1" in (await store.check() or "")


async def test_a_check_does_not_wait_for_requests(open_store: OpenStore, raw: Any) -> None:
    """A store all of whose connections are busy is not down."""
    await raw.execute(JOBS)
    store = await open_store({"jobs": "version"}, pool_size=2)
    await raw.execute("BEGIN; LOCK TABLE jobs")
    waiting = [asyncio.create_task(store.read(operation(select("jobs")))) for _ in range(2)]
    assert await store.check() is None
    await raw.execute("COMMIT")
    await asyncio.gather(*waiting)
