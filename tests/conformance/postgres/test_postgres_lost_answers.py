"""Applied, refused or unknown: what a store says when the answer to a write is lost."""

from __future__ import annotations

import asyncio
import random
import uuid
from dataclasses import replace
from typing import Any

import pytest

from gateway.model.mark import Scope
from gateway.model.problem import Code, Problem
from gateway.model.reply import Rows
from gateway.ports.store import MaybeWritten, NotWritten, Written
from gateway.stores.postgres.store import PostgresStore
from tests.conformance.postgres.conftest import JOBS, OpenStore
from tests.conformance.postgres.requests import (
    NoBody,
    delete,
    fence,
    insert,
    mark_at,
    operation,
    update,
    write,
)
from tests.conformance.postgres.wire import Fault, Wire

pytestmark = pytest.mark.usefixtures("jobs")


@pytest.fixture
async def through(wire: tuple[Wire, str], open_store: OpenStore, jobs: PostgresStore) -> Any:
    """A store whose connections lead through a wire, each with its statements prepared."""
    store = await open_store({"jobs": "version"}, dsn=wire[1], find_out_ms=1_000, pool_size=2)
    for action in (update("jobs", 5, (), state="warm"), delete("jobs", 99, ())):
        assert isinstance(await write(store, action), Written)
    return store


async def until(raw: Any, count: str) -> None:
    """Poll until the query counts something."""
    async with asyncio.timeout(5):
        while not await raw.fetchval(count):  # noqa: ASYNC110 - the server raises no event
            await asyncio.sleep(0.005)


async def state_of(raw: Any, key: int) -> tuple[str, int] | None:
    """State and version of a job, as another client reads them."""
    row = await raw.fetchrow("SELECT state, version FROM jobs WHERE id = $1", key)
    return None if row is None else tuple(row)


async def test_a_lost_answer_is_found_out_as_applied(
    through: PostgresStore, wire: tuple[Wire, str], raw: Any
) -> None:
    """The write had committed: the store says so, with the representation and the version."""
    wire[0].strike(Fault.ANSWER_LOST, "lost-1")
    result = await write(through, update("jobs", 1, (), state="done"), write_id="lost-1")
    assert wire[0].struck.is_set()
    assert isinstance(result, Written)
    assert isinstance(result.reply, Rows)
    assert result.reply.count == 1
    assert result.reply.etag == '"2"'
    assert '"state":"done"' in (result.reply.json or "")
    assert await state_of(raw, 1) == ("done", 2)


@pytest.mark.parametrize("verb", ["insert", "delete"])
async def test_a_lost_answer_of_any_verb_is_found_out(
    verb: str, through: PostgresStore, wire: tuple[Wire, str], raw: Any
) -> None:
    """A row that is there, or gone, tells nothing about who did it: the write id does."""
    action = delete("jobs", 2, ()) if verb == "delete" else insert("jobs", (), id=9)
    wire[0].strike(Fault.ANSWER_LOST, "lost-2")
    result = await write(through, action, write_id="lost-2")
    assert isinstance(result, Written)
    assert isinstance(result.reply, Rows)
    assert result.reply.count == 1
    assert result.reply.inserted == (verb == "insert")
    assert (await state_of(raw, 2) is None) == (verb == "delete")


async def test_a_lost_request_is_found_out_as_refused(
    through: PostgresStore, wire: tuple[Wire, str], raw: Any
) -> None:
    """The write never arrived: certainly not applied, and the client may try again."""
    wire[0].strike(Fault.REQUEST_LOST, "lost-3")
    result = await write(through, update("jobs", 1, state="done"), write_id="lost-3")
    assert isinstance(result, NotWritten)
    assert (result.problem.code, result.problem.status) == (Code.BUSY, 503)
    assert await state_of(raw, 1) == ("new", 1)


@pytest.mark.parametrize("void", [True, False])
async def test_a_write_found_out_as_refused_stays_refused(
    void: bool, through: PostgresStore, wire: tuple[Wire, str], raw: Any
) -> None:
    """A write still on its way when it is asked about can never commit afterwards.

    Negative control: without the void row it does, after it was reported as refused.
    """
    wire[0].strike(Fault.REQUEST_LATE, "late-1")
    result = await write(through, update("jobs", 1, state="late"), write_id="late-1")
    assert isinstance(result, NotWritten)
    if not void:
        await raw.execute("DELETE FROM fencegate.request WHERE write_id = 'late-1'")
    await wire[0].deliver()
    assert await state_of(raw, 1) == (("new", 1) if void else ("late", 2))


