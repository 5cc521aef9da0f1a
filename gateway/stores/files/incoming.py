"""Uploads under way: files of their own until they take effect, in a directory of this process.

A process that dies leaves its directory unlocked; the next one that starts clears it.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.model.problem import Code, Problem
from gateway.ports.body import Body
from gateway.stores.files.durable import make_directories
from gateway.stores.files.faults import Refusal
from gateway.stores.files.flocks import FileLock
from gateway.stores.files.threads import DiskThreads

_BUFFER_BYTES: Final = 256 * 1024
_PLAIN: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_LOCK_SUFFIX: Final = ".lock"


class Upload:
    """One body on its way to the disk. `discard` at the end, whatever has become of it."""

    __slots__ = ("directory", "fd", "name", "size")

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.name = name
        self.size = 0
        self.fd = -1

    @property
    def path(self) -> Path:
        """Where the bytes are."""
        return self.directory / self.name

    def write(self, pieces: list[bytes], last: bool) -> None:
        """Append, and make durable after the last piece. Raises OSError."""
        if self.fd < 0:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self.fd = os.open(self.path, flags, 0o666)
        for piece in pieces:
            view = memoryview(piece)
            while view:
                view = view[os.write(self.fd, view) :]
        self.size += sum(map(len, pieces))
        if last:
            os.fsync(self.fd)

    def discard(self) -> None:
        """Close, and remove what was not put to use."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
            with suppress(OSError):
                self.path.unlink(missing_ok=True)


async def receive(body: Body, length: int | None, upload: Upload, threads: DiskThreads) -> None:
    """Stream a body to the disk with bounded memory.

    Raises `BodyError`, `Refusal` when it is longer or shorter than announced, OSError.
    """
    pieces: list[bytes] = []
    buffered, total = 0, 0
    async for piece in body:
        pieces.append(piece)
        buffered += len(piece)
        total += len(piece)
        if length is not None and total > length:
            raise Refusal(_other_length(length, "more"))
        if buffered >= _BUFFER_BYTES:
            await threads.run(upload.write, pieces, False)
            pieces, buffered = [], 0
    if length is not None and total < length:
        raise Refusal(_other_length(length, f"only {total}"))
    await threads.run(upload.write, pieces, True)


def _other_length(length: int, came: str) -> Problem:
    return Problem(
        Code.REQUEST_MALFORMED,
        f"{length} bytes were announced and {came} arrived: send the length of the body",
        native="IncompleteBody",
    )


class Incoming:
    """The directory of this process's uploads, among those of others that share the root."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._lock: FileLock | None = None
        self.directory = parent
        self._count = 0

    def open(self, sweep: Callable[[Path], None]) -> None:
        """Clear what dead processes left (`sweep` sees each file first), then begin. OSError."""
        make_directories(self._parent)
        for lock_path in sorted(self._parent.glob(f"*{_LOCK_SUFFIX}")):
            self._clear(lock_path, sweep)
        while self._lock is None:
            self._begin(f"{os.getpid()}-{secrets.token_hex(4)}")

    def _begin(self, name: str) -> None:
        lock = FileLock(self._parent / f"{name}{_LOCK_SUFFIX}", exclusive=True)
        # Between our open and our lock, a process that starts may have taken the file for a dead
        # one's: then it has no name any more, and the next try uses another.
        if not lock.try_acquire() or os.fstat(lock.fd).st_nlink == 0:
            lock.release()
            return
        self.directory = self._parent / name
        self.directory.mkdir()
        self._lock = lock

    def _clear(self, lock_path: Path, sweep: Callable[[Path], None]) -> None:
        lock = FileLock(lock_path, exclusive=True, create=False)
        try:
            if not lock.try_acquire():
                return
            directory = lock_path.with_suffix("")
            for left in sorted(directory.iterdir()) if directory.is_dir() else ():
                sweep(left)
                left.unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                directory.rmdir()
            lock_path.unlink(missing_ok=True)
        except FileNotFoundError:
            return
        finally:
            lock.release()

    def upload(self, write_id: str) -> Upload:
        """A new upload, named after its write, so that a left-over tells where it came from."""
        self._count += 1
        label = write_id if _PLAIN.fullmatch(write_id) else "upload"
        return Upload(self.directory, f"{label}.{self._count}")

    def close(self) -> None:
        """Remove the directory in good order. Raises OSError."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        for left in self.directory.iterdir():
            left.unlink(missing_ok=True)
        self.directory.rmdir()
        (self._parent / f"{self.directory.name}{_LOCK_SUFFIX}").unlink(missing_ok=True)
        lock.release()
