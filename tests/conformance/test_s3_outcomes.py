"""What the store answers is told as it is: applied, refused or unknown, never one for another.

Every test lets one thing go wrong at the origin and holds the answer against its journal.
"""

from __future__ import annotations

import pytest

from gateway.model.conditions import Conditions
from gateway.model.mark import Era, Mark
from gateway.model.problem import Code
from gateway.model.reply import ObjectDeleted, ObjectPut
from gateway.model.version import Absent, NotLooked, Present
from gateway.ports.store import FencedByStore, MaybeWritten, NotWritten, WriteResult, Written
from gateway.stores.s3 import puts
from gateway.testing.store_subject import SHUT, Pieces
from gateway.upstream.pool import Timeouts
from tests.conformance.s3_lake import Lake, open_lake


@pytest.fixture(autouse=True)
def quick_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask thrice for a lost write, without the pauses in between."""
    monkeypatch.setattr(puts, "_SETTLE_WAITS_S", (0.0, 0.01, 0.02))


def applied(result: WriteResult) -> ObjectPut:
    """The reply of a PUT that must have been applied."""
    assert isinstance(result, Written), result
    assert isinstance(result.reply, ObjectPut)
    return result.reply


def refused(result: WriteResult, code: Code) -> None:
    """The write must be refused with this code."""
    assert isinstance(result, NotWritten), result
    assert result.problem.code is code, result.problem


def conditions_sent(lake: Lake) -> list[tuple[str | None, str | None]]:
    """(If-Match, If-None-Match) of every PUT and DELETE, in order."""
    asked = [a for a in lake.origin.asked if a.method in {"PUT", "DELETE"}]
    return [(a.get("if-match"), a.get("if-none-match")) for a in asked]


async def test_one_condition_per_write() -> None:
    """A create carries If-None-Match, a replacement If-Match, never the client's beside it."""
    async with open_lake() as lake:
        etag = applied(await lake.put("k", b"1")).etag
        again = applied(await lake.put("k", b"2", "w2")).etag
        applied(await lake.put("k", b"3", "w3", conditions=Conditions(if_match=(again,))))
        last = await lake.delete("k")
        assert isinstance(last, Written)
        sent = conditions_sent(lake)
        assert sent[:3] == [(None, "*"), (etag, None), (again, None)]
        assert sent[3][0] is not None


async def test_clients_condition_is_refused_before_sending() -> None:
    """A client's condition that does not hold for the version looked at costs no request."""
    async with open_lake() as lake:
        applied(await lake.put("k", b"1"))
        before = len(conditions_sent(lake))
        wrong, star = Conditions(if_match=('"no"',)), Conditions(if_none_match=("*",))
        refused(await lake.put("k", b"2", conditions=wrong), Code.PRECONDITION_FAILED)
        refused(await lake.put("k", b"2", conditions=star), Code.PRECONDITION_FAILED)
        absent = await lake.put("none", b"2", conditions=wrong)
        refused(absent, Code.NOT_FOUND)
        assert isinstance(absent, NotWritten)
        assert absent.problem.native == "NoSuchKey"
        assert absent.problem.status == 404
        assert len(conditions_sent(lake)) == before
        assert lake.gates == ["w1"]


async def test_lost_reply_is_found_in_the_object() -> None:
    """The store commits and the connection dies: the write id in the object says applied."""
    async with open_lake() as lake:
        lake.origin.faults.swallow_replies = 1
        reply = applied(await lake.put("k", b"1"))
        assert reply.etag == lake.origin.objects["k"].etag
        assert reply.created
        assert lake.landed() == ["w1"]


@pytest.mark.parametrize("knob", ["fail_after_commit", "truncate_answers"])
async def test_broken_answer_after_the_commit(knob: str) -> None:
    """A 500 or half an answer after the commit is settled as applied."""
    async with open_lake() as lake:
        looked = await lake.look_at("k")
        setattr(lake.origin.faults, knob, 1)
        applied(await lake.put("k", b"1", looked=looked))
        assert lake.landed() == ["w1"]


