"""The bucket layout: its index, its files, and what a crash may leave of them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.model.conditions import Conditions
from gateway.model.object_action import PutObject
from gateway.model.operation import Kind
from gateway.model.problem import Code
from gateway.model.reply import ObjectDeleted
from gateway.ports.store import NotWritten, ProbeFailed, ReadRefused, Written
from gateway.stores.files import BucketStore
from gateway.stores.files.blobs import PLACED_SUFFIX
from gateway.stores.files.index import Index
from gateway.testing.store_subject import SHUT, Gate, Pieces, Subject, code_of, etag_of
from tests.conformance.files.files_subjects import BUCKETS


@pytest.fixture
async def shelf(tmp_path: Path) -> AsyncIterator[Subject]:
    store = BucketStore("objects", tmp_path, ["kit"], region="eu-here-1")
    yield Subject(store, BUCKETS, bucket="kit")
    await store.aclose()


def blobs(root: Path) -> list[Path]:
    return [path for path in (root / "blobs").rglob("*") if path.is_file()]


def table(root: Path, name: str) -> int:
    with closing(sqlite3.connect(root / "index.sqlite")) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0])


async def reopened(root: Path) -> Subject:
    return Subject(BucketStore("objects", root, ["kit"]), BUCKETS, bucket="kit")


async def test_one_file_per_object(shelf: Subject, tmp_path: Path) -> None:
    """Replaced and removed versions, and refused writes, leave no file behind."""
    for number in range(5):
        etag_of(await shelf.put("k", b"%d" % number))
        assert len(blobs(tmp_path)) == 1
    assert await shelf.put("k", b"x", gate=Gate(SHUT)) == NotWritten(SHUT)
    await shelf.put("k", b"x", conditions=Conditions(if_match=('"no"',)))
    assert [path.read_bytes() for path in blobs(tmp_path)] == [b"4"]
    assert await shelf.delete("k") == Written(ObjectDeleted())
    assert await shelf.delete("k") == Written(ObjectDeleted(existed=False))
    assert blobs(tmp_path) == []
    uploads = next(path for path in (tmp_path / "tmp").iterdir() if path.is_dir())
    assert list(uploads.iterdir()) == []


async def test_garbage_is_forgotten_once_it_is_gone(shelf: Subject, tmp_path: Path) -> None:
    """The list of replaced files does not grow with the number of writes."""
    for number in range(20):
        etag_of(await shelf.put("k", b"%d" % number))
    assert table(tmp_path, "garbage") <= 2


async def test_what_a_crash_left_is_cleared(shelf: Subject, tmp_path: Path) -> None:
    """Files that were replaced but not removed, and placed but not pointed to, go at a start."""
    etag_of(await shelf.put("keep", b"keep"))
    etag_of(await shelf.put("old", b"old"))
    await shelf.store.aclose()
    kept = {path.name for path in blobs(tmp_path)}
    with closing(sqlite3.connect(tmp_path / "index.sqlite")) as connection:
        connection.execute("INSERT INTO garbage SELECT blob FROM objects WHERE key = x'6f6c64'")
        connection.execute("DELETE FROM objects WHERE key = x'6f6c64'")
        keep = str(connection.execute("SELECT blob FROM objects").fetchone()[0])
        connection.commit()
    dead = tmp_path / "tmp/1-dead"
    dead.mkdir()
    (tmp_path / "tmp/1-dead.lock").touch()
    (dead / "upload.1").write_bytes(b"half")
    orphan = keep.partition(".")[0] + ".0123456789abcdef"
    cut = "f" * 64 + ".0123456789abcdef"
    for blob, note in ((keep, b"kit/keep"), (orphan, b"kit/keep"), (cut, b"kit/ke")):
        path = tmp_path / f"blobs/{blob[:2]}/{blob[2:4]}/{blob[4:]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        (dead / f"{blob}{PLACED_SUFFIX}").write_bytes(note)
    (dead / f"{keep}{PLACED_SUFFIX}").write_bytes(b"")  # a power cut takes the note's content
    again = await reopened(tmp_path)
    await again.store.probe()
    seen = await again.seen("keep")
    assert seen is not None
    assert seen.data == b"keep"
    assert {path.name for path in blobs(tmp_path)} == {keep[4:]} < kept
    assert not dead.exists()
    assert table(tmp_path, "garbage") == 0
    await again.store.aclose()


async def test_a_missing_file_is_told(shelf: Subject, tmp_path: Path) -> None:
    """A file that somebody removed beside the index is a broken store, not a missing object."""
    etag_of(await shelf.put("k", b"1"))
    blobs(tmp_path)[0].unlink()
    result = await shelf.get("k")
    assert isinstance(result, ReadRefused)
    assert result.problem.code is Code.UPSTREAM_FAILED
    assert "restore" in result.problem.message
    etag_of(await shelf.put("k", b"2"))


async def test_old_files_go_only_after_the_log_is_on_the_disk(
    shelf: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COMMIT, then the sync of the log, then the removal of what it replaced, then the answer."""
    etag_of(await shelf.put("k", b"1"))
    steps: list[str] = []
    for owner, name in ((Index, "commit"), (Index, "flush"), (os, "unlink")):
        real = getattr(owner, name)

        def step(*args: object, _real=real, _name: str = name, **how: object) -> object:  # type: ignore[no-untyped-def]
            steps.append(_name)
            return _real(*args, **how)

        monkeypatch.setattr(owner, name, step)
    etag_of(await shelf.put("k", b"2"))
    assert steps[steps.index("commit") :][:3] == ["commit", "flush", "unlink"]


