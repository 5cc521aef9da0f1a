"""The wheel: complete without its checkout, and installable from the lock alone."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEBIAN_PYTHON = Path("/usr/bin/python3")


def run(*argv: str | Path, cwd: Path, timeout_s: float = 50) -> str:
    done = subprocess.run(
        argv, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built offline with the locked build tools."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", folder]
    run(sys.executable, "-m", "pip", "wheel", "--quiet", *options, ROOT, cwd=folder)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_all_that_the_package_reads(wheel: Path) -> None:
    """Every tracked file of the package is in it, SQL included, and every shipped policy."""
    listed = run("git", "ls-files", "gateway", cwd=ROOT).split()
    policies = {f"gateway/shipped_policies/{p.name}" for p in (ROOT / "policies").glob("*.toml")}
    held = set(zipfile.ZipFile(wheel).namelist())
    assert "gateway/shipped_policies/quickstart.toml" in policies
    assert set(listed) | policies <= held | {name for name in listed if not (ROOT / name).exists()}


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    """No test, no script and no lock of the checkout is installed beside the package."""
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"gateway", wheel.name.split("-py3")[0] + ".dist-info"}


def test_the_wheel_names_its_command_and_licence(wheel: Path) -> None:
    """`fencegate` is the command, and the licence text comes along."""
    archive = zipfile.ZipFile(wheel)
    texts = {name.rsplit("/", 1)[-1]: name for name in archive.namelist() if ".dist-info/" in name}
    assert "fencegate = gateway.cli:main" in archive.read(texts["entry_points.txt"]).decode()
    assert "License-Expression: Apache-2.0" in archive.read(texts["METADATA"]).decode()
    assert "Apache License" in archive.read(texts["LICENSE"]).decode()


@pytest.mark.extra
@pytest.mark.timeout(300)
def test_it_runs_on_debians_own_python(wheel: Path, tmp_path: Path) -> None:
    """A fresh environment of another interpreter, filled from the lock, checks the quick start."""
    run(DEBIAN_PYTHON, "-m", "venv", "env", cwd=tmp_path)
    pip = [tmp_path / "env" / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps"]
    lock = ROOT / "requirements" / "run.txt"
    run(*pip, "--require-hashes", "-r", lock, cwd=tmp_path, timeout_s=240)
    run(*pip, "--no-index", wheel, cwd=tmp_path)
    run(*pip[:3], "check", cwd=tmp_path)
    where = "import gateway, pathlib; print(pathlib.Path(gateway.__file__).parent)"
    package = Path(run(pip[0], "-c", where, cwd=tmp_path).strip())
    assert package.is_relative_to(tmp_path)
    policy = package / "shipped_policies" / "quickstart.toml"
    run(tmp_path / "env" / "bin" / "fencegate", "check", policy, cwd=tmp_path)
