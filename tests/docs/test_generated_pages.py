"""What is written from the code is committed as the code writes it now."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATORS = [("reference.py", "docs/reference"), ("openapi.py", "openapi")]


def check(root: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a generator's comparison in a checkout."""
    return subprocess.run(
        [sys.executable, root / "scripts" / script, "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.mark.parametrize("script, folder", GENERATORS)
def test_committed_pages_are_up_to_date(script: str, folder: str) -> None:
    """`make docs openapi` would change nothing."""
    done = check(ROOT, script)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("script, folder", GENERATORS)
def test_a_page_that_drifted_is_found(tmp_path: Path, script: str, folder: str) -> None:
    """The comparison above can fail: one changed page is named."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / script, tmp_path / "scripts")
    shutil.copytree(ROOT / folder, tmp_path / folder)
    page = min((tmp_path / folder).iterdir())
    page.write_text(page.read_text().replace("admin", "amdin").replace("policy", "polciy"))
    done = check(tmp_path, script)
    assert done.returncode == 1
    assert page.name in done.stdout + done.stderr
