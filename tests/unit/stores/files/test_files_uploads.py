"""Bodies on their way to the disk: bounded memory, cancellation, and what dead processes left."""

from __future__ import annotations

import asyncio
import os
import threading
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.model.problem import Code
from gateway.model.reply import ObjectFound
from gateway.ports.store import NotWritten, ReadDone
from gateway.stores.files import BucketStore, TreeStore
from gateway.stores.files.chunks import CHUNK_BYTES
from gateway.stores.files.faults import Refusal
from gateway.stores.files.incoming import Incoming, receive
from gateway.stores.files.threads import DiskThreads
from gateway.testing.store_contract import OpenSubject, Subject
from gateway.testing.store_subject import Gate, Pieces, etag_of, in_time
from tests.conformance.files.files_subjects import open_buckets, open_tree

MIB = 1 << 20
OPENERS = {"tree": open_tree(), "buckets": open_buckets()}
both = pytest.mark.parametrize("opened", OPENERS.values(), ids=OPENERS)


class Flood:
    """A long body that nobody holds in memory."""

    def __init__(self, mebibytes: int) -> None:
        self.length = mebibytes * MIB

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self.length // 65536):
            yield bytes(65536)


@pytest.fixture
async def threads() -> AsyncIterator[DiskThreads]:
    threads = DiskThreads("test")
    yield threads
    threads.close()


async def test_memory_is_bounded(tmp_path: Path, threads: DiskThreads) -> None:
    """A body of 64 MiB passes through less than 2 MiB of memory."""
    incoming = Incoming(tmp_path)
    incoming.open(lambda left: None)
    upload = incoming.upload("w1")
    tracemalloc.start()
    try:
        await receive(Flood(64), 64 * MIB, upload, threads)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * MIB
    assert upload.path.stat().st_size == upload.size == 64 * MIB
    upload.discard()
    incoming.close()
    assert list(tmp_path.iterdir()) == []


async def test_too_long_a_body_is_cut_off_at_once(tmp_path: Path, threads: DiskThreads) -> None:
    """What comes beyond the announced length is not stored first and refused later."""
    incoming = Incoming(tmp_path)
    incoming.open(lambda left: None)
    upload = incoming.upload("w1")
    with pytest.raises(Refusal, match="10 bytes were announced"):
        await receive(Flood(64), 10, upload, threads)
    assert upload.size == 0
    upload.discard()
    incoming.close()


def test_dead_processes_are_cleared_and_live_ones_left(tmp_path: Path) -> None:
    """A start clears what nobody holds a lock on, shows each file first, and nothing else."""
    live = Incoming(tmp_path)
    live.open(lambda left: None)
    (live.directory / "upload.1").touch()
    for name in ("1-dead", "2-dead"):
        (tmp_path / f"{name}.lock").touch()
        (tmp_path / name).mkdir()
        (tmp_path / name / "left.1").touch()
    (tmp_path / "3-half.lock").touch()  # died before it made its directory
    seen: list[str] = []
    later = Incoming(tmp_path)
    later.open(lambda left: seen.append(f"{left.parent.name}/{left.name}"))
    assert seen == ["1-dead/left.1", "2-dead/left.1"]
    assert (live.directory / "upload.1").exists()
    assert {path.name for path in tmp_path.iterdir()} == {
        name
        for each in (live, later)
        for name in (each.directory.name, f"{each.directory.name}.lock")
    }
    for each in (live, later):
        each.close()
    assert list(tmp_path.iterdir()) == []


def test_uploads_are_named_after_their_write(tmp_path: Path) -> None:
    """A left-over tells its write; no id can lead out of the directory, and none is used twice."""
    incoming = Incoming(tmp_path)
    names = [incoming.upload(write_id).name for write_id in ("w1", "w1", "../../x", "a/b", "")]
    assert names == ["w1.1", "w1.2", "upload.3", "upload.4", "upload.5"]


def uploads_of(subject: Subject) -> list[Path]:
    directory: Path = subject.store._incoming.directory  # type: ignore[attr-defined]
    return list(directory.iterdir())


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@both
async def test_a_cancelled_write_leaves_nothing(opened: OpenSubject) -> None:
    """A caller that goes away in the middle of a body leaves no file, no lock and no change."""
    async with opened() as subject:
        etag = etag_of(await subject.put("x", b"old"))
        before = open_files()
        for size in (100, 2 * MIB):
            body = Pieces(b"n" * size, piece_bytes=MIB, hold=True)
            writing = asyncio.create_task(subject.put("x", body))
            await in_time("the stall", body.held.wait())
            writing.cancel()
            await asyncio.wait({writing})
            assert writing.cancelled()
            assert uploads_of(subject) == []
        assert open_files() == before
        seen = await subject.seen("x")
        assert seen is not None
        assert seen.etag == etag
        await subject.carry(subject.scope("x"), 2)


