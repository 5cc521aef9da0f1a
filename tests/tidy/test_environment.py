"""scripts/environment.sh: .venv is built from the lock, and again only when the lock changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Stands in for an interpreter: -c is answered by the real one, every -m is written down instead.
RECORDER = """#!/bin/sh
case $1 in
    -m) echo "$@" >>"{calls}"
        [ "$2" != venv ] || {{ rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; }} ;;
    *) exec "{python}" "$@" ;;
esac
"""


class Checkout:
    """A folder with the script and the locks, and an interpreter that records."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls_path = root / "calls"
        self.interpreter = root / "python3"
        self.interpreter.write_text(RECORDER.format(calls=self.calls_path, python=sys.executable))
        self.interpreter.chmod(0o755)
        shutil.copytree(ROOT / "requirements", root / "requirements")
        shutil.copytree(ROOT / "scripts", root / "scripts")
        shutil.copy(ROOT / "pyproject.toml", root)

    def run(self, kind: str) -> list[str]:
        """Runs the script; returns the pip and venv commands that it gave."""
        self.calls_path.write_text("")
        subprocess.run(
            ["sh", "scripts/environment.sh", kind],
            cwd=self.root,
            env={**os.environ, "PYTHON": str(self.interpreter)},
            check=True,
            capture_output=True,
            timeout=30,
        )
        return self.calls_path.read_text().splitlines()

    def touch(self, name: str) -> None:
        path = self.root / name
        path.write_text(path.read_text() + "# changed\n")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def told(message: subprocess.CompletedProcess[str]) -> str:
    assert message.returncode == 1
    return message.stderr


def run_with(python: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(ROOT / "scripts" / "environment.sh"), "run"]
    env = {**os.environ, "PYTHON": python}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)


def test_a_new_checkout_installs_by_hash_and_then_itself(checkout: Checkout) -> None:
    """The lock is installed with hashes demanded, and the project offline, without dependencies."""
    venv, build, run, project = checkout.run("run")
    assert venv == "-m venv --clear .venv"
    for command, lock in ((build, "build.txt"), (run, "run.txt")):
        assert "--no-deps --require-hashes" in command
        assert command.endswith(f"requirements/{lock}")
    assert "--no-deps --no-build-isolation --no-index --editable ." in project


def test_an_environment_that_is_current_is_left_alone(checkout: Checkout) -> None:
    """The second run installs nothing, and run needs nothing where dev is already there."""
    checkout.run("dev")
    assert checkout.run("dev") == []
    assert checkout.run("run") == []


def test_a_changed_lock_rebuilds(checkout: Checkout) -> None:
    """Whatever changes a lock has the environment made anew."""
    checkout.run("run")
    checkout.touch("requirements/run.txt")
    assert checkout.run("run")[0] == "-m venv --clear .venv"
    checkout.touch("requirements/build.txt")
    assert checkout.run("run")[0] == "-m venv --clear .venv"


def test_a_development_lock_is_added_to_a_running_environment(checkout: Checkout) -> None:
    """make test beside a gateway that make run is serving does not pull .venv from under it."""
    checkout.run("run")
    (added,) = checkout.run("dev")
    assert added.endswith("requirements/dev.txt")


def test_fuzzing_has_an_environment_of_its_own(checkout: Checkout) -> None:
    """Its wheels are for one platform alone, so they never come into .venv."""
    commands = checkout.run("fuzz")
    assert commands[0] == "-m venv --clear .venv-fuzz"
    locks = [command.rpartition("/")[2] for command in commands if "--require-hashes" in command]
    assert locks == ["build.txt", "dev.txt", "fuzz.txt"]
    assert checkout.run("fuzz") == []
    assert not (checkout.root / ".venv").exists()


def test_changed_metadata_reinstalls_the_project_alone(checkout: Checkout) -> None:
    """A new command in pyproject.toml needs no new environment."""
    checkout.run("run")
    checkout.touch("pyproject.toml")
    (project,) = checkout.run("run")
    assert "--editable ." in project


def test_a_missing_interpreter_is_named(checkout: Checkout) -> None:
    """The error says which interpreter was looked for, and how to name another."""
    error = told(run_with("python9.99"))
    assert "python9.99" in error
    assert "make PYTHON=" in error


def test_an_old_interpreter_is_refused(tmp_path: Path) -> None:
    """The error says which version was found, and which is needed."""
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" || exit 1\n')
    old.chmod(0o755)
    error = told(run_with(str(old)))
    assert "Python 3.9.2; Python 3.11 or newer is needed" in error
