"""The repository keeps its own laws."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tidy import laws

ROOT = Path(__file__).parents[2]
LAWS = [
    laws.long_modules,
    laws.long_functions,
    laws.banned_names,
    laws.undescribed_packages,
    laws.machine_words,
    laws.foreign_locks,
    laws.lawless_tests,
    laws.sleeping_tests,
]


@pytest.fixture(scope="module")
def tree() -> laws.Tree:
    return laws.repository(ROOT)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_repository_keeps(law: Callable[[laws.Tree], list[str]], tree: laws.Tree) -> None:
    """No tracked file breaks the law."""
    found = law(tree)
    assert not found, "\n" + "\n".join(found)


def test_the_whole_repository_is_looked_at(tree: laws.Tree) -> None:
    """The tree that the laws see is not empty by mistake: product, tests, and plain files."""
    assert {"gateway/__init__.py", "tests/tidy/laws.py", "Makefile"} <= set(tree.files)
