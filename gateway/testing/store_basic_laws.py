"""Laws of an object store: what was put is what is read, exactly, until something else is put.

Each law opens a store of its own and raises `AssertionError` (CONTRIBUTING.md, habit 10).
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from typing import Final

from gateway.model.conditions import Conditions
from gateway.model.object_action import Fields
from gateway.model.problem import Code
from gateway.model.reply import NotModified, ObjectDeleted, ObjectFound, ObjectPut
from gateway.ports.store import NotWritten, ReadDone, Written
from gateway.testing.store_subject import (
    SHUT,
    Gate,
    OpenSubject,
    Pieces,
    Subject,
    code_of,
    etag_of,
    in_time,
    require,
)

_KIB: Final = 1024
_SIZES: Final = (0, 1, 65535, 65536, 65537, 262143, 262144, 1 << 20, (8 << 20) + 3)
_METADATA: Final[Fields] = (
    ("content-type", "text/plain; charset=utf-8"),
    ("cache-control", "max-age=60"),
    ("content-disposition", 'attachment; filename="a.txt"'),
    ("x-amz-meta-colour", "blue"),
)


def noise(length: int, seed: int = 7) -> bytes:
    """Bytes that no accident repeats."""
    return random.Random(seed).randbytes(length)  # noqa: S311 - test data, not a secret


async def check_round_trip(open_subject: OpenSubject) -> None:
    """Put, get, head, delete: each sees what the one before did."""
    async with open_subject() as subject:
        require(await subject.seen("trip") is None, "a fresh store holds an object")
        etag = etag_of(await subject.put("trip", b"hello"))
        seen = await subject.seen("trip")
        require(seen is not None, "a written object is not there")
        assert seen is not None
        require(seen.data == b"hello", f"other bytes came back: {seen.data!r}")
        require(seen.etag == etag, f"PUT answered {etag} and GET {seen.etag}")
        head = await subject.get("trip", head=True)
        if not isinstance(head, ReadDone) or not isinstance(head.reply, ObjectFound):
            raise AssertionError(f"HEAD answered {head!r}")
        require(head.reply.chunks is None, "HEAD answered a body")
        require(head.reply.meta.size == 5, f"HEAD says {head.reply.meta.size} bytes, not 5")
        require(head.reply.meta.etag == etag, "HEAD and PUT disagree on the etag")
        require(head.reply.meta.last_modified_s > 1_000_000_000, "no modification time")
        gone = await subject.delete("trip")
        require(isinstance(gone, Written), f"DELETE answered {gone!r}")
        assert isinstance(gone, Written)
        require(isinstance(gone.reply, ObjectDeleted), f"DELETE answered {gone.reply!r}")
        require(await subject.seen("trip") is None, "a deleted object is still there")
        require(code_of(await subject.get("trip", head=True)) is Code.NOT_FOUND, "HEAD finds it")
        again = await subject.delete("trip")
        require(isinstance(again, Written), f"DELETE of nothing answered {again!r}")


async def check_exact_bytes(open_subject: OpenSubject) -> None:
    """Bytes come back as they went in, for every size around the buffers, 0 B to 8 MiB."""
    async with open_subject() as subject:
        for size in _SIZES:
            data = noise(size, seed=size)
            etag_of(await subject.put("sized", Pieces(data, piece_bytes=48 * _KIB + 1)))
            reply, back = await subject.found("sized")
            same = hashlib.sha256(back).digest() == hashlib.sha256(data).digest()
            require(same, f"{size} bytes went in, other {len(back)} came back")
            require(reply.meta.size == size, f"size says {reply.meta.size}, not {size}")
            require(reply.span is None, "a whole object is answered as a part")


async def check_unknown_length(open_subject: OpenSubject) -> None:
    """A body that does not tell its length is stored whole."""
    async with open_subject() as subject:
        for size in (0, 10, 300 * _KIB):
            data = noise(size)
            etag_of(await subject.put("chunked", Pieces(data, known=False)))
            _, back = await subject.found("chunked")
            require(back == data, f"{size} bytes of unknown length came back as {len(back)}")


async def check_metadata(open_subject: OpenSubject) -> None:
    """Metadata is kept and replaced whole; the stamp of the gateway is never seen."""
    async with open_subject() as subject:
        etag_of(await subject.put("meta", b"1", metadata=_METADATA))
        seen = await subject.seen("meta")
        assert seen is not None
        for name, value in _METADATA:
            got = seen.metadata.get(name)
            require(got == value, f"{name}: {value!r} came back as {got!r}")
        stamps = [pair for pair in seen.metadata.items() if "fencegate" in "".join(pair).lower()]
        require(not stamps, f"the stamp is visible: {stamps}")
        etag_of(await subject.put("meta", b"2", metadata=(("content-type", "a/b"),)))
        seen = await subject.seen("meta")
        assert seen is not None
        require(seen.metadata.get("content-type") == "a/b", "content-type was not replaced")
        require("x-amz-meta-colour" not in seen.metadata, "metadata of the old object stayed")


async def check_etags(open_subject: OpenSubject) -> None:
    """Tags are quoted, and differ whenever the content does."""
    async with open_subject() as subject:
        first = etag_of(await subject.put("tag", b"one"))
        second = etag_of(await subject.put("tag", b"two"))
        for etag in (first, second):
            quoted = len(etag) > 2 and etag[0] == '"' and etag[-1] == '"'
            require(quoted, f"etag {etag} is not a quoted strong tag")
        require(first != second, f"two contents have one etag: {first}")


async def check_etags_unique(open_subject: OpenSubject) -> None:
    """Two writes of equal bytes have different tags, which clients never take for an MD5."""
    async with open_subject() as subject:
        etags = [etag_of(await subject.put("tag", b"same")) for _ in range(5)]
        require(len(set(etags)) == 5, f"etags repeat over equal bytes: {etags}")
        for etag in etags:
            bare = etag.strip('"').lower()
            looks_md5 = len(bare) == 32 and set(bare) <= set("0123456789abcdef")
            require(not looks_md5, f"etag {etag} looks like an MD5")


async def check_ranges(open_subject: OpenSubject) -> None:
    """Single ranges answer their part, others the whole, impossible ones 416 (RFC 9110, 14.2)."""
    data = noise(200_000)
    parts: tuple[tuple[str, int, int], ...] = (
        ("bytes=0-0", 0, 0),
        ("bytes=10-19", 10, 19),
        ("bytes=199990-", 199_990, 199_999),
        ("bytes=-5", 199_995, 199_999),
        ("bytes=-999999", 0, 199_999),
        ("bytes=100000-999999", 100_000, 199_999),
    )
    async with open_subject() as subject:
        etag_of(await subject.put("ranged", data))
        for asked, first, last in parts:
            reply, back = await subject.found("ranged", range_=asked)
            require(reply.span == (first, last, len(data)), f"{asked} answered {reply.span}")
            require(back == data[first : last + 1], f"{asked} answered other bytes")
            require(reply.meta.size == len(data), f"{asked}: meta.size is {reply.meta.size}")
        for impossible in ("bytes=200000-", "bytes=-0"):
            code = code_of(await subject.get("ranged", range_=impossible))
            require(code is Code.NOT_SATISFIABLE, f"{impossible} answered {code}")
        reply, back = await subject.found("ranged", range_="bytes=5-1")
        require(reply.span is None and back == data, "bytes=5-1 was not answered with the whole")


async def check_read_conditions(open_subject: OpenSubject) -> None:
    """If-None-Match answers 304, a false If-Match 412, on reads (RFC 9110, 13.1)."""
    async with open_subject() as subject:
        etag = etag_of(await subject.put("read", b"x"))
        for tags in ((etag,), ('"no"', etag), ("*",)):
            result = await subject.get("read", conditions=Conditions(if_none_match=tags))
            same = isinstance(result, ReadDone) and isinstance(result.reply, NotModified)
            require(same, f"If-None-Match {tags} of the current object answered {result!r}")
        result = await subject.get("read", conditions=Conditions(if_none_match=('"no"',)))
        found = isinstance(result, ReadDone) and isinstance(result.reply, ObjectFound)
        require(found, f"If-None-Match of another tag answered {result!r}")
        await _drop(result)
        result = await subject.get("read", conditions=Conditions(if_match=(etag,)))
        found = isinstance(result, ReadDone) and isinstance(result.reply, ObjectFound)
        require(found, f"If-Match of the current tag answered {result!r}")
        await _drop(result)
        code = code_of(await subject.get("read", conditions=Conditions(if_match=('"no"',))))
        require(code is Code.PRECONDITION_FAILED, f"a false If-Match answered {code}")


async def _drop(result: object) -> None:
    reply = getattr(result, "reply", None)
    if isinstance(reply, ObjectFound) and reply.chunks is not None:
        async for _ in reply.chunks:
            pass


async def check_broken_body(open_subject: OpenSubject) -> None:
    """A body that fails commits nothing: the old object, or its absence, stays."""
    async with open_subject() as subject:
        for breaks_after in (0, 1000, 300 * _KIB):
            gate = Gate()
            body = Pieces(noise(512 * _KIB), breaks_after=breaks_after)
            result = await subject.put("broken", body, gate=gate)
            require(isinstance(result, NotWritten), f"a broken body answered {result!r}")
            require(gate.calls == 0, "the gate was asked for a body that never came")
            require(await subject.seen("broken") is None, "a broken body left an object")
        etag = etag_of(await subject.put("broken", b"old"))
        for size in (400 * _KIB, 512 * _KIB):  # the last has all its bytes, but a wrong digest
            body = Pieces(noise(512 * _KIB), breaks_after=size)
            result = await subject.put("broken", body)
            require(isinstance(result, NotWritten), f"a broken body answered {result!r}")
            await _unchanged(subject, "broken", etag, b"old")


async def check_short_body(open_subject: OpenSubject) -> None:
    """Fewer or more bytes than announced are refused, and nothing is committed."""
    async with open_subject() as subject:
        etag = etag_of(await subject.put("short", b"old"))
        for announced in (9, 11):
            body = Pieces(b"0123456789")
            body.length = announced
            result = await subject.put("short", body)
            require(
                isinstance(result, NotWritten),
                f"10 bytes under a length of {announced} answered {result!r}",
            )
            await _unchanged(subject, "short", etag, b"old")


async def _unchanged(subject: Subject, key: str, etag: str, data: bytes) -> None:
    seen = await subject.seen(key)
    if seen is None:
        raise AssertionError(f"{key!r} is gone after a refused write")
    require(seen.data == data, f"{key!r} holds the bytes of a refused write")
    require(seen.etag == etag, f"{key!r} has another etag after a refused write")


async def check_gate_shut(open_subject: OpenSubject) -> None:
    """A shut gate refuses with its own problem, and nothing changes."""
    async with open_subject() as subject:
        gate = Gate(SHUT)
        result = await subject.put("shut", noise(300 * _KIB), gate=gate)
        require(result == NotWritten(SHUT), f"a shut gate answered {result!r}")
        require(gate.calls == 1, f"the gate was asked {gate.calls} times, not once")
        require(await subject.seen("shut") is None, "a refused create left an object")
        etag = etag_of(await subject.put("shut", b"old"))
        require(await subject.put("shut", b"new", gate=Gate(SHUT)) == NotWritten(SHUT), "passed")
        await _unchanged(subject, "shut", etag, b"old")
        require(await subject.delete("shut", gate=Gate(SHUT)) == NotWritten(SHUT), "passed")
        await _unchanged(subject, "shut", etag, b"old")


async def check_gate_last(open_subject: OpenSubject) -> None:
    """The gate is asked exactly once, after the whole body; before that nothing is visible."""
    async with open_subject() as subject:
        etag = etag_of(await subject.put("gate", b"old"))
        for size in (0, 1, 64 * _KIB, 700 * _KIB):
            body = Pieces(noise(size), piece_bytes=32 * _KIB, hold=True)
            gate = Gate(body=body)
            writing = asyncio.create_task(subject.put("gate", body, gate=gate))
            await in_time("the stall of the body", body.held.wait())
            require(gate.calls == 0, "the gate was asked before the body was there")
            seen = await subject.seen("gate")
            require(seen is not None and seen.etag == etag, "a write is visible before its gate")
            body.release.set()
            etag = etag_of(await in_time("the write", writing))
            require(gate.calls == 1, f"the gate was asked {gate.calls} times, not once")
            require(not gate.early, "the gate was asked before the body's end")
        gate = Gate()
        require(isinstance(await subject.delete("gate", gate=gate), Written), "DELETE failed")
        require(gate.calls == 1, f"DELETE asked the gate {gate.calls} times, not once")


async def check_reads_do_not_mix(open_subject: OpenSubject) -> None:
    """A read during replacements answers one version: its tag, length and bytes belong together."""
    async with open_subject() as subject:
        contents = {bytes([65 + i]) * (100_000 + i) for i in range(6)}
        known: dict[str, bytes] = {}

        async def replace() -> None:
            for data in sorted(contents) * 3:
                known[etag_of(await subject.put("mixed", data))] = data

        etag_of(await subject.put("mixed", min(contents)))
        writing = asyncio.create_task(replace())
        reads: list[tuple[str, bytes]] = []
        while not writing.done():
            reply, data = await subject.found("mixed")
            reads.append((reply.meta.etag, data))
            await asyncio.sleep(0)  # a store that never waits must let the writer in
        await in_time("the replacements", writing)
        for etag, data in reads:
            require(data in contents, "a read answered bytes of two versions")
            require(known.get(etag, data) == data, "a read answered one version's tag for another")


async def check_put_reply(open_subject: OpenSubject) -> None:
    """A PUT answers `ObjectPut` with the tag that a later look at the object shows."""
    async with open_subject() as subject:
        result = await subject.put("reply", b"1")
        require(isinstance(result, Written), f"PUT answered {result!r}")
        assert isinstance(result, Written)
        require(isinstance(result.reply, ObjectPut), f"PUT answered {result.reply!r}")
        seen = await subject.seen("reply")
        require(seen is not None and seen.etag == etag_of(result), "the tags differ")
