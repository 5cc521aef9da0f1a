"""Each call to the disk fails once, at every place in a write: the answer is always the truth."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.model.problem import Code
from gateway.ports.store import CarryFailed, MaybeWritten, NotWritten, WriteResult, Written
from gateway.stores.files.index import Index
from gateway.testing.store_contract import OpenSubject, Subject
from gateway.testing.store_subject import Seen, etag_of
from tests.conformance.files.files_subjects import open_buckets, open_tree

CALLS = [
    (os, name)
    for name in (
        "open",
        "write",
        "fsync",
        "replace",
        "rename",
        "mkdir",
        "rmdir",
        "unlink",
        "utime",
        "stat",
        "fstat",
        "pread",
        "pwrite",
        "scandir",
    )
] + [(fcntl, "flock")]
OPENERS = {"tree": open_tree(), "buckets": open_buckets()}
BIG = b"n" * 300_000
LIMIT = 200


class FailAt:
    """Makes the n-th of all these calls fail, before or after it was really done."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int, code: int, done: bool) -> None:
        self.failed = ""
        self._number, self._code, self._done = number, code, done
        self._count = 0
        for module, name in CALLS:
            patch.setattr(module, name, self._counted(name, getattr(module, name)))

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self._count += 1
            if self._count != self._number:
                return call(*args, **kwargs)
            self.failed = name
            if self._done and name in ("replace", "unlink", "write", "fsync", "rename", "mkdir"):
                call(*args, **kwargs)
            raise OSError(self._code, os.strerror(self._code))

        return counted


async def new_version(subject: Subject) -> WriteResult:
    return await subject.put("deep/er/x" if not subject.bucket else "x", BIG)


async def removal(subject: Subject) -> WriteResult:
    return await subject.delete("deep/er/x" if not subject.bucket else "x")


def truthful(
    result: WriteResult, before: Seen | None, after: Seen | None, wanted: bytes | None
) -> None:
    """Applied means that the new state is there, refused that the old one is."""
    state = after.data if after is not None else None
    match result:
        case Written():
            assert state == wanted
        case NotWritten(problem):
            assert after == before
            assert problem.code in (Code.BUSY, Code.UPSTREAM_FAILED)
        case MaybeWritten(problem):
            assert after == before or state == wanted
            assert problem.code is Code.OUTCOME_UNKNOWN
        case other:
            pytest.fail(f"{other!r}")


@pytest.mark.parametrize("done", [False, True], ids=["not-done", "done-but-failed"])
@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "over-old"])
@pytest.mark.parametrize("act", [new_version, removal])
@pytest.mark.parametrize("layout", OPENERS)
async def test_every_call_may_fail(
    layout: str,
    act: Callable[[Subject], Any],
    fresh: bool,
    done: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever call fails, the answer tells what happened, and the next write goes through."""
    opened: OpenSubject = OPENERS[layout]
    answers: dict[str, set[str]] = {}
    for number in range(1, LIMIT):
        async with opened() as subject:
            key = "deep/er/x" if not subject.bucket else "x"
            await subject.carry(subject.scope(key), 1)
            if not fresh:
                etag_of(await subject.put(key, b"old"))
            before = await subject.seen(key)
            with monkeypatch.context() as patch:
                fault = FailAt(patch, number, errno.EIO, done)
                result = await act(subject)
            if not fault.failed:
                assert isinstance(result, Written)
                break
            answers.setdefault(fault.failed, set()).add(type(result).__name__)
            wanted = BIG if act is new_version else None
            truthful(result, before, await subject.seen(key), wanted)
            etag_of(await subject.put(key, b"next"))
            after = await subject.seen(key)
            assert after is not None
            assert after.data == b"next"
    else:
        pytest.fail("a write makes more calls than were tried")
    assert number > 5, "next to no calls were made to fail"
    assert "NotWritten" in set().union(*answers.values())


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
@pytest.mark.parametrize("layout", OPENERS)
async def test_a_full_disk_is_busy(layout: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What space or a raised limit cures is answered 503, with what to do, and leaves no file."""
    async with OPENERS[layout]() as subject:
        etag = etag_of(await subject.put("x", b"old"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", failing(code))
            result = await subject.put("x", BIG)
        assert isinstance(result, NotWritten)
        assert (result.problem.code, result.problem.retry_after_s) == (Code.BUSY, 1)
        assert "free space" in result.problem.message or "limit" in result.problem.message
        seen = await subject.seen("x")
        assert seen is not None
        assert (seen.data, seen.etag) == (b"old", etag)
        assert uploads_of(subject) == []


@pytest.mark.parametrize(
    "code, text",
    [
        (errno.EIO, "look at the disk"),
        (errno.EACCES, "permission"),
        (errno.EPERM, "permission"),
        (errno.EROFS, "read-only"),
        (errno.ENOTSUP, "look at the disk"),
    ],
)
async def test_other_failures_are_named(
    code: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken or forbidden disk is answered 502 with its cause, and no path of the machine."""
    async with OPENERS["tree"]() as subject:
        await subject.carry(subject.scope("x"), 1)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing(code))
            result = await subject.put("x", b"new")
        assert isinstance(result, NotWritten)
        assert result.problem.code is Code.UPSTREAM_FAILED
        assert text in result.problem.message
        assert str(root_of(subject)) not in result.problem.message


async def test_a_raise_that_cannot_be_synced_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark is answered only once it is on the disk."""
    async with OPENERS["tree"]() as subject:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing(errno.EIO))
            with pytest.raises(CarryFailed, match="look at"):
                await subject.carry(subject.scope("x"), 1)


@pytest.mark.parametrize("done", [False, True], ids=["not-done", "done-but-failed"])
@pytest.mark.parametrize(
    "code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CORRUPT]
)
@pytest.mark.parametrize("method", ["begin", "current", "put", "commit", "flush", "rollback"])
async def test_a_failing_index_is_answered_truthfully(
    method: str, code: int, done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever step of the index fails, the answer is true, and the next write goes through."""
    async with OPENERS["buckets"]() as subject:
        etag_of(await subject.put("x", b"old"))
        before = await subject.seen("x")
        error = sqlite3.OperationalError("injected")
        error.sqlite_errorcode = code
        real = getattr(Index, method)

        def fail(self: Index, *args: Any) -> Any:
            if done and method != "rollback":
                real(self, *args)
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(Index, method, fail)
            result = await subject.put("x", b"new")
        if method != "rollback":  # not called in a write that goes well
            assert not isinstance(result, Written)
        if not (method == "commit" and done and code == sqlite3.SQLITE_FULL):
            truthful(result, before, await subject.seen("x"), b"new")
        etag_of(await subject.put("x", b"next"))


def failing(code: int) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise OSError(code, os.strerror(code))

    return fail


def root_of(subject: Subject) -> Path:
    root: Path = subject.store._root  # type: ignore[attr-defined]
    return root


def uploads_of(subject: Subject) -> list[Path]:
    directory: Path = subject.store._incoming.directory  # type: ignore[attr-defined]
    return list(directory.iterdir())
