"""Negative controls: each law finds a violation that was planted, and lets the clean twin pass."""

from collections.abc import Callable

import pytest

from tests.tidy import laws

DOC = '"""A module."""\n'


def body(lines: int) -> str:
    return DOC + "def f():\n" + "    x = 1\n" * (lines - 1)


PLANTED = [
    (laws.long_modules, {"gateway/a.py": "x = 1\n" * 501}, {"gateway/a.py": "x = 1\n" * 500}),
    (laws.long_modules, {"tests/a.py": "x = 1\n" * 801}, {"tests/a.py": "x = 1\n" * 800}),
    (laws.long_functions, {"gateway/a.py": body(71)}, {"gateway/a.py": body(70)}),
    (laws.long_functions, {"gateway/a.py": "async " + body(71)[len(DOC) :]}, {}),
    (laws.banned_names, {"gateway/utils.py": DOC}, {"gateway/lease.py": DOC}),
    (laws.banned_names, {"gateway/http_helpers/x.py": DOC}, {"gateway/uncommon.py": DOC}),
    (
        laws.undescribed_packages,
        {"gateway/s/a.py": DOC, "gateway/__init__.py": DOC},
        {"gateway/__init__.py": DOC},
    ),
    (laws.undescribed_packages, {"gateway/__init__.py": "x = 1\n"}, {}),
    (laws.machine_words, {"a.md": "see /ro" + "ot/x"}, {"a.md": "see data/x"}),
    (laws.machine_words, {"requirements/run.txt": "--index-url x.py" + "pi.org"}, {}),
    (laws.foreign_locks, {"uv.lock": ""}, {"requirements/run.txt": ""}),
    (laws.foreign_locks, {"web/package-lock.json": "{}"}, {}),
    (
        laws.lawless_tests,
        {"tests/test_a.py": "def test_x():\n    assert 1\n"},
        {"tests/test_a.py": 'def test_x():\n    """Law."""\n'},
    ),
    (laws.lawless_tests, {"tests/test_a.py": "class T:\n  async def test_x(self): ...\n"}, {}),
    (
        laws.sleeping_tests,
        {"tests/test_a.py": "import time\ntime.sleep(0.1)\n"},
        {"tests/test_a.py": "import time\nwhile busy():\n    time.sleep(0.01)\n"},
    ),
    (
        laws.sleeping_tests,
        {"tests/test_a.py": "async def f():\n    await asyncio.sleep(1)\n"},
        {"tests/test_a.py": "async def f():\n    await asyncio.sleep(0)\n"},
    ),
    (
        laws.sleeping_tests,
        {"tests/test_a.py": "class TestA:\n  def test_x(self):\n    time.sleep(1)\n"},
        {"tests/test_a.py": "class StallingStore:\n  def write(self):\n    time.sleep(1)\n"},
    ),
]


@pytest.mark.parametrize("law, broken, clean", PLANTED)
def test_a_planted_violation_is_caught(
    law: Callable[[laws.Tree], list[str]], broken: dict[str, str], clean: dict[str, str]
) -> None:
    """The law names the planted file, and says nothing about its clean twin."""
    found = law(laws.Tree(broken))
    assert len(found) == 1
    assert found[0].split(":")[0].startswith(next(iter(broken)).rsplit("/", 1)[0])
    assert law(laws.Tree(clean)) == []


def test_what_is_missing_from_the_reference_is_named() -> None:
    """A name counts as documented only in code marks: prose that contains the word does not."""
    reference = "`fence_token_stale` is 412, busy is 503.\n```toml\ndrain_timeout_ms = 1\n```\n"
    names = ["fence_token_stale", "busy", "drain_timeout_ms", "drain"]
    assert laws.undocumented("code", names, reference) == [
        "code `busy` is not in docs/reference",
        "code `drain` is not in docs/reference",
    ]
