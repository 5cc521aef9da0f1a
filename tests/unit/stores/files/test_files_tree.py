"""The plain tree as people and other programs see it: names, directories, links, foreign files."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.model.conditions import Conditions
from gateway.model.mark import Era, Mark
from gateway.model.object_action import ListBuckets, PutObject
from gateway.model.operation import Kind
from gateway.model.problem import Code
from gateway.model.reply import ObjectDeleted, ObjectFound, ObjectPut
from gateway.ports.store import NotWritten, ProbeFailed, ReadDone, ReadRefused, Written
from gateway.stores.files import BucketStore, TreeStore
from gateway.stores.files.tree_changes import Replacement
from gateway.testing.store_subject import SHUT, Gate, Pieces, Subject, code_of, etag_of
from tests.conformance.files.files_subjects import TREE


@pytest.fixture
async def tree(tmp_path: Path) -> AsyncIterator[Subject]:
    store = TreeStore("files", tmp_path)
    yield Subject(store, TREE)
    await store.aclose()


def names(root: Path) -> set[str]:
    """All that a person sees below the root, without the gateway's own directory."""
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if ".fencegate" not in path.relative_to(root).parts
    }


async def test_people_can_read_it(tree: Subject, tmp_path: Path) -> None:
    """An object is a file with just its bytes, under its path with the escapes decoded."""
    etag_of(await tree.put("reports/%C3%BC%20a/q1.csv", b"1;2\n"))
    assert (tmp_path / "reports/ü a/q1.csv").read_bytes() == b"1;2\n"
    assert names(tmp_path) == {"reports", "reports/ü a", "reports/ü a/q1.csv"}


async def test_directories_come_and_go_with_objects(tree: Subject, tmp_path: Path) -> None:
    """The last object below a directory takes it along, so that its name is free again."""
    etag_of(await tree.put("a/b/c", b"1"))
    etag_of(await tree.put("a/d", b"2"))
    await tree.delete("a/b/c")
    assert names(tmp_path) == {"a", "a/d"}
    await tree.delete("a/d")
    assert names(tmp_path) == set()
    etag_of(await tree.put("a", b"3"))
    assert names(tmp_path) == {"a"}


async def test_a_refused_create_leaves_no_directory(tree: Subject, tmp_path: Path) -> None:
    """What was made for a write that the gate refuses goes again; what was there stays."""
    (tmp_path / "inbox").mkdir()
    for key in ("x/y/z", "inbox/new"):
        assert await tree.put(key, b"1", gate=Gate(SHUT)) == NotWritten(SHUT)
        await tree.put(key, b"1", conditions=Conditions(if_match=('"no"',)))
    assert names(tmp_path) == {"inbox"}
    meta = [path for path in (tmp_path / ".fencegate/meta").rglob("*") if path.is_file()]
    assert meta == []


async def test_a_file_and_a_directory_cannot_share_a_name(tree: Subject) -> None:
    """Below a file, and in place of a directory with objects, a write is a conflict, with why."""
    etag_of(await tree.put("a", b"1"))
    etag_of(await tree.put("d/x", b"1"))
    gate = Gate()
    below = await tree.put("a/b", b"2", gate=gate)
    instead = await tree.put("d", b"2", gate=gate)
    assert code_of(below) is Code.CONFLICT
    assert code_of(instead) is Code.CONFLICT
    assert gate.calls == 0
    for key in ("a/b", "d"):
        assert await tree.seen(key) is None
        assert await tree.delete(key) == Written(ObjectDeleted(existed=False))
    assert (await tree.seen("a")).data == b"1"  # type: ignore[union-attr]


async def test_an_empty_directory_gives_way(tree: Subject, tmp_path: Path) -> None:
    """A directory that somebody left empty is no object, and does not stand in the way of one."""
    (tmp_path / "a").mkdir()
    assert await tree.seen("a") is None
    etag_of(await tree.put("a", b"1"))
    assert (tmp_path / "a").read_bytes() == b"1"


