"""The fence in the database: raises, isolation, and who has to wait for whom."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from gateway.model.mark import Mark, Scope
from gateway.model.problem import Code
from gateway.ports.store import CarryFailed, FencedByStore, NotWritten, ProbeFailed, Written
from gateway.stores.postgres.connection import session_settings
from gateway.stores.postgres.store import PostgresStore
from tests.conformance.postgres.conftest import OpenStore
from tests.conformance.postgres.journal import CommitJournal, violations
from tests.conformance.postgres.order_race import (
    Race,
    StoreForm,
    effects_by_request,
    prepare,
)
from tests.conformance.postgres.requests import NoBody, fence, mark_at, operation, update, write

SCOPE = Scope("jobs")


async def test_a_token_in_two_hands_is_burnt_by_the_database(jobs: PostgresStore) -> None:
    """A forgetful registry cannot give one token to two holders: the fence row knows the first."""
    first, second = mark_at(2, holder="a"), mark_at(2, holder="b")
    assert await jobs.carry(SCOPE, mark_at(2)) is None
    assert await jobs.carry(SCOPE, first) is None  # binds the holder
    assert await jobs.carry(SCOPE, first) is None
    action = operation(update("jobs", 1, state="x"), token=2)
    refused = await jobs.write(action, NoBody(), fence(second))
    assert refused == FencedByStore(mark_at(2, holder="a", burnt=True))
    assert isinstance(await jobs.write(action, NoBody(), fence(mark_at(2))), Written)
    assert await jobs.carry(SCOPE, second) == mark_at(2, holder="a", burnt=True)
    refused = await jobs.write(action, NoBody(), fence(first))
    assert refused == FencedByStore(mark_at(2, holder="a", burnt=True))
    assert await jobs.carry(SCOPE, mark_at(3, holder="b")) is None
    assert isinstance(await jobs.write(action, NoBody(), fence(mark_at(3, holder="b"))), Written)


async def test_a_reset_starts_lower_in_a_higher_era(jobs: PostgresStore) -> None:
    """(2, 0) stands above (1, anything), and what was written under era 1 is fenced."""
    assert await jobs.carry(SCOPE, mark_at(50)) is None
    assert await jobs.carry(SCOPE, mark_at(0, era=2)) is None
    assert await jobs.carry(SCOPE, mark_at(51)) == mark_at(0, era=2)
    action = operation(update("jobs", 1, state="x"), token=50)
    assert await jobs.write(action, NoBody(), fence(mark_at(50))) == FencedByStore(
        mark_at(0, era=2)
    )


async def test_raises_at_once_end_at_the_highest(jobs: PostgresStore, raw: Any) -> None:
    """However raises overlap, the row never goes down and ends at the highest mark."""
    answers = await asyncio.gather(*(jobs.carry(SCOPE, mark_at(n)) for n in range(20, 1, -1)))
    assert await raw.fetchval("SELECT token FROM fencegate.fence WHERE scope = 'jobs'") == 20
    assert [one for one in answers if one is not None and one.token < 3] == []


@pytest.fixture
async def holding(postgres_dsn: str, jobs: PostgresStore) -> Any:
    """A foreign transaction that holds the scope's lock as a stalled older write would."""
    connection = await asyncpg.connect(postgres_dsn)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("SELECT fencegate.admit('jobs', 1, 1, NULL)")
    yield transaction
    await connection.close()


async def test_a_raise_waits_for_the_stalled_write(
    jobs: PostgresStore, holding: Any, raw: Any
) -> None:
    """The raise is answered when the older write has ended, and not before."""
    raising = asyncio.create_task(jobs.carry(SCOPE, mark_at(2)))
    await wait_for_waiters(raw, 1)
    assert not raising.done()
    assert await raw.fetchval("SELECT token FROM fencegate.fence") == 1
    await holding.commit()
    assert await raising is None


async def test_a_raise_that_waits_too_long_fails_and_raises_nothing(
    open_store: OpenStore, holding: Any, raw: Any
) -> None:
    """The lock time-out bounds a raise. The mark is where it was, and can be raised later."""
    store = await open_store({"jobs": "version"}, lock_timeout_ms=100)
    with pytest.raises(CarryFailed, match="lock timeout"):
        await store.carry(SCOPE, mark_at(2))
    assert await raw.fetchval("SELECT token FROM fencegate.fence") == 1
    await holding.commit()
    assert await store.carry(SCOPE, mark_at(2)) is None


async def test_a_known_mark_is_carried_without_waiting(jobs: PostgresStore, holding: Any) -> None:
    """A mark that has committed had waited then: carrying it again takes no lock."""
    async with asyncio.timeout(1):
        assert await jobs.carry(SCOPE, mark_at(1)) is None


