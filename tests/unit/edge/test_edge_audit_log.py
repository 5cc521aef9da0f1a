"""Laws of the audit log: a record is whole, on the disk, and in a line of its own, or it failed."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from gateway.edge.audit_log import AuditFailed, AuditLog


async def test_lines_are_appended(tmp_path: Path) -> None:
    """Also to a file that was moved away meanwhile; only its owner may read it."""
    path = tmp_path / "deep" / "audit.jsonl"
    log = AuditLog(path)
    log.open()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    await log.append({"n": 1})
    await log.append({"n": "a\nb"})
    path.rename(tmp_path / "old")
    await log.append({"n": 3})
    assert (tmp_path / "old").read_text().splitlines() == ['{"n":1}', '{"n":"a\\nb"}']
    assert path.read_text() == '{"n":3}\n'


async def test_a_torn_line_spoils_no_other(tmp_path: Path) -> None:
    """What a full disk cut short is ended before the next record begins."""
    path = tmp_path / "audit.jsonl"
    path.write_text('{"n":1}\n{"n":')
    await AuditLog(path).append({"n": 3})
    assert [json.loads(line) for line in path.read_text().splitlines()[::2]] == [{"n": 1}, {"n": 3}]


async def test_a_record_that_is_not_on_the_disk_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory in the way, a short write, a failing fsync: each is told with the file."""
    log = AuditLog(tmp_path)
    with pytest.raises(AuditFailed, match="cannot be appended to: Is a directory"):
        log.open()
    log = AuditLog(tmp_path / "audit.jsonl")
    log.open()

    def failing(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        with pytest.raises(AuditFailed, match="No space left"):
            await log.append({"n": 1})
    whole = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda fd, raw: whole(fd, raw[:3]))
        with pytest.raises(AuditFailed, match="a part of a line"):
            await log.append({"n": 1})
