"""Laws of the proof that a disk takes bytes: it writes, leaves nothing, and says when it cannot."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from gateway.engine.disk_room import prove_room


def test_it_leaves_nothing(tmp_path: Path) -> None:
    """Neither a file nor an open descriptor."""
    before = os.listdir("/proc/self/fd")
    prove_room(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_file_system_without_nameless_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some know no O_TMPFILE: then the file has a name for a moment."""
    real = os.open

    def no_nameless(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "no such thing here")
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", no_nameless)
    prove_room(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_disk_that_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Full at the write, or only at the sync, as with delayed allocation: both raise."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left"):
        prove_room(tmp_path)


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    """It is not made again: whoever removed it may have moved it away."""
    with pytest.raises(FileNotFoundError):
        prove_room(tmp_path / "gone")