async def test_error_without_a_commit_stays_unknown() -> None:
    """A 500 over an unchanged object proves nothing: the write may still be under way."""
    async with open_lake() as lake:
        lake.origin.faults.fail_before_commit = 1
        result = await lake.put("k", b"1")
        assert isinstance(result, MaybeWritten)
        assert result.problem.code is Code.OUTCOME_UNKNOWN
        assert lake.landed() == []


async def test_answer_that_never_comes_stays_unknown() -> None:
    """A store that takes everything and stays silent: reset, looked at, unknown; later it lands."""
    async with open_lake(timeouts=Timeouts(first_byte_s=0.2)) as lake:
        hold = lake.stall_effects()
        result = await lake.put("k", b"1")
        assert isinstance(result, MaybeWritten)
        assert lake.landed() == []
        hold.set()
        await lake.origin.until(lambda: bool(lake.origin.effects))
        assert lake.landed() == ["w1"]


async def test_retry_recognises_the_earlier_attempt() -> None:
    """A retry names the attempt whose outcome was unknown, and finds it in the object."""
    async with open_lake() as lake:
        star = Conditions(if_none_match=("*",))
        first = applied(await lake.put("k", b"1", "first", conditions=star))
        retry = await lake.put("k", b"1", "second", conditions=star, previous="first")
        assert applied(retry).etag == first.etag
        assert lake.landed() == ["first"]
        assert lake.gates == ["first"]


async def test_earlier_attempt_lands_during_the_retry() -> None:
    """The earlier attempt's bytes arrive between look and write: recognised, not repeated."""
    async with open_lake() as lake:
        looked = await lake.look_at("k")
        applied(await lake.put("k", b"1", "first"))
        retry = await lake.put("k", b"1", "second", looked=looked, previous="first")
        applied(retry)
        assert lake.landed() == ["first"]


async def test_own_holder_elsewhere_is_no_conflict() -> None:
    """Another replica served the same holder meanwhile: written again, over that version."""
    async with open_lake() as lake:
        looked = await lake.look_at("k")
        other = applied(await lake.put("k", b"theirs", "other"))
        applied(await lake.put("k", b"ours", "ours", looked=looked))
        assert lake.landed() == ["other", "ours"]
        assert conditions_sent(lake)[-1] == (other.etag, None)
        assert lake.gates == ["other", "ours", "ours"]


async def test_gate_is_asked_for_every_attempt() -> None:
    """The gate shuts between two attempts of one write: the second is refused with its problem."""
    async with open_lake() as lake:
        looked = await lake.look_at("k")
        applied(await lake.put("k", b"theirs", "other"))
        answers = iter([None, SHUT])
        result = await lake.put("k", b"ours", "ours", looked=looked, gate=lambda: next(answers))
        assert result == NotWritten(SHUT)
        assert lake.landed() == ["other"]


async def test_body_too_large_for_the_spool_is_busy() -> None:
    """The same conflict with a body that was not spooled: 503, and nothing is written."""
    async with open_lake() as lake:
        looked = await lake.look_at("k")
        applied(await lake.put("k", b"theirs", "other"))
        large = Pieces(b"x" * 1_048_577)
        refused(await lake.put("k", large, "ours", looked=looked), Code.BUSY)
        assert lake.landed() == ["other"]


async def test_somebody_else_changed_it() -> None:
    """An unstamped or lower version that came after the look: 409, or the client's own 412."""
    async with open_lake() as lake:
        looked = await lake.look_at("k")
        lake.plant("k", b"by a stranger")
        refused(await lake.put("k", b"1", looked=looked), Code.CHANGED_UNDERNEATH)
        star = Conditions(if_none_match=("*",))
        result = await lake.put("k", b"1", looked=looked, conditions=star)
        refused(result, Code.PRECONDITION_FAILED)
        seen = await lake.look_at("k")
        applied(await lake.put("k", b"lower", "lower", token=1))
        refused(await lake.put("k", b"2", token=2, looked=seen), Code.CHANGED_UNDERNEATH)
        assert lake.landed() == ["lower"]