async def test_a_database_that_cannot_be_asked_leaves_it_unknown_until_the_retry(
    through: PostgresStore, wire: tuple[Wire, str], raw: Any
) -> None:
    """Unknown is said as unknown; the retry finds the first attempt and does not write again."""

    def go_down() -> None:
        wire[0].is_down = True

    wire[0].on_fault = go_down
    wire[0].strike(Fault.ANSWER_LOST, "first")
    action = update("jobs", 1, (), state="done")
    result = await _with_keepers_cut(through, write(through, action, write_id="first"))
    assert isinstance(result, MaybeWritten)
    assert (result.problem.code, result.problem.status) == (Code.OUTCOME_UNKNOWN, 504)
    wire[0].is_down = False
    second = fence(mark_at(1), write_id="second", previous_write_id="first")
    retried = await through.write(operation(action), NoBody(), second)
    assert isinstance(retried, Written)
    assert isinstance(retried.reply, Rows)
    assert '"state":"done"' in (retried.reply.json or "")
    assert await state_of(raw, 1) == ("done", 2)


async def _with_keepers_cut(store: PostgresStore, work: Any) -> Any:
    """Run with the connection for finding out cut as well: the whole database is away."""
    await store._keeping._close_idle()
    return await work


async def test_a_retry_of_an_attempt_that_never_arrived_writes(
    jobs: PostgresStore, raw: Any
) -> None:
    """`previous_write_id` of a write that did not commit: the retry is written, once."""
    again = fence(mark_at(1), write_id="second", previous_write_id="never-sent")
    result = await jobs.write(operation(update("jobs", 1, state="done")), NoBody(), again)
    assert isinstance(result, Written)
    assert await state_of(raw, 1) == ("done", 2)


async def test_the_same_request_with_its_own_id_is_applied_once(
    jobs: PostgresStore, raw: Any
) -> None:
    """Attempts that share the client's id of the request share one effect and one answer."""
    action = update("jobs", 1, (), state="done")
    first = await write(jobs, action, retry_key="r-1")
    second = await write(jobs, action, retry_key="r-1")
    other = await write(jobs, action, retry_key="r-2")
    assert isinstance(first, Written)
    assert second == replace(first, earlier=True)
    assert other != second
    assert await state_of(raw, 1) == ("done", 3)


async def test_attempts_of_one_request_at_the_same_time_have_one_effect(
    jobs: PostgresStore, raw: Any
) -> None:
    """Two replicas may get the same request at once: one commits, the other finds its answer."""
    await raw.execute(
        "CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_sleep(0.05); RETURN NULL; END';"
        "CREATE TRIGGER pause BEFORE UPDATE ON jobs FOR EACH STATEMENT EXECUTE FUNCTION pause()"
    )
    action = update("jobs", 1, (), state="done")
    results = await asyncio.gather(*(write(jobs, action, retry_key="same") for _ in range(3)))
    written = [result for result in results if isinstance(result, Written)]
    assert [w.earlier for w in sorted(written, key=lambda w: w.earlier)] == [False, True, True]
    assert all(w.reply == written[0].reply for w in written)
    assert await state_of(raw, 1) == ("done", 2)


async def test_killed_backends_never_make_an_answer_wrong(
    jobs: PostgresStore, open_store: OpenStore, raw: Any
) -> None:
    """Backends die around writes at random: what is said to be applied is, and nothing else is.

    The row's version counts the effects.
    """
    store = await open_store({"jobs": "version"}, pool_size=4, find_out_ms=10_000)
    results: list[Any] = []

    async def work() -> None:
        for _ in range(40):
            result = await write(store, update("jobs", 1, (), state=uuid.uuid4().hex))
            results.append(result)

    workers = asyncio.gather(*(work() for _ in range(4)))
    killed = 0
    while not workers.done():
        killed += await raw.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid = ("
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'fencegate db' "
            "AND query LIKE '%fencegate.admit%' ORDER BY random() LIMIT 1)"
        )
        await asyncio.sleep(random.random() * 0.01)
    await workers
    applied = sum(isinstance(result, Written) for result in results)
    assert not [result for result in results if isinstance(result, MaybeWritten)]
    assert killed >= 10
    assert await raw.fetchval("SELECT version FROM jobs WHERE id = 1") == 1 + applied


