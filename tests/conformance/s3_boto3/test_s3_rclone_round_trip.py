"""rclone as a second client: the Go SDK, which signs other fields and leaves bodies unsigned."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conformance.s3_boto3.s3_in_memory import MemoryObjects, Running, serving
from tests.unit.dialects.s3.s3_requests import ACCESS, REGION, SECRET, dialect

RCLONE = shutil.which("rclone", path=str(Path(sys.executable).parent))
NAME = "a b+c%25 ü.txt"


def rclone(running: Running, *arguments: str) -> bytes:
    """Run rclone against the server, configured by its environment alone."""
    assert RCLONE is not None
    settings = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ACCESS_KEY_ID": ACCESS,
        "SECRET_ACCESS_KEY": SECRET,
        "ENDPOINT": running.endpoint,
        "REGION": REGION,
        "NO_CHECK_BUCKET": "true",
    }
    remote = {f"RCLONE_CONFIG_GATEWAY_{name}": value for name, value in settings.items()}
    done = subprocess.run(
        [RCLONE, *arguments, "--retries", "1", "--low-level-retries", "1"],
        env=os.environ | remote | {"RCLONE_CONFIG": os.devnull},
        capture_output=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_rclone_copies_lists_reads_and_removes(tmp_path: Path) -> None:
    """A file goes up with a token in a header, is seen, read, and removed again."""
    (tmp_path / NAME).write_bytes(b"hello" * 1000)
    token = ("--header", "X-Fence-Token: 42")
    with serving(dialect(), MemoryObjects("demo")) as running:
        rclone(running, "copy", str(tmp_path), "gateway:demo/dir", *token)
        assert running.objects.buckets["demo"].keys() == {f"dir/{NAME}"}
        put = next(o for o in running.objects.operations if o.method == "PUT")
        assert (put.token, put.worker) == (42, ACCESS)
        listed = rclone(running, "lsf", "-R", "gateway:demo").decode().splitlines()
        assert sorted(listed) == ["dir/", f"dir/{NAME}"]
        assert rclone(running, "cat", f"gateway:demo/dir/{NAME}") == b"hello" * 1000
        assert rclone(running, "lsf", "gateway:") == b"demo/\n"
        rclone(running, "deletefile", f"gateway:demo/dir/{NAME}", *token)
        assert not running.objects.buckets["demo"]