async def test_raises_of_one_scope_share_one_connection(
    jobs: PostgresStore, holding: Any, raw: Any
) -> None:
    """Fifty requests of a new token wait on one raise, and a raise elsewhere is not held up.

    A caller that gives up takes nobody along.
    """
    callers = [asyncio.create_task(jobs.carry(SCOPE, mark_at(2))) for _ in range(50)]
    await wait_for_waiters(raw, 1)
    callers[0].cancel()
    async with asyncio.timeout(1):
        assert await jobs.carry(Scope("other"), mark_at(1)) is None
    assert await raw.fetchval(WAITERS) == 1
    await holding.commit()
    assert await asyncio.gather(*callers[1:]) == [None] * 49
    with pytest.raises(asyncio.CancelledError):
        await callers[0]


WAITERS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


async def wait_for_waiters(raw: Any, count: int) -> None:
    """Poll until so many backends wait for an advisory lock."""
    async with asyncio.timeout(5):
        while await raw.fetchval(WAITERS) < count:  # noqa: ASYNC110 - the server raises no event
            await asyncio.sleep(0.005)


async def test_a_stalled_scope_starves_no_other(
    open_store: OpenStore, jobs: PostgresStore, raw: Any
) -> None:
    """Writes of a scope whose raise hangs are refused as busy; other scopes write on."""
    store = await open_store(
        {"jobs": "version"}, pool_size=10, lock_timeout_ms=3_000, acquire_timeout_ms=200
    )
    await store.carry(Scope("other"), mark_at(1))
    await raw.execute("BEGIN")
    await raw.execute("SELECT pg_advisory_xact_lock(fencegate.lock_key('jobs'))")
    stalled = [asyncio.create_task(write(store, update("jobs", 1, state="x"))) for _ in range(12)]
    done: set[asyncio.Task[Any]] = set()
    waiting = set(stalled)
    async with asyncio.timeout(2):
        while len(done) < 8:  # four of six connections at most are held by the scope
            ended, waiting = await asyncio.wait(waiting, return_when="FIRST_COMPLETED")
            done |= ended
    for task in done:
        result = task.result()
        assert isinstance(result, NotWritten)
        assert (result.problem.status, result.problem.retry_after_s) == (503, 1)
        assert "writes of this scope" in result.problem.message
    async with asyncio.timeout(1):
        for number in range(10):
            other = await write(store, update("jobs", 2, state=str(number)), scope="other")
            assert isinstance(other, Written)
    await raw.execute("COMMIT")
    assert all(isinstance(result, Written) for result in await asyncio.gather(*waiting))


async def test_a_role_with_another_isolation_is_overruled(
    jobs: PostgresStore, open_store: OpenStore, raw: Any
) -> None:
    """A role's default of REPEATABLE READ does not reach the store's connections."""
    await raw.execute(
        f"ALTER ROLE postgres IN DATABASE {await database(raw)} SET "
        "default_transaction_isolation = 'repeatable read'"
    )
    store = await open_store({"jobs": "version"})
    assert isinstance(await write(store, update("jobs", 1, state="x")), Written)


async def database(raw: Any) -> str:
    """The test's database."""
    name: str = await raw.fetchval("SELECT current_database()")
    return name


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_the_guard_refuses_other_isolation_levels(
    level: str, jobs: PostgresStore, raw: Any
) -> None:
    """Above READ COMMITTED the check would pass on old data: the functions refuse to answer."""
    for call in ("admit('jobs', 1, 1, NULL)", "raise_mark('jobs', 1, 9, false, NULL)"):
        with pytest.raises(asyncpg.PostgresError, match=level.upper()) as caught:
            async with raw.transaction(isolation=level.replace(" ", "_")):
                await raw.fetch(f"SELECT fencegate.{call}")
        assert caught.value.sqlstate == "PT500"


def repeatable(*names: str, **limits: int) -> dict[str, str]:
    """Session settings of a pooler that lets the role's isolation through."""
    return {
        **session_settings(*names, **limits),
        "default_transaction_isolation": "repeatable read",
    }


async def test_a_store_on_the_wrong_isolation_does_not_start_and_does_not_write(
    jobs: PostgresStore, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, raw: Any
) -> None:
    """Should connections come up at REPEATABLE READ after all: refused by name at start; later,
    each write is refused for certain."""
    monkeypatch.setattr("gateway.stores.postgres.store.session_settings", repeatable)
    store = await open_store({"jobs": "version"}, probe=False)
    with pytest.raises(ProbeFailed, match=r"REPEATABLE READ.*pooler"):
        await store.probe()
    await store._tables.load()
    result = await write(store, update("jobs", 1, state="x"))
    assert isinstance(result, NotWritten)
    assert (result.problem.native, result.problem.status) == ("PT500", 500)
    with pytest.raises(CarryFailed, match="READ COMMITTED"):
        await store.carry(SCOPE, mark_at(2))
    assert await raw.fetchval("SELECT state FROM jobs WHERE id = 1") == "new"