async def test_commits_are_durable_without_a_clean_end(tmp_path: Path) -> None:
    """What was answered is in the log's file, which another connection reads after a kill."""
    store = BucketStore("objects", tmp_path, ["kit"])
    subject = Subject(store, BUCKETS, bucket="kit")
    etag_of(await subject.put("k", b"1"))
    synced = (tmp_path / "index.sqlite-wal").read_bytes()
    database = (tmp_path / "index.sqlite").read_bytes()
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "index.sqlite").write_bytes(database)
    (copy / "index.sqlite-wal").write_bytes(synced)
    assert table(copy, "objects") == 1
    await store.aclose()


@pytest.mark.parametrize("commits, emptied", [(10, True), (10_000, False)])
async def test_the_log_is_emptied(
    commits: int, emptied: bool, tmp_path: Path, shelf: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints run beside the writes, so that the log does not grow with their number.

    Without them it does: the control.
    """
    monkeypatch.setattr("gateway.stores.files.buckets._CHECKPOINT_COMMITS", commits)
    log = tmp_path / "index.sqlite-wal"
    etag_of(await shelf.put("k", b""))
    one_write = log.stat().st_size
    etag_of(await shelf.put("k", b""))
    one_write = log.stat().st_size - one_write
    for number in range(250):
        etag_of(await shelf.put("k", b"%d" % number))
    assert (log.stat().st_size < 125 * one_write) is emptied


async def test_buckets_stay_when_they_are_not_named(tmp_path: Path) -> None:
    """A bucket that the settings no longer name is not found, and is as before once it is named."""
    both = Subject(BucketStore("objects", tmp_path, ["kit", "two"]), BUCKETS, bucket="two")
    etag_of(await both.put("k", b"1"))
    await both.store.aclose()
    one = Subject(BucketStore("objects", tmp_path, ["kit"]), BUCKETS, bucket="two")
    result = await one.get("k")
    assert isinstance(result, ReadRefused)
    assert result.problem.native == "NoSuchBucket"
    await one.store.aclose()
    again = Subject(BucketStore("objects", tmp_path, ["two"]), BUCKETS, bucket="two")
    seen = await again.seen("k")
    assert seen is not None
    assert seen.data == b"1"
    await again.store.aclose()


@pytest.mark.parametrize(
    "key, native",
    [
        ("", "InvalidArgument"),
        ("x" * 1025, "KeyTooLongError"),
        ("a\udcff", "InvalidURI"),
    ],
)
async def test_bad_keys(shelf: Subject, key: str, native: str) -> None:
    """A key that S3 does not take is refused by S3's name for it."""
    result = await shelf.put(key, b"") if key.isascii() else await _undecodable(shelf, key)
    assert isinstance(result, NotWritten)
    assert result.problem.native == native


async def _undecodable(shelf: Subject, key: str) -> object:
    operation = shelf.operation(PutObject("kit", key, 0), Kind.WRITE, "PUT", "k", Conditions())
    mark = await shelf.carry(shelf.scope("k"), 1)
    return await shelf.mutate(operation, Pieces(b""), mark=mark, scope=shelf.scope("k"))


async def test_a_newer_index_is_refused(shelf: Subject, tmp_path: Path) -> None:
    """An index of another version is left alone."""
    await shelf.store.probe()
    await shelf.store.aclose()
    with closing(sqlite3.connect(tmp_path / "index.sqlite")) as connection:
        connection.execute("PRAGMA user_version=9")
    again = await reopened(tmp_path)
    with pytest.raises(ProbeFailed):
        await again.store.probe()
    await again.store.aclose()


async def test_removals_are_remembered_in_number(
    shelf: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of removals is bounded."""
    monkeypatch.setattr("gateway.stores.files.index._REMEMBERED_REMOVALS", 5)
    for number in range(12):
        etag_of(await shelf.put(f"k{number}", b""))
        await shelf.delete(f"k{number}", write_id=f"w{number}")
    assert table(tmp_path, "removals") == 5
    replay = await shelf.delete(
        "k11", conditions=Conditions(if_match=("*",)), previous_write_id="w11"
    )
    assert replay == Written(ObjectDeleted(), earlier=True)
    forgotten = await shelf.delete(
        "k0", conditions=Conditions(if_match=("*",)), previous_write_id="w0"
    )
    assert code_of(forgotten) is Code.NOT_FOUND