async def test_removed_underneath() -> None:
    """The object went away after the look (404): 409, or NoSuchKey for the client's If-Match."""
    async with open_lake() as lake:
        etag = applied(await lake.put("k", b"1")).etag
        looked = await lake.look_at("k")
        del lake.origin.objects["k"]
        refused(await lake.put("k", b"2", "w2", looked=looked), Code.CHANGED_UNDERNEATH)
        match = Conditions(if_match=(etag,))
        refused(await lake.put("k", b"2", "w3", looked=looked, conditions=match), Code.NOT_FOUND)


async def test_newer_stamp_means_stale() -> None:
    """A newer holder's stamp, at the look or after it, is the store's own witness: stale."""
    async with open_lake() as lake:
        looked = await lake.look_at("k")
        applied(await lake.put("k", b"new", "new", token=9))
        late = await lake.put("k", b"old", "old", token=8, looked=looked)
        assert late == FencedByStore(Mark(Era(1), 9))
        assert await lake.put("k", b"old", "old", token=8) == FencedByStore(Mark(Era(1), 9))
        assert await lake.delete("k", token=8) == FencedByStore(Mark(Era(1), 9))
        assert lake.landed() == ["new"]


async def test_conflict_is_tried_again() -> None:
    """409 ConditionalRequestConflict: nothing landed, so the same version is tried again."""
    async with open_lake() as lake:
        lake.origin.faults.conflicts = 2
        applied(await lake.put("k", b"1"))
        assert lake.landed() == ["w1"]
        lake.origin.faults.conflicts = 99
        refused(await lake.put("k", b"2", "w2"), Code.BUSY)
        assert lake.landed() == ["w1"]


async def test_race_error_of_a_known_store() -> None:
    """Where losers are told by 500 (the probe saw it), a lost race is refused, not unknown."""
    async with open_lake() as lake:
        lake.origin.faults.race_status = 500
        await lake.store.probe()
        assert lake.store.profile.race_answers == {(500, "UnknownError")}
        lake.origin.effects.clear()
        applied(await lake.put("k", b"0", "w0"))
        looked = await lake.look_at("k")
        applied(await lake.put("k", b"1", "w1", token=2))
        late = await lake.put("k", b"2", "w2", token=1, looked=looked)
        assert late == FencedByStore(Mark(Era(1), 2))
        lake.origin.faults.fail_before_commit = 1
        assert isinstance(await lake.put("k", b"3", "w3", token=2), MaybeWritten)


async def test_success_without_an_etag() -> None:
    """A store that gives no ETag on PUT is asked for it."""
    async with open_lake() as lake:
        lake.origin.faults.omit_etag = True
        assert applied(await lake.put("k", b"1")).etag == lake.origin.objects["k"].etag


async def test_early_refusal() -> None:
    """A store that refuses before it has the body: its answer is told, the gate is never asked."""
    async with open_lake() as lake:
        lake.origin.faults.refuse_early = 1
        result = await lake.put("k", Pieces(b"x" * 4_000_000))
        refused(result, Code.ACCESS_DENIED)
        assert lake.gates == []
        applied(await lake.put("k", b"2"))


async def test_unreachable_store() -> None:
    """Nobody listens: refused before anything was sent."""
    async with open_lake() as lake:
        await lake.origin.aclose()
        result = await lake.put("k", b"1", looked=Absent())
        refused(result, Code.UPSTREAM_FAILED)
        assert lake.gates == []


