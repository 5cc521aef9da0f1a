"""The audit log: what admins did, line by line as JSON, appended and on the disk before it counts.

Each line is one write(2) to a file opened with O_APPEND, so that several gateway processes can
share it, and is followed by fsync(2). The file is opened anew for each line: it may be moved away
at any time. A line that was cut short (a full disk) is ended before the next one begins.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path


class AuditFailed(Exception):
    """A line could not be appended for good; the text says why."""


class AuditLog:
    """Appends to one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self) -> AuditLog:
        """Make the file when it is missing, for its owner alone. Raises `AuditFailed`."""
        self._append(b"")
        return self

    async def append(self, record: Mapping[str, object]) -> None:
        """Append one record. Raises `AuditFailed`; then nobody may count on it."""
        line = json.dumps(record, separators=(",", ":"), ensure_ascii=True) + "\n"
        await asyncio.to_thread(self._append, line.encode("ascii"))

    def _append(self, line: bytes) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            made = not self._path.exists()
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            fd = os.open(self._path, flags, 0o600)
            try:
                self._write(fd, line)
            finally:
                os.close(fd)
            if made:
                _sync_directory(self._path.parent)
        except OSError as error:
            raise AuditFailed(f"{self._path} cannot be appended to: {error.strerror}") from error

    def _write(self, fd: int, line: bytes) -> None:
        size = os.fstat(fd).st_size
        if line and size and os.pread(fd, 1, size - 1) != b"\n":
            line = b"\n" + line
        if os.write(fd, line) != len(line):
            raise AuditFailed(f"{self._path} took a part of a line only: is the disk full?")
        os.fsync(fd)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
