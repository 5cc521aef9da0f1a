"""Laws of conditional writes: the client's own conditions, versions, and replays.

Sources: RFC 9110 section 13.1, Amazon S3 "conditional writes", protocol rules 11 and 12.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.model.conditions import Conditions
from gateway.model.mark import Era, Mark
from gateway.model.object_action import PutObject
from gateway.model.operation import Kind
from gateway.model.problem import Code
from gateway.model.token import Holder
from gateway.model.version import Absent, NotLooked, Present
from gateway.ports.store import BehindRegistry, FencedByStore, NotWritten, WriteResult, Written
from gateway.testing.store_subject import (
    Gate,
    OpenSubject,
    Pieces,
    Subject,
    code_of,
    etag_of,
    fresh_write_id,
    require,
)

_ANY = Conditions(if_match=("*",))
_NONE = Conditions(if_none_match=("*",))


async def _refused(
    subject: Subject, key: str, conditions: Conditions, code: Code, *, delete: bool = False
) -> None:
    before = await subject.seen(key)
    gate = Gate()
    result: WriteResult
    if delete:
        result = await subject.delete(key, conditions=conditions, gate=gate)
    else:
        result = await subject.put(key, b"refused", conditions=conditions, gate=gate)
    require(
        isinstance(result, NotWritten) and result.problem.code is code,
        f"{conditions} on {key!r} should be refused as {code}, but got {result!r}",
    )
    require(await subject.seen(key) == before, f"{key!r} changed by a refused write")


async def check_put_conditions(open_subject: OpenSubject) -> None:
    """If-Match and If-None-Match of a PUT hold, or it is refused and nothing changes."""
    async with open_subject() as subject:
        absent = subject.traits.absent_code
        await _refused(subject, "cond", Conditions(if_match=('"no"',)), absent)
        first = etag_of(await subject.put("cond", b"1", conditions=_NONE))
        await _refused(subject, "cond", _NONE, Code.PRECONDITION_FAILED)
        await _refused(subject, "cond", Conditions(if_match=('"no"',)), Code.PRECONDITION_FAILED)
        matched = Conditions(if_match=(first,))
        second = etag_of(await subject.put("cond", b"2", conditions=matched))
        await _refused(subject, "cond", matched, Code.PRECONDITION_FAILED)
        seen = await subject.seen("cond")
        require(seen is not None and seen.data == b"2", "the matching write is not there")
        require(seen is not None and seen.etag == second, "the matching write's tag is not there")


async def check_put_any_match(open_subject: OpenSubject) -> None:
    """If-Match: * replaces what is there, and creates nothing."""
    async with open_subject() as subject:
        await _refused(subject, "any", _ANY, subject.traits.absent_code)
        etag_of(await subject.put("any", b"1"))
        etag_of(await subject.put("any", b"2", conditions=_ANY))


async def check_tag_lists(open_subject: OpenSubject) -> None:
    """A list of tags matches when one of them does; weak tags never match for If-Match."""
    async with open_subject() as subject:
        etag = etag_of(await subject.put("list", b"1"))
        weak = Conditions(if_match=("W/" + etag,))
        await _refused(subject, "list", weak, Code.PRECONDITION_FAILED)
        several = Conditions(if_match=('"no"', etag))
        etag = etag_of(await subject.put("list", b"2", conditions=several))
        none = Conditions(if_none_match=('"no"', etag))
        await _refused(subject, "list", none, Code.PRECONDITION_FAILED)
        etag_of(await subject.put("list", b"3", conditions=Conditions(if_none_match=('"no"',))))


async def check_delete_conditions(open_subject: OpenSubject) -> None:
    """If-Match of a DELETE holds, or nothing is removed."""
    async with open_subject() as subject:
        etag = etag_of(await subject.put("del", b"1"))
        wrong = Conditions(if_match=('"no"',))
        await _refused(subject, "del", wrong, Code.PRECONDITION_FAILED, delete=True)
        result = await subject.delete("del", conditions=Conditions(if_match=(etag,)))
        require(isinstance(result, Written), f"a matching DELETE answered {result!r}")
        require(await subject.seen("del") is None, "a matching DELETE removed nothing")
        await _refused(subject, "del", wrong, subject.traits.absent_code, delete=True)


async def check_looks(open_subject: OpenSubject) -> None:
    """A store that looks sees version and stamp, and refuses a write whose look is outdated."""
    async with open_subject() as subject:
        looked = await subject.look("look")
        if isinstance(looked, NotLooked):
            require(subject.traits.exact, "a store that does not look must be exact")
            return
        require(looked == Absent(), f"an absent object looks like {looked!r}")
        write_id = fresh_write_id()
        etag = etag_of(await subject.put("look", b"1", token=3, write_id=write_id))
        fresh = await subject.look("look")
        if not isinstance(fresh, Present):
            raise AssertionError(f"a present object looks like {fresh!r}")
        require(fresh.etag == etag, f"look saw {fresh.etag}, PUT answered {etag}")
        if subject.traits.stamped:
            if fresh.stamp is None:
                raise AssertionError("look saw no stamp on an object that the gateway wrote")
            require(fresh.stamp.token == 3, f"the stamp says token {fresh.stamp.token}, not 3")
            require(fresh.stamp.write_id == write_id, "the stamp carries another write id")
        foreign = await subject.look("look", scope=subject.scope("other"))
        unstamped = isinstance(foreign, Present) and foreign.stamp is None
        require(unstamped, f"a stamp counts in a scope that is not its own: {foreign!r}")
        if subject.traits.conditions:
            await _outdated(subject, Absent())
            await _outdated(subject, Present('"0123456789abcdef0123456789abcdef"'))


async def _outdated(subject: Subject, looked: Absent | Present) -> None:
    action = PutObject(subject.bucket, "look", 3)
    operation = subject.operation(action, Kind.WRITE, "PUT", "look", Conditions())
    before = await subject.seen("look")
    result = await subject.mutate(
        operation,
        Pieces(b"new"),
        mark=Mark(Era(1), 2),
        scope=subject.scope("look"),
        looked=looked,
    )
    require(
        isinstance(result, FencedByStore | NotWritten),
        f"a write below the stamp, on an outdated look {looked!r}, answered {result!r}",
    )
    require(await subject.seen("look") == before, "an outdated look let a write through")


async def check_replays(open_subject: OpenSubject) -> None:
    """A retry that names the write id of an applied attempt is answered with that attempt."""
    async with open_subject() as subject:
        first = fresh_write_id()
        etag = etag_of(await subject.put("again", b"1", conditions=_NONE, write_id=first))
        replay = await subject.put(
            "again", b"1", conditions=_NONE, write_id=fresh_write_id(), previous_write_id=first
        )
        require(etag_of(replay) == etag, "the replay has another tag than the applied write")
        seen = await subject.seen("again")
        require(seen is not None and seen.etag == etag, "the replay wrote again")
        second = fresh_write_id()
        matched = Conditions(if_match=(etag,))
        etag = etag_of(await subject.put("again", b"2", conditions=matched, write_id=second))
        replay = await subject.put("again", b"2", conditions=matched, previous_write_id=second)
        require(etag_of(replay) == etag, "the replay of an If-Match has another tag")
        other = await subject.put("again", b"3", conditions=matched, previous_write_id=first)
        code = code_of(other)
        require(code is Code.PRECONDITION_FAILED, f"a retry of an older write answered {code}")
        fresh = await subject.put("new", b"1", previous_write_id=fresh_write_id())
        etag_of(fresh)


async def check_delete_replays(open_subject: OpenSubject) -> None:
    """A retry of an applied conditional DELETE is answered as removed, not as missing."""
    async with open_subject() as subject:
        matched = Conditions(if_match=(etag_of(await subject.put("gone", b"1")),))
        first = fresh_write_id()
        result = await subject.delete("gone", conditions=matched, write_id=first)
        require(isinstance(result, Written), f"DELETE answered {result!r}")
        replay = await subject.delete("gone", conditions=matched, previous_write_id=first)
        require(isinstance(replay, Written), f"its retry answered {replay!r}")
        etag = etag_of(await subject.put("gone", b"2"))
        other = await subject.delete("gone", conditions=matched, previous_write_id=first)
        if not isinstance(other, Written):  # it may be remembered, or compared with the new object
            code = code_of(other)
            require(code is Code.PRECONDITION_FAILED, f"a retry after a new object got {code}")
        seen = await subject.seen("gone")
        require(seen is not None and seen.etag == etag, "a late retry removed a newer object")


async def check_carry(open_subject: OpenSubject) -> None:
    """An exact store keeps the mark itself: never lowered, asked by every write (rule 11)."""
    async with open_subject() as subject:
        store, scope = subject.store, subject.scope("carry")
        burnt = Mark(Era(1), 5, burnt=True)
        five, six = Mark(Era(1), 5), Mark(Era(1), 6)
        require(await store.carry(scope, five) is None, "the first mark was not taken")
        require(await store.carry(scope, five) is None, "the same mark was refused")
        above = await store.carry(scope, Mark(Era(1), 4))
        require(above is not None and above.rank == five.rank, f"a lower mark gave {above}")
        require(await store.carry(scope, burnt) is None, "burning was not taken")
        await _fenced(subject, five, burnt)
        require(await store.carry(scope, six) is None, "a higher mark was not taken")
        await _fenced(subject, five, six)
        etag_of(await _write_under(subject, six))
        reset = Mark(Era(2), 0)
        require(await store.carry(scope, reset) is None, "a new era was not taken")
        await _fenced(subject, six, reset)
        require(await store.carry(scope, Mark(Era(2), 1)) is None, "a token of the new era")
        etag_of(await _write_under(subject, Mark(Era(2), 1)))


async def check_two_hands(open_subject: OpenSubject) -> None:
    """An exact store finds a token in two hands by itself, and then lets neither write."""
    async with open_subject() as subject:
        store, scope = subject.store, subject.scope("carry")
        first, second = (Mark(Era(1), 5, holder=Holder(name)) for name in ("a", "b"))
        burnt = Mark(Era(1), 5, burnt=True)
        require(await store.carry(scope, Mark(Era(1), 5)) is None, "the first mark was not taken")
        require(await store.carry(scope, first) is None, "its holder was not bound")
        above = await store.carry(scope, second)
        require(above is not None and above.rank == burnt.rank, f"a second holder gave {above}")
        await _fenced(subject, first, burnt)
        await _fenced(subject, second, burnt)


async def _write_under(
    subject: Subject, mark: Mark, gate: Callable[[], None] | None = None
) -> WriteResult:
    action = PutObject(subject.bucket, "carry", 5)
    operation = subject.operation(action, Kind.WRITE, "PUT", "carry", Conditions())
    return await subject.mutate(
        operation, Pieces(b"under"), mark=mark, scope=subject.scope("carry"), gate=gate
    )


async def _fenced(subject: Subject, mark: Mark, stored: Mark) -> None:
    before = await subject.seen("carry")
    result = await _write_under(subject, mark)
    require(
        isinstance(result, FencedByStore) and result.mark.rank == stored.rank,
        f"a write under {mark} below {stored} answered {result!r}",
    )
    require(await subject.seen("carry") == before, "a fenced write changed the object")


async def check_behind(open_subject: OpenSubject) -> None:
    """An exact store that has not seen the mark says so, and writes nothing (rule 11)."""
    async with open_subject() as subject:
        for carried in (None, 1):
            if carried is not None:
                await subject.carry(subject.scope("carry"), carried)
            result = await _write_under(subject, Mark(Era(1), 2))
            if not isinstance(result, BehindRegistry):
                raise AssertionError(f"a write under a mark not carried answered {result!r}")
            token = result.mark.token if result.mark is not None else None
            require(token == carried, f"the store says that its token is {token}")
            require(await subject.seen("carry") is None, "it wrote all the same")
