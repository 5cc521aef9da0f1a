"""What the disk can answer, turned into problems by table (CONTRIBUTING.md, habit 4)."""

from __future__ import annotations

import errno
import sqlite3
from typing import Final

from gateway.model.problem import Code, Problem

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM})
_SQLITE_CODE_MASK: Final = 0xFF  # extended result codes keep the primary code in the low byte


class Refusal(Exception):
    """The operation cannot be done; nothing was changed. `problem` is the answer."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def busy(message: str) -> Problem:
    """A refusal that a retry may cure."""
    return Problem(Code.BUSY, message, native="SlowDown", retry_after_s=1)


def disk_problem(error: OSError | sqlite3.Error, store: str) -> Problem:
    """The answer for an error of the file system or of the index, before anything took effect."""
    if isinstance(error, sqlite3.Error):
        return _sqlite_problem(error, store)
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    if error.errno in _FULL:
        return busy(f"the disk of store {store!r} is full ({name}): free space or raise its quota")
    if error.errno in _SCARCE:
        return busy(f"store {store!r} ran out of files or memory ({name}): raise the limit")
    if error.errno in _DENIED:
        return _failed(
            f"store {store!r} may not do this below its root ({name}): "
            "give the gateway's user read and write permission there"
        )
    if error.errno == errno.EROFS:
        return _failed(f"the file system of store {store!r} is read-only: mount it writable")
    return _failed(f"the file system of store {store!r} answered {name}: look at the disk")


def _sqlite_problem(error: sqlite3.Error, store: str) -> Problem:
    code = sqlite_code(error)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return busy(f"the index of store {store!r} is locked by another process: try again")
    if code == sqlite3.SQLITE_FULL:
        return busy(f"the disk of store {store!r} is full ({name}): free space or raise its quota")
    return _failed(f"the index of store {store!r} answered {name}: look at the disk")


def sqlite_code(error: sqlite3.Error) -> int:
    """The primary result code."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & _SQLITE_CODE_MASK


def unconfirmed(error: OSError | sqlite3.Error, store: str) -> Problem:
    """The answer when a write may have happened but the disk did not confirm it."""
    return Problem(
        Code.OUTCOME_UNKNOWN,
        f"store {store!r} could not confirm the write: {disk_problem(error, store).message}",
    )


def _failed(message: str) -> Problem:
    return Problem(Code.UPSTREAM_FAILED, message, native="InternalError")