async def test_a_directory_that_fills_at_the_gate(tree: Subject, tmp_path: Path) -> None:
    """What comes up between check and effect is answered as it is, and nothing is lost."""
    (tmp_path / "a").mkdir()
    result = await tree.put(
        "a", b"1", gate=Gate(action=lambda: (tmp_path / "a/by-hand").write_text("x"))
    )
    assert code_of(result) is Code.CONFLICT
    assert names(tmp_path) == {"a", "a/by-hand"}


async def test_a_directory_cleared_at_the_gate_is_made_again(tree: Subject, tmp_path: Path) -> None:
    """A neighbour's removal may clear the directory of a write that has passed its gate."""
    result = await tree.put("a/b", b"1", gate=Gate(action=(tmp_path / "a").rmdir))
    etag_of(result)
    assert (tmp_path / "a/b").read_bytes() == b"1"


async def test_puts_and_deletes_in_one_directory_never_fail(tree: Subject, tmp_path: Path) -> None:
    """Directories that are cleared and made all the time disturb no write."""

    async def work(name: str) -> None:
        for _ in range(15):
            etag_of(await tree.put(f"a/b/{name}", b"1"))
            assert await tree.delete(f"a/b/{name}") == Written(ObjectDeleted())

    await asyncio.gather(*(work(name) for name in "wxyz"))
    assert names(tmp_path) == set()


@pytest.mark.parametrize("inside", [True, False])
async def test_links_are_never_followed(
    tree: Subject, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, inside: bool
) -> None:
    """A symbolic link is no object and no directory, wherever it leads."""
    outside = tmp_path / "real" if inside else tmp_path_factory.mktemp("outside")
    outside.mkdir(exist_ok=True)
    (outside / "secret").write_text("s")
    (tmp_path / "file").symlink_to(outside / "secret")
    (tmp_path / "dir").symlink_to(outside)
    for key in ("file", "dir/secret"):
        assert await tree.seen(key) is None
        assert code_of(await tree.get(key, head=True)) is Code.NOT_FOUND
        assert code_of(await tree.put(key, b"x")) is Code.CONFLICT
        assert await tree.delete(key) == Written(ObjectDeleted(existed=False))
    assert code_of(await tree.put("dir/new", b"x")) is Code.CONFLICT
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]
    assert (outside / "secret").read_text() == "s"
    assert (tmp_path / "file").is_symlink()


async def test_special_files_are_no_objects(tree: Subject, tmp_path: Path) -> None:
    """A pipe does not hang a read, and is not replaced."""
    os.mkfifo(tmp_path / "pipe")
    assert await tree.seen("pipe") is None
    assert code_of(await tree.put("pipe", b"x")) is Code.CONFLICT


async def test_a_file_put_by_hand_is_an_object(tree: Subject, tmp_path: Path) -> None:
    """It has a tag of its own that changes with it, can be compared, replaced and removed."""
    (tmp_path / "by-hand").write_text("one")
    seen = await tree.seen("by-hand")
    assert seen is not None
    assert (seen.data, seen.metadata) == (b"one", {})
    assert seen == await tree.seen("by-hand")
    (tmp_path / "by-hand").write_text("two")
    again = await tree.seen("by-hand")
    assert again is not None
    assert again.etag != seen.etag
    stale = await tree.put("by-hand", b"x", conditions=Conditions(if_match=(seen.etag,)))
    assert code_of(stale) is Code.PRECONDITION_FAILED
    result = await tree.put("by-hand", b"x", conditions=Conditions(if_match=(again.etag,)))
    assert isinstance(result, Written)
    assert isinstance(result.reply, ObjectPut)
    assert not result.reply.created


async def test_a_file_changed_by_hand_loses_its_record(tree: Subject, tmp_path: Path) -> None:
    """An edit in place is another version: another tag, and no metadata of the one before."""
    etag = etag_of(await tree.put("x", b"one", metadata=(("content-type", "a/b"),)))
    with (tmp_path / "x").open("ab") as file:
        file.write(b"!")
    seen = await tree.seen("x")
    assert seen is not None
    assert (seen.data, seen.metadata) == (b"one!", {})
    assert seen.etag != etag


