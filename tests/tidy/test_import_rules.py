"""The import contracts of pyproject.toml are kept, and each of them catches a planted import."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOC = '"""Planted."""\n'


def broken_contracts(root: Path) -> list[str]:
    """The names of the contracts that import-linter finds broken in a checkout."""
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--no-logo"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert "Contracts:" in done.stdout, done.stdout + done.stderr
    return re.findall(r"^(.+) BROKEN\b.*$", done.stdout, re.MULTILINE)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the package that a test may spoil."""
    shutil.copytree(ROOT / "gateway", tmp_path / "gateway")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def plant(root: Path, modules: dict[str, str]) -> None:
    for name, text in modules.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not (path.parent / "__init__.py").exists():
            (path.parent / "__init__.py").write_text(DOC)
        path.write_text(DOC + text)


def test_the_contracts_are_kept() -> None:
    """The package imports downwards only, and its core does no I/O."""
    assert broken_contracts(ROOT) == []


@pytest.mark.parametrize(
    "modules, contract",
    [
        (
            {"gateway/model/planted.py": "import gateway.policy\n"},
            "Imports go down only",
        ),
        (
            {"gateway/unplanned/planted.py": ""},
            "Imports go down only",
        ),
        (
            {
                "gateway/stores/planted_a.py": "import gateway.stores.planted_b\n",
                "gateway/stores/planted_b.py": "",
            },
            "A store knows no other store",
        ),
        (
            {
                "gateway/registries/planted_a.py": "import gateway.registries.planted_b\n",
                "gateway/registries/planted_b.py": "",
            },
            "A registry knows no other registry",
        ),
        (
            {
                "gateway/stores/planted.py": "",
                "gateway/edge/planted.py": "import gateway.stores.planted\n",
            },
            "The edge knows no store and no registry: the composition root hands them over",
        ),
        (
            {"gateway/machines/planted.py": "import time\n"},
            "Values and machines do no I/O, await nothing and read no clock",
        ),
        (
            {"gateway/model/planted.py": "from os import environ\n"},
            "Values and machines do no I/O, await nothing and read no clock",
        ),
        (
            {"gateway/policy/decide.py": "import asyncio\n"},
            "Decisions do no I/O, await nothing and read no clock",
        ),
        (
            {"gateway/dialects/planted.py": "import fastapi\n"},
            "The data plane's wire languages and engine carry no web framework",
        ),
    ],
)
def test_a_planted_import_is_caught(checkout: Path, modules: dict[str, str], contract: str) -> None:
    """Negative control: exactly the contract that is about it breaks."""
    plant(checkout, modules)
    assert broken_contracts(checkout) == [contract]