async def test_without_its_guard_the_wrong_isolation_fails_silently(
    postgres_dsn: str,
    open_store: OpenStore,
    journal: CommitJournal,
    monkeypatch: pytest.MonkeyPatch,
    raw: Any,
) -> None:
    """Negative control: that refusal is what keeps stale writes out, nothing else complains."""
    await prepare(postgres_dsn, journal)
    await open_store({"items": None})  # migrates
    await raw.execute(
        "CREATE OR REPLACE FUNCTION fencegate.demand_read_committed() RETURNS void "
        "LANGUAGE plpgsql VOLATILE AS 'BEGIN END'"
    )
    monkeypatch.setattr("gateway.stores.postgres.store.session_settings", repeatable)
    stores = [await open_store({"items": None}, probe=False, pool_size=20) for _ in range(2)]
    for store in stores:
        await store._tables.load()
    race = Race(StoreForm(stores))
    await race.run(lambda now: now.accepted >= 600, 40)
    assert violations(effects_by_request(await journal.transactions(), race.jobs)) > 0


async def test_a_raise_is_durable_whatever_the_server_says(
    jobs: PostgresStore, raw: Any, journal: CommitJournal
) -> None:
    """A raise commits with synchronous_commit on, in a database that has it off."""
    await raw.execute(f"ALTER DATABASE {await database(raw)} SET synchronous_commit = off")
    await raw.execute(
        "CREATE TABLE seen (setting text);"
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN INSERT INTO seen SELECT current_setting(''synchronous_commit''); RETURN NULL; END'"
        ";CREATE CONSTRAINT TRIGGER note AFTER INSERT OR UPDATE ON fencegate.fence "
        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note()"
    )
    await jobs._raising._close_idle()  # the setting reaches new connections
    assert await jobs.carry(SCOPE, mark_at(2)) is None
    assert await raw.fetch("SELECT setting FROM seen") == [("on",)]
    assert await raw.fetchval("SELECT current_setting('synchronous_commit')") == "on"


async def test_scopes_are_any_text(jobs: PostgresStore) -> None:
    """Scope names are compared byte by byte: case, blanks, quotes and accents tell them apart."""
    names = ["A", "a", "a ", "ä", "a\u0308", "'; DROP TABLE jobs; --", '"', "\\", "x" * 512]
    for number, name in enumerate(names, 1):
        assert await jobs.carry(Scope(name), mark_at(number)) is None
    for number, name in enumerate(names, 1):
        above: Mark | None = await jobs.carry(Scope(name), mark_at(0))
        assert above == mark_at(number)


async def test_a_deadlock_is_tried_again(jobs: PostgresStore, raw: Any, postgres_dsn: str) -> None:
    """A write that the server picks as a deadlock's victim is sent again, and then applied."""
    other = await asyncpg.connect(postgres_dsn)
    try:
        await raw.execute(f"ALTER DATABASE {await database(raw)} SET deadlock_timeout = '50ms'")
        await jobs._writing._close_idle()  # the setting reaches new connections
        await raw.execute(
            "CREATE FUNCTION second() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN IF NEW.id = 1 THEN UPDATE jobs SET name = name WHERE id = 2; END IF; "
            "RETURN NULL; END'; "
            "CREATE TRIGGER second AFTER UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION second()"
        )
        await other.execute("BEGIN; SET LOCAL deadlock_timeout = '10s'")
        await other.execute("UPDATE jobs SET name = 'other' WHERE id = 2")
        writing = asyncio.create_task(write(jobs, update("jobs", 1, state="done")))
        async with asyncio.timeout(5):
            while not await raw.fetchval(  # noqa: ASYNC110 - the server raises no event
                "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"
            ):
                await asyncio.sleep(0.005)
        blocked = asyncio.create_task(other.execute("UPDATE jobs SET name = 'o' WHERE id = 1"))
        await blocked
        await other.execute("COMMIT")
        result = await writing
    finally:
        await other.close()
    assert isinstance(result, Written)
    assert await raw.fetchval("SELECT state FROM jobs WHERE id = 1") == "done"


async def test_a_lock_wait_is_busy(jobs: PostgresStore, open_store: OpenStore, raw: Any) -> None:
    """A row that another client holds too long: certainly not written, come again."""
    store = await open_store({"jobs": "version"}, lock_timeout_ms=80)
    async with raw.transaction():
        await raw.execute("UPDATE jobs SET name = 'held' WHERE id = 1")
        result = await write(store, update("jobs", 1, state="x"))
    assert isinstance(result, NotWritten)
    assert result.problem.code is Code.BUSY
    assert result.problem.retry_after_s == 1


async def test_the_statement_leaves_in_the_gates_own_step(
    jobs: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the real driver: no task runs between the gate's answer and the bytes of the write."""
    await write(jobs, update("jobs", 1, state="prepared"))
    log: list[str] = []
    lane = jobs._writing._idle[-1]
    transport = lane._connection._transport
    send = transport.write

    def logged(data: bytes) -> None:
        log.append("bytes")
        send(data)

    monkeypatch.setattr(transport, "write", logged)

    def gate() -> None:
        asyncio.get_running_loop().call_soon(log.append, "somebody else")
        log.append("gate")

    action = operation(update("jobs", 1, state="sent"))
    result = await jobs.write(action, NoBody(), fence(mark_at(1), gate=gate))
    assert isinstance(result, Written)
    assert log == ["gate", "bytes", "somebody else"]
