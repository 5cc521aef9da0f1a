"""Directory entries that survive a power cut: fsync(2) on the directory (man page, "Notes")."""

from __future__ import annotations

import os
from pathlib import Path


def sync_directory(path: Path) -> None:
    """Make the entries of a directory durable. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directories(path: Path) -> None:
    """Create a directory and what is missing above it, durably. Raises OSError."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(mode=0o777, exist_ok=True)
        sync_directory(directory.parent)


def fan_out(digest: str) -> str:
    """A two-level path for a hex digest: a million names make at most 16 files a directory."""
    return f"{digest[:2]}/{digest[2:4]}/{digest[4:]}"