@both
async def test_a_write_cancelled_at_any_point_is_whole(opened: OpenSubject) -> None:
    """Wherever a cancellation strikes, the object is one whole version, and no lock is lost."""
    async with opened() as subject:
        etag_of(await subject.put("x", b"0" * 1000))
        await subject.seen("x")
        before = open_files()
        for turns in range(60):
            writing = asyncio.create_task(subject.put("x", b"%d" % (turns % 10) * 1000))
            await asyncio.wait({writing}, timeout=turns * 0.0002)  # another moment each time
            writing.cancel()
            await asyncio.wait({writing})
            seen = await subject.seen("x")
            assert seen is not None
            assert len(seen.data) == 1000
            assert len(set(seen.data)) == 1
            assert seen.etag.startswith('"w')
            assert uploads_of(subject) == []
        # An index may open a connection (three files) for each of the eight threads, but no more.
        assert open_files() <= before + (24 if subject.bucket else 0)
        await subject.carry(subject.scope("x"), 2)
        etag_of(await subject.put("x", b"1", token=2))


@both
async def test_a_write_cancelled_behind_its_gate_is_finished(opened: OpenSubject) -> None:
    """Once the effect is there the rest is done too, so that no lock and no garbage remains."""
    async with opened() as subject:
        etag_of(await subject.put("x", b"old"))
        tasks: list[asyncio.Task[object]] = []
        gate = Gate(action=lambda: [task.cancel() for task in tasks])
        tasks.append(asyncio.create_task(subject.put("x", b"new", gate=gate)))
        await asyncio.wait(tasks)
        seen = await subject.seen("x")
        assert seen is not None
        assert seen.data == b"new"
        assert uploads_of(subject) == []
        await subject.carry(subject.scope("x"), 2)


@both
async def test_answers_hold_no_file_open_for_ever(opened: OpenSubject) -> None:
    """An answer is read to its end, or closed early; a small one holds nothing at all."""
    async with opened() as subject:
        etag_of(await subject.put("big", b"b" * (3 * CHUNK_BYTES)))
        etag_of(await subject.put("small", b"s"))
        await subject.seen("big")
        before = open_files()
        for key in ("big", "small"):
            result = await subject.get(key)
            assert isinstance(result, ReadDone)
            assert isinstance(result.reply, ObjectFound)
            assert result.reply.chunks is not None
            assert open_files() == before + (key == "big")
            first = await anext(result.reply.chunks)
            assert 0 < len(first) <= CHUNK_BYTES
            await result.reply.chunks.aclose()  # type: ignore[attr-defined]
            assert open_files() == before
            assert [chunk async for chunk in result.reply.chunks] == []
        for _ in range(30):
            reading = asyncio.create_task(subject.get("big"))
            await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait({reading})
            if not reading.cancelled():
                reading.result().reply.chunks.close()  # type: ignore[union-attr]
        assert open_files() == before


async def test_a_file_cut_while_it_is_read_is_an_error() -> None:
    """Fewer bytes than announced are never passed off as a whole answer."""
    async with OPENERS["tree"]() as subject:
        etag_of(await subject.put("x", b"x" * (3 * CHUNK_BYTES)))
        result = await subject.get("x")
        assert isinstance(result, ReadDone)
        assert isinstance(result.reply, ObjectFound)
        assert result.reply.chunks is not None
        os.truncate(subject.store._root / "x", CHUNK_BYTES)  # type: ignore[attr-defined]
        assert len(await anext(result.reply.chunks)) == CHUNK_BYTES
        with pytest.raises(OSError, match="was cut"):
            await anext(result.reply.chunks)


@both
async def test_the_event_loop_is_not_held_up(opened: OpenSubject) -> None:
    """While the disk is slow, others go on: nothing that waits for it runs in the loop's thread."""
    async with opened() as subject:
        etag_of(await subject.put("x", b"1"))
        real = os.fsync
        threads: set[bool] = set()

        def slow(fd: int) -> None:
            threads.add(threading.current_thread() is threading.main_thread())
            threading.Event().wait(0.1)
            real(fd)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", slow)
            writing = asyncio.create_task(subject.put("x", b"2" * MIB))
            turns = 0
            while not writing.done():
                await asyncio.wait({writing}, timeout=0.005)
                turns += 1
            etag_of(writing.result())
        assert threads == {False}
        assert turns > 20


async def test_a_closed_store_leaves_nothing_behind(tmp_path: Path) -> None:
    """A stop in good order removes the upload directory; a second stop is nothing."""
    for store in (TreeStore("t", tmp_path / "t"), BucketStore("b", tmp_path / "b", ["kit"])):
        await store.probe()
        await store.aclose()
        await store.aclose()
    assert list((tmp_path / "t/.fencegate/tmp").iterdir()) == []
    assert list((tmp_path / "b/tmp").iterdir()) == []
    assert not (tmp_path / "b/index.sqlite-wal").exists()


async def test_a_body_in_pieces_of_every_size(tmp_path: Path) -> None:
    """Empty pieces and pieces larger than the buffer are stored alike."""
    async with OPENERS["tree"]() as subject:
        data = bytes(range(256)) * 5000
        for size in (1000, 300_000, 2_000_000):
            etag_of(await subject.put("x", Pieces(data, piece_bytes=size)))
            seen = await subject.seen("x")
            assert seen is not None
            assert seen.data == data


async def test_a_wrong_length_is_refused_by_its_name() -> None:
    """A body that is shorter than announced is 400 with both figures."""
    async with OPENERS["buckets"]() as subject:
        body = Pieces(b"12345")
        body.length = 6
        result = await subject.put("x", body)
        assert isinstance(result, NotWritten)
        assert (result.problem.code, result.problem.native) == (
            Code.REQUEST_MALFORMED,
            "IncompleteBody",
        )
        assert "6 bytes were announced and only 5" in result.problem.message