async def test_a_cancelled_write_that_was_sent_is_seen_to_its_end(
    jobs: PostgresStore, raw: Any
) -> None:
    """A client that goes away mid-write changes nothing about the write, or about its answer."""
    for number in range(60):
        sent = asyncio.Event()

        def gate(sent: asyncio.Event = sent) -> Problem | None:
            sent.set()
            return None

        before = await raw.fetchval("SELECT version FROM jobs WHERE id = 1")
        action = operation(update("jobs", 1, state=str(number)))
        task = asyncio.create_task(jobs.write(action, NoBody(), fence(mark_at(1), gate=gate)))
        await sent.wait()
        for _ in range(random.randrange(3)):
            task.cancel()
            await asyncio.sleep(0)
        assert isinstance(await task, Written)
        assert await raw.fetchval("SELECT version FROM jobs WHERE id = 1") == before + 1


async def test_a_cancelled_write_that_waits_is_never_sent(
    jobs: PostgresStore, open_store: OpenStore, raw: Any
) -> None:
    """A client that goes away while its write waits for a connection takes the write along."""
    store = await open_store({"jobs": "version"}, pool_size=1)
    lane = await store._writing.acquire()
    waiting = asyncio.create_task(write(store, update("jobs", 1, state="done")))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    store._writing.release(lane)
    assert isinstance(await write(store, update("jobs", 2, state="done")), Written)
    assert await state_of(raw, 1) == ("new", 1)
    assert len(store._writer._bulkhead) == 0


STALL = """
CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN IF NEW.name = ''hang'' THEN PERFORM pg_sleep(30); END IF; RETURN NULL; END';
CREATE TRIGGER hang AFTER UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION hang();
"""


async def test_a_write_that_hangs_ends_at_the_servers_time_out(
    jobs: PostgresStore, open_store: OpenStore, raw: Any
) -> None:
    """The server bounds a write; it is rolled back, said to be so, and may be tried again."""
    await raw.execute(STALL)
    store = await open_store({"jobs": "version"}, statement_timeout_ms=100)
    result = await write(store, update("jobs", 1, name="hang"))
    assert isinstance(result, NotWritten)
    assert (result.problem.status, result.problem.retry_after_s) == (503, 1)
    assert await state_of(raw, 1) == ("new", 1)


async def test_a_write_that_a_newer_token_waits_for_is_hurried(
    jobs: PostgresStore, raw: Any
) -> None:
    """Haste cancels the hanging statement, so that the raise need not wait for its time-out."""
    await raw.execute(STALL)
    resets: list[Any] = []
    hanging = fence(mark_at(1), on_haste=resets.append)
    action = operation(update("jobs", 1, name="hang"))
    task = asyncio.create_task(jobs.write(action, NoBody(), hanging))
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    await until(raw, asleep)
    raising = asyncio.create_task(jobs.carry(Scope("jobs"), mark_at(2)))
    await until(raw, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    resets[0]()
    resets[0]()  # asked twice is hurried once
    async with asyncio.timeout(1.5):
        result = await task
        assert await raising is None
    assert isinstance(result, NotWritten)
    assert result.problem.code is Code.BUSY
    assert isinstance(await write(jobs, update("jobs", 1, state="next"), 2), Written)


async def test_old_records_are_pruned_and_void_ones_stay_longer(
    jobs: PostgresStore, raw: Any
) -> None:
    """What nobody will ask about any more goes; what forbids a late write stays."""
    await raw.execute(
        "INSERT INTO fencegate.request (write_id, rows, at) VALUES "
        "('old', 1, now() - interval '1 day'), ('new', 1, now()), "
        "('void', NULL, now() - interval '1 day'), ('ancient', NULL, now() - interval '8 days')"
    )
    assert await jobs._requests.prune() == 2
    left = await raw.fetch("SELECT write_id FROM fencegate.request ORDER BY write_id")
    assert [row["write_id"] for row in left] == ["new", "void"]


def test_the_fixture_tables_are_as_the_tests_think() -> None:
    """The jobs start at version 1: effects are counted from there."""
    assert "'new', 1 FROM generate_series(1, 5)" in JOBS
