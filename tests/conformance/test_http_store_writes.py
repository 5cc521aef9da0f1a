"""Writes through the `http` store: conditions, hold-back, the spool, and three answers."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.model.conditions import Conditions
from gateway.model.problem import Code, Problem
from gateway.model.reply import Relay
from gateway.ports.store import MaybeWritten, NotWritten, ProbeFailed, WriteResult, Written
from gateway.testing.store_subject import SHUT, Gate, Pieces
from tests.conformance.http_lake import open_shore, stall
from tests.services.http_origin import CouchLike, HttpOrigin, Said

ETAG = {"conditions": "etag"}


def applied(result: WriteResult) -> Relay:
    assert isinstance(result, Written), result
    assert isinstance(result.reply, Relay)
    return result.reply


def refused(result: WriteResult) -> Problem:
    assert isinstance(result, NotWritten), result
    return result.problem


def unknown(result: WriteResult) -> Problem:
    assert isinstance(result, MaybeWritten), result
    assert result.problem.code is Code.OUTCOME_UNKNOWN
    return result.problem


# --- conditions ---------------------------------------------------------------------------------
async def test_a_write_carries_the_version_that_was_looked_at() -> None:
    """PUT, PATCH and DELETE name it; POST and MKCOL carry none."""
    async with open_shore(HttpOrigin(), **ETAG) as at:
        applied(await at.shore.write("PUT", "/a", b"1"))
        for method in ("PATCH", "POST", "MKCOL", "DELETE"):
            applied(await at.shore.write(method, "/a", b"2"))
        sent = [
            (asked.method, asked.get("if-match"), asked.get("if-none-match"))
            for asked in at.origin.asked
            if asked.method != "HEAD"
        ]
        assert sent == [
            ("PUT", None, "*"),
            ("PATCH", '"v1"', None),
            ("POST", None, None),
            ("MKCOL", None, None),
            ("DELETE", '"v4"', None),
        ]


async def test_a_change_since_admission_is_refused() -> None:
    """Whoever changed it, the write does not overwrite what it has not seen."""
    async with open_shore(HttpOrigin(), **ETAG) as at:
        kept = applied(await at.shore.write("PUT", "/a", b"old"))
        before = at.origin.things["/a"]
        newer = before._replace(data=b"newer", etag='"other"')

        def change() -> None:
            at.origin.things["/a"] = newer

        for method in ("PUT", "PATCH", "DELETE"):
            at.origin.things["/a"] = before
            problem = refused(await at.shore.write(method, "/a", b"mine", between=change))
            assert problem.code is Code.CHANGED_UNDERNEATH
            assert at.origin.things["/a"] == newer
        at.origin.things["/a"] = before
        wanted = Conditions(if_match=(dict(kept.fields)["etag"],))
        result = await at.shore.write("PUT", "/a", b"mine", conditions=wanted, between=change)
        assert refused(result).code is Code.PRECONDITION_FAILED


async def test_a_late_write_of_an_older_version_is_stopped_by_its_condition() -> None:
    """Behind `settle_ms` the drain no longer waits: then the origin's own check is what is left."""
    async with open_shore(HttpOrigin(), **ETAG) as at:
        release = stall(at.origin, checked=False)
        slow = asyncio.create_task(at.shore.write("PUT", "/a", b"slow"))
        await at.origin.until(lambda: any(a.method == "PUT" for a in at.origin.asked))
        at.origin.faults.before_check = None
        applied(await at.shore.write("PUT", "/a", b"newer holder"))
        release.set()
        assert refused(await slow).code is Code.CHANGED_UNDERNEATH
        assert at.origin.things["/a"].data == b"newer holder"


async def test_without_conditions_the_late_write_lands() -> None:
    """The control: the weaker guarantee is weaker in just this."""
    async with open_shore(HttpOrigin()) as at:
        release = stall(at.origin, checked=False)
        slow = asyncio.create_task(at.shore.write("PUT", "/a", b"slow"))
        await at.origin.until(lambda: any(a.method == "PUT" for a in at.origin.asked))
        at.origin.faults.before_check = None
        applied(await at.shore.write("PUT", "/a", b"newer holder"))
        release.set()
        applied(await slow)
        assert at.origin.things["/a"].data == b"slow"


async def test_without_conditions_the_clients_are_refused_by_name() -> None:
    """Nobody would check them, and nothing is looked at or sent."""
    async with open_shore(HttpOrigin()) as at:
        for method in ("PUT", "PATCH", "POST", "DELETE"):
            wanted = Conditions(if_match=('"a"',))
            problem = refused(await at.shore.write(method, "/a", b"1", conditions=wanted))
            assert problem.code is Code.CONDITION_UNSUPPORTED
            assert 'conditions = "none"' in problem.message
        assert at.origin.asked == []
        assert "WEAKER" in at.shore.store.capabilities.guarantee


