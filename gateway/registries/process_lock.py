"""The process lock: who may use a registry file (flock(2)).

One gateway process that has it to itself, or several that have agreed to share it; never both.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.ports.registry import RegistryUnavailable


class ProcessLock:
    """Held from construction until `release`, or until the process ends in whatever way."""

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        """Take the lock. Raises `RegistryUnavailable` naming the file and who holds it."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._fd, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._fd)
            raise RegistryUnavailable(
                f"another gateway process (pid {owner}) uses this registry: {path} is locked;"
                " stop it, or give this one a data_dir of its own (several workers of one gateway"
                " share it: --workers)"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the lock back. The file stays: removing it would let two processes hold it."""
        os.close(self._fd)


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """One process at a time opens a registry file: SQLite's change to WAL waits for nobody."""
    fd = os.open(path.with_name(f"{path.name}.open"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