async def test_unknown_length() -> None:
    """Without a length up to 1 MiB is spooled and sent with one; more is 411."""
    async with open_lake() as lake:
        applied(await lake.put("k", Pieces(b"x" * 200_000, known=False)))
        put = next(asked for asked in lake.origin.asked if asked.method == "PUT")
        assert put.get("content-length") == "200000"
        assert put.get("transfer-encoding") is None
        result = await lake.put("k", Pieces(b"x" * 1_100_000, known=False), "w2")
        assert isinstance(result, NotWritten)
        assert (result.problem.status, result.problem.native) == (411, "MissingContentLength")
        assert lake.landed() == ["w1"]


async def test_without_a_look() -> None:
    """Where no look was asked for, the client's own condition is carried as it is."""
    async with open_lake() as lake:
        star = Conditions(if_none_match=("*",))
        applied(await lake.put("k", b"1", looked=NotLooked(), conditions=star))
        result = await lake.put("k", b"2", "w2", looked=NotLooked(), conditions=star)
        refused(result, Code.PRECONDITION_FAILED)
        applied(await lake.put("k", b"3", "w3", looked=NotLooked()))
        assert conditions_sent(lake) == [(None, "*"), (None, "*"), (None, None)]


# --- DELETE -------------------------------------------------------------------------------------
async def test_delete_of_nothing_sends_nothing() -> None:
    """No condition says "still absent", so that a DELETE of nothing passes the gate and ends."""
    async with open_lake() as lake:
        assert await lake.delete("k") == Written(ObjectDeleted(existed=False))
        assert lake.gates == ["d1"]
        assert conditions_sent(lake) == []


async def test_delete_sees_what_came_meanwhile() -> None:
    """An object that appeared after the look is the holder's own (removed), or somebody's (409)."""
    async with open_lake() as lake:
        applied(await lake.put("k", b"1"))
        assert await lake.delete("k", looked=Absent()) == Written(ObjectDeleted(existed=True))
        lake.plant("k", b"by a stranger")
        refused(await lake.delete("k", looked=Absent()), Code.CHANGED_UNDERNEATH)
        refused(await lake.delete("k", looked=Present('"old"')), Code.CHANGED_UNDERNEATH)
        applied(await lake.put("k", b"2", "w2", token=5))
        looked = Present('"old"')
        assert await lake.delete("k", looked=looked) == FencedByStore(Mark(Era(1), 5))
        assert lake.data("k") == b"2"


async def test_delete_of_what_has_gone() -> None:
    """Gone since the look is gone: 204 for a plain DELETE, NoSuchKey for the client's If-Match."""
    async with open_lake() as lake:
        looked = Present('"old"')
        assert await lake.delete("k", looked=looked) == Written(ObjectDeleted(existed=False))
        match = Conditions(if_match=('"old"',))
        refused(await lake.delete("k", looked=looked, conditions=match), Code.NOT_FOUND)


async def test_lost_delete_is_unknown() -> None:
    """A DELETE leaves no stamp: when its answer is lost, it is unknown even if nothing is there."""
    async with open_lake() as lake:
        applied(await lake.put("k", b"1"))
        lake.origin.faults.swallow_replies = 1
        result = await lake.delete("k")
        assert isinstance(result, MaybeWritten)
        assert lake.data("k") is None
        applied(await lake.put("k", b"1", "w2"))
        lake.origin.faults.fail_before_commit = 1
        assert isinstance(await lake.delete("k"), MaybeWritten)


async def test_store_without_conditions_on_delete() -> None:
    """Such a store gets none, and the client's are refused by name."""
    async with open_lake() as lake:
        lake.origin.faults.ignore_delete_conditions = True
        await lake.store.probe()
        assert not lake.store.profile.delete_if_match
        assert "DELETE takes no condition" in lake.store.capabilities.guarantee
        etag = applied(await lake.put("k", b"1")).etag
        match = Conditions(if_match=(etag,))
        refused(await lake.delete("k", conditions=match), Code.CONDITION_UNSUPPORTED)
        assert await lake.delete("k") == Written(ObjectDeleted())
        assert await lake.delete("k") == Written(ObjectDeleted(existed=False))
        assert conditions_sent(lake)[-1] == (None, None)
