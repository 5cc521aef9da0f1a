"""File locks (flock(2)): they hold between processes, and end with the process that holds them."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from pathlib import Path
from typing import Final

from gateway.stores.files.threads import DiskThreads

_POLL_S: Final = (0.0005, 0.02)
"""First and longest pause between two tries: a blocked flock(2) could not be given up in time."""


class FileLock:
    """One lock on one file, held from a successful `try_acquire` until `release`."""

    __slots__ = ("_exclusive", "_path", "create", "fd")

    def __init__(self, path: Path, *, exclusive: bool, create: bool = True) -> None:
        self._path = path
        self._exclusive = exclusive
        self.create = create
        self.fd = -1

    def try_acquire(self) -> bool:
        """Take the lock if it is free. Raises OSError, FileNotFoundError without `create`."""
        if self.fd < 0:
            flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if self.create else 0)
            self.fd = os.open(self._path, flags, 0o600)
        how = fcntl.LOCK_EX if self._exclusive else fcntl.LOCK_SH
        try:
            fcntl.flock(self.fd, how | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN):
                return False
            raise
        return True

    def release(self) -> None:
        """Give the lock back; closing the file does."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


async def acquire(lock: FileLock, threads: DiskThreads, timeout_s: float) -> bool:
    """Take the lock within the time. False when it was not free; the caller releases in any case.

    Raises OSError.
    """
    clock = asyncio.get_running_loop().time
    deadline_s, pause_s = clock() + timeout_s, _POLL_S[0]
    while not await threads.run(lock.try_acquire):
        left_s = deadline_s - clock()
        if left_s <= 0:
            return False
        await asyncio.sleep(min(pause_s, left_s))
        pause_s = min(pause_s * 2, _POLL_S[1])
    return True
