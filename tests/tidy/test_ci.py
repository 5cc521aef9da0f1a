""".ci/run: every lane runs, a failure of any fails all, and the closing line counts every test."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Stands in for make: says its target, writes the report that pytest would, ends as it is told.
MAKE = """#!/bin/sh
echo "target $1"
report=${{2#PYTEST_ARGS=--junitxml=}}
case $1 in
{cases}
esac
"""
REPORT = (
    '<testsuites><testsuite tests="{tests}" failures="{failures}" errors="{errors}" skipped="1"/>'
    "</testsuites>"
)


def case(target: str, *, tests: int, failures: int = 0, errors: int = 0, code: int = 0) -> str:
    report = REPORT.format(tests=tests, failures=failures, errors=errors)
    closing = f"== {tests} passed in 1.00s =="
    return f"{target}) echo '{report}' >\"$report\"; echo '{closing}'; exit {code} ;;"


def run_ci(tmp_path: Path, *cases: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "make").write_text(MAKE.format(cases="\n".join(cases)))
    (programs / "make").chmod(0o755)
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHON": sys.executable}
    command = ["bash", ".ci/run"]
    return subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=40, check=False
    )


def test_it_is_executable() -> None:
    """The script can be run as it is committed."""
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_all_lanes_green(tmp_path: Path) -> None:
    """Exit 0, and the last line adds the tests of both lanes up."""
    done = run_ci(tmp_path, case("test", tests=8), case("test-extra", tests=4))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "10 passed, 0 failed, 2 skipped"
    assert [line for line in done.stdout.splitlines() if line.startswith("target")] == [
        "target check",
        "target test",
        "target test-extra",
    ]


@pytest.mark.parametrize(
    "cases, failed, last",
    [
        (
            (
                "check) exit 2 ;;",
                case("test", tests=8),
                case("test-extra", tests=4),
            ),
            "failed: check",
            "10 passed, 0 failed, 2 skipped",
        ),
        (
            (case("test", tests=8, failures=2, errors=1, code=2), case("test-extra", tests=4)),
            "failed: test total",
            "7 passed, 3 failed, 2 skipped",
        ),
        (
            (case("test", tests=8), "test-extra) exit 2 ;;"),
            "failed: test-extra total",
            "7 passed, 1 failed, 1 skipped",
        ),
        (
            (case("test", tests=8, failures=1), case("test-extra", tests=4)),
            "failed: total",
            "9 passed, 1 failed, 2 skipped",
        ),
    ],
    ids=["check", "test", "extra without report", "report alone"],
)
def test_a_failed_lane_fails_all(
    tmp_path: Path, cases: tuple[str, ...], failed: str, last: str
) -> None:
    """Whichever lane fails, the others still run, the exit is not 0, and the lane is named."""
    done = run_ci(tmp_path, *cases)
    assert done.returncode == 1
    assert failed in done.stderr
    assert done.stdout.splitlines()[-1] == last
    assert done.stdout.count("target ") == 3