async def test_equal_times_still_tell_versions_apart(
    tree: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that stands still or goes back gives no version another one's record."""
    far_ns = 4_000_000_000 * 10**9
    etag_of(await tree.put("x", b"aaa", metadata=(("content-type", "a/a"),)))
    os.utime(tmp_path / "x", ns=(far_ns, far_ns))  # later than all to come
    sidecar = next(p for p in (tmp_path / ".fencegate/meta").rglob("*") if p.is_file())
    head, line = sidecar.read_text().splitlines()
    sidecar.write_text("\n".join([head, json.dumps(json.loads(line) | {"modified_ns": far_ns})]))
    for number in range(3):
        media = f"b/{number}"
        etag = etag_of(await tree.put("x", b"bbb", metadata=(("content-type", media),)))
        seen = await tree.seen("x")
        assert seen is not None
        assert (seen.etag, seen.metadata) == (etag, {"content-type": media})
    assert (tmp_path / "x").stat().st_mtime_ns > far_ns


async def test_a_damaged_sidecar_costs_metadata_not_data(tree: Subject, tmp_path: Path) -> None:
    """The bytes are there still; the file is then like one put there by hand."""
    etag_of(await tree.put("x", b"data", metadata=(("content-type", "a/b"),)))
    sidecar = next(p for p in (tmp_path / ".fencegate/meta").rglob("*") if p.is_file())
    for text in ("", "x\nnonsense\n", 'x\n{"etag": 1}\n', "x\n[]\n"):
        sidecar.write_text(text)
        seen = await tree.seen("x")
        assert seen is not None
        assert (seen.data, seen.metadata) == (b"data", {})
    etag_of(await tree.put("x", b"next"))


async def test_created_is_told(tree: Subject) -> None:
    """The first PUT of a path creates, the next replaces, and a replay tells what it did then."""
    first = await tree.put("x", b"1", write_id="one")
    second = await tree.put("x", b"2", write_id="two")
    replay = await tree.put("x", b"2", previous_write_id="two")
    await tree.delete("x")
    third = await tree.put("x", b"3", write_id="three")
    again = await tree.put("x", b"3", previous_write_id="three")
    created = [
        result.reply.created
        for result in (first, second, replay, third, again)
        if isinstance(result, Written) and isinstance(result.reply, ObjectPut)
    ]
    assert created == [True, False, False, True, True]


async def test_a_replay_comes_before_the_mark(tree: Subject) -> None:
    """What was applied is answered as applied, also when a newer holder has come since."""
    etag = etag_of(await tree.put("x", b"1", token=1, write_id="one"))
    await tree.carry(tree.scope("x"), 2)
    operation = tree.operation(PutObject("", "x", 1), Kind.WRITE, "PUT", "x", Conditions())
    replay = await tree.mutate(
        operation,
        Pieces(b"1"),
        mark=Mark(Era(1), 1),
        scope=tree.scope("x"),
        previous_write_id="one",
    )
    assert etag_of(replay) == etag


async def test_bad_names(tree: Subject, tmp_path: Path) -> None:
    """What no file can be is refused on writes before the body is read, and not found on reads."""
    for key in ("..", "a/../../etc/passwd", ".fencegate/format", "a//b", "x" * 256, "a%2Fb"):
        body = Pieces(b"x")
        result = await tree.put(key, body)
        assert code_of(result) is Code.CONFLICT
        assert not body.finished
        refused = await tree.get(key)
        assert code_of(refused) is Code.NOT_FOUND
        assert code_of(await tree.delete(key)) is Code.CONFLICT
    assert names(tmp_path) == set()


async def test_other_actions_are_refused(tree: Subject) -> None:
    """A tree has no buckets and no rows."""
    result = await tree.store.read(
        tree.operation(ListBuckets(), Kind.LIST, "GET", "", Conditions())
    )
    assert isinstance(result, ReadRefused)
    assert result.problem.code is Code.NOT_FENCED


async def test_a_head_of_a_range_has_no_body(tree: Subject) -> None:
    """HEAD tells the length of the part, and holds no file open."""
    etag_of(await tree.put("x", b"0123456789"))
    result = await tree.get("x", head=True, range_="bytes=2-4")
    assert isinstance(result, ReadDone)
    assert isinstance(result.reply, ObjectFound)
    assert (result.reply.length, result.reply.span, result.reply.chunks) == (3, (2, 4, 10), None)


async def test_one_root_has_one_layout(tree: Subject, tmp_path: Path) -> None:
    """A root that another layout uses, or a later version, is refused at the start, by name."""
    await tree.store.probe()
    (tmp_path / ".fencegate/format").write_text("fencegate tree 9\n")
    store = TreeStore("files", tmp_path)
    with pytest.raises(ProbeFailed, match="tree 9"):
        await store.probe()
    await store.aclose()
    root = tmp_path / "objects"
    buckets = BucketStore("objects", root, ["b"])
    await buckets.probe()
    await buckets.aclose()
    assert (root / "format").read_text() == "fencegate buckets 1\n"


async def test_a_root_that_cannot_be_is_named(tmp_path: Path) -> None:
    """The probe names the store, the root, and what to change."""
    (tmp_path / "file").write_text("")
    store = TreeStore("files", tmp_path / "file")
    with pytest.raises(ProbeFailed, match=r"'files'.*root = "):
        await store.probe()
    await store.aclose()


async def test_a_file_system_that_folds_names_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes `A` for `a` would give two scopes to one file."""
    real = Path.exists

    def folding(self: Path) -> bool:
        return real(self) or (self.name == "PROBE-Ä" and real(self.with_name("probe-ä")))

    store = TreeStore("files", tmp_path)
    assert (await store.probe()).exact
    monkeypatch.setattr(Path, "exists", folding)
    with pytest.raises(ProbeFailed, match="upper from lower"):
        await store.probe()
    await store.aclose()


async def test_locks_that_do_not_lock_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system whose locks let two holders in would promise nothing."""
    monkeypatch.setattr(fcntl, "flock", lambda fd, how: None)
    store = TreeStore("files", tmp_path)
    with pytest.raises(ProbeFailed, match="locks do not work"):
        await store.probe()
    await store.aclose()


async def test_readers_meet_writers(tree: Subject) -> None:
    """A reader between a writer's steps always finds a version with its own record."""
    etag_of(await tree.put("x", b"0", metadata=(("n", "0"),)))

    async def write() -> None:
        for number in range(1, 60):
            etag_of(await tree.put("x", b"%d" % number, metadata=(("n", str(number)),)))

    writing = asyncio.create_task(write())
    reads = 0
    while not writing.done():
        seen = await tree.seen("x")
        assert seen is not None
        assert seen.metadata == {"n": seen.data.decode()}
        reads += 1
    await writing
    assert reads > 10


async def test_the_record_is_durable_before_the_effect(
    tree: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes and sidecar are synced before the gate, the directory before the answer."""
    await tree.carry(tree.scope("x"), 1)
    steps: list[str] = []
    real_fsync, real_commit = os.fsync, Replacement.commit

    def fsync(fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        steps.append(path.suffix or str(path.relative_to(tmp_path).parent) + "/")
        real_fsync(fd)

    def commit(self: Replacement) -> None:
        steps.append("effect")
        real_commit(self)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Replacement, "commit", commit)
    etag_of(await tree.put("x", b"1"))
    at = steps.index("effect")
    first, record, directory = steps[0], steps.index(".record"), steps[at - 1]
    assert first == ".1"  # the upload
    assert 0 < record < at - 1
    assert directory.startswith(".fencegate/meta/")
    assert len(steps) == at + 2  # and the directory of the file