@pytest.mark.parametrize("fault", ["no_etags", "weak_etags", "no_head"])
async def test_what_has_no_version_is_not_written(fault: str) -> None:
    """A condition needs a strong tag; the refusal tells which setting to change."""
    async with open_shore(HttpOrigin(), **ETAG) as at:
        applied(await at.shore.write("PUT", "/a", b"1"))
        setattr(at.origin.faults, fault, True)
        with pytest.raises(AssertionError, match='conditions = "none"'):
            await at.shore.write("PUT", "/a", b"2")
        assert at.origin.things["/a"].data == b"1"


async def test_the_start_proves_conditions() -> None:
    """An origin that ignores them is found out, by name; one that honours them is said to."""
    async with open_shore(HttpOrigin(), probe_path="/probe", **ETAG) as at:
        assert "proven at start" in (await at.shore.store.probe()).guarantee
        assert at.origin.things == {}
        at.origin.faults.ignore_conditions = True
        with pytest.raises(ProbeFailed, match="does not honour conditional writes"):
            await at.shore.store.probe()
        assert at.origin.things == {}


# --- hold-back and spool ------------------------------------------------------------------------
async def test_a_put_streams_and_holds_its_end_back() -> None:
    """All but the last bytes are at the origin before the gate; none of those is."""
    data = b"x" * 300_000
    async with open_shore(HttpOrigin(), hold_back_bytes=1000) as at:
        for known in (True, False):
            body = Pieces(data, known=known, hold=True)
            at.origin.arrived.clear()
            writing = asyncio.create_task(at.shore.write("PUT", "/a", body))
            await body.held.wait()
            await at.origin.until(lambda: at.origin.arrived.get("/a", 0) > 200_000)
            seen: list[int] = []
            before = at.shore.gates
            body.release.set()
            applied(await writing)
            assert at.shore.gates == before + 1
            assert at.origin.things["/a"].data == data
            gate = Gate(SHUT, action=lambda s=seen: s.append(at.origin.arrived.get("/a", 0)))
            at.origin.arrived.clear()
            refused(await at.shore.write("PUT", "/a", Pieces(data, known=known), gate=gate))
            assert seen[0] <= len(data) - 1000


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
async def test_other_methods_wait_whole(method: str) -> None:
    """Their effect may start with the head: of them the origin sees nothing before the gate."""
    async with open_shore(HttpOrigin(), spool_bytes=10_000, max_spool_bytes=400_000) as at:
        applied(await at.shore.write("PUT", "/a", b"1"))
        asked, arrived = len(at.origin.asked), dict(at.origin.arrived)
        data = bytes(range(256)) * 1_500
        body = Pieces(data, known=False, hold=True)
        gate = Gate(SHUT)
        writing = asyncio.create_task(at.shore.write(method, "/a", body, gate=gate))
        await body.held.wait()
        body.release.set()
        assert refused(await writing) == SHUT
        assert (len(at.origin.asked), at.origin.arrived) == (asked, arrived)
        applied(await at.shore.write(method, "/a", Pieces(data, known=False)))
        last = at.origin.asked[-1]
        assert (last.body, last.get("content-length")) == (data, str(len(data)))
        for known in (True, False):
            large = Pieces(b"x" * 400_001, known=known)
            assert refused(await at.shore.write(method, "/a", large)).code is Code.BODY_TOO_LARGE
        assert len(at.origin.asked) == asked + 1


async def test_a_body_that_breaks_leaves_nothing() -> None:
    """Of a PUT the origin gets half, of a POST nothing; neither takes effect."""
    async with open_shore(HttpOrigin()) as at:
        for method in ("PUT", "POST"):
            body = Pieces(b"x" * 300_000, breaks_after=200_000)
            assert refused(await at.shore.write(method, "/a", body)).code is Code.REQUEST_MALFORMED
        assert at.origin.effects == []


# --- three answers ------------------------------------------------------------------------------
async def test_a_lost_answer_is_unknown() -> None:
    """It was applied, and nobody said so: never called success, never refused."""
    async with open_shore(HttpOrigin()) as at:
        for method in ("PUT", "POST", "DELETE"):
            at.origin.faults.swallow_answers = 1
            unknown(await at.shore.write(method, "/a", b"1"))
        assert [effect.method for effect in at.origin.effects] == ["PUT", "POST", "DELETE"]


