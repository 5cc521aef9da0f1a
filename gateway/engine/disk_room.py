"""Whether a disk takes bytes now: a little file without a name is written, synced and forgotten.

A directory that can be read, and a file of no bytes, say nothing about a full disk, a quota or a
file system that has become read-only.
"""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Final

_BYTES: Final = 64 * 1024
_NO_NAMELESS: Final = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL})


def prove_room(directory: Path) -> None:
    """Write durably below a directory and leave nothing there. Raises OSError."""
    fd = _nameless(directory)
    try:
        view = memoryview(bytes(_BYTES))
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _nameless(directory: Path) -> int:
    try:
        return os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in _NO_NAMELESS:
            raise
    fd, name = tempfile.mkstemp(prefix=".fencegate-", dir=directory)
    os.unlink(name)
    return fd