@pytest.mark.parametrize(
    "status, outcome",
    [
        (200, "applied"),
        (207, "applied"),
        (202, "unknown"),
        (302, "unknown"),
        (303, "unknown"),
        (304, "unknown"),
        (307, "refused"),
        (308, "refused"),
        (403, "refused"),
        (408, "unknown"),
        (409, "refused"),
        (422, "refused"),
        (429, "refused"),
        (500, "unknown"),
        (501, "refused"),
        (503, "unknown"),
    ],
)
async def test_what_a_status_says(status: int, outcome: str) -> None:
    """The origin's answer is passed on with the outcome it stands for, redirects excepted."""
    async with open_shore(HttpOrigin()) as at:
        fields = (("x-why", "because"), ("location", "http://elsewhere/x"), ("x-fence-mark", "9"))
        at.origin.faults.answer = Said(status, fields, b"words")
        result = await at.shore.write("POST", "/a", b"1")
        match result:
            case Written():
                told, relay = "applied", applied(result)
            case NotWritten(problem):
                told, relay = "refused", problem.relay
            case MaybeWritten(problem):
                told, relay = "unknown", problem.relay
            case _:
                raise AssertionError(result)
        assert told == outcome
        if 300 <= status < 400:
            assert relay is None
        else:
            assert relay == Relay(status, (("x-why", "because"),), b"words")


@pytest.mark.parametrize("status, outcome", [(200, MaybeWritten), (413, NotWritten)])
async def test_an_answer_before_the_whole_body(status: int, outcome: type) -> None:
    """A refusal holds; a success cannot be believed, nor called a failure."""
    async with open_shore(HttpOrigin()) as at:
        at.origin.faults.early = Said(status, (), b"early")
        result = await at.shore.write("PUT", "/a", Pieces(b"x" * 8_000_000))
        assert isinstance(result, outcome), result
        assert at.shore.gates == 0


async def test_haste_resets_a_write_that_waits() -> None:
    """A newer token need not wait for a slow origin: the exchange is broken off, and unknown."""
    async with open_shore(HttpOrigin()) as at:
        release = stall(at.origin)
        writing = asyncio.create_task(at.shore.write("POST", "/a", b"1"))
        await at.origin.until(lambda: bool(at.origin.asked))
        at.shore.resets[-1]()
        unknown(await writing)
        release.set()


# --- CouchDB's manners --------------------------------------------------------------------------
async def test_documents_with_revisions() -> None:
    """The condition of the gateway is the revision: creating, replacing and deleting work."""
    async with open_shore(CouchLike(), **ETAG) as at:
        doc = b'{"n": 1}'
        created = applied(await at.shore.write("PUT", "/db/a", doc))
        assert created.status == 201
        assert json.loads(created.body)["rev"].startswith("1-")
        applied(await at.shore.write("PUT", "/db/a", b'{"n": 2}'))
        rev = at.origin.things["/db/a"].etag
        wanted = Conditions(if_match=(rev,))
        applied(await at.shore.write("PUT", "/db/a", b'{"n": 3}', conditions=wanted))
        result = await at.shore.write("PUT", "/db/a", b'{"n": 4}', conditions=wanted)
        assert refused(result).code is Code.PRECONDITION_FAILED
        applied(await at.shore.write("DELETE", "/db/a"))
        assert at.origin.things == {}


async def test_a_conflict_is_a_lost_race_or_the_documents_own() -> None:
    """409 after a change is ours to explain; 409 over an unchanged document is passed on."""
    async with open_shore(CouchLike(), **ETAG) as at:
        applied(await at.shore.write("PUT", "/db/a", b"{}"))
        before = at.origin.things["/db/a"]

        def change() -> None:
            at.origin.things["/db/a"] = before._replace(etag='"2-other"')

        result = await at.shore.write("PUT", "/db/a", b"{}", between=change)
        assert refused(result).code is Code.CHANGED_UNDERNEATH
        at.origin.faults.refuse = Said(409, (), b'{"error":"conflict"}')
        problem = refused(await at.shore.write("PUT", "/db/a", b"{}"))
        assert problem.code is Code.UPSTREAM_REFUSED
        assert problem.relay == Relay(409, (), b'{"error":"conflict"}')


async def test_a_place_is_told_as_workers_reach_it() -> None:
    """Location leads through the gateway, never past it."""
    async with open_shore(CouchLike(), base="/db") as at:
        created = applied(await at.shore.write("POST", "", b"{}"))
        assert dict(created.fields)["location"].startswith("/shore/000")
        assert at.origin.asked[-1].path == "/db"
