"""A bounded run of every law, the same bytes each time; `make fuzz` looks for new ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.fuzz.laws import LAWS, Law
from tests.fuzz.mutations import QUIET


def run(law: Law, examples: int) -> None:
    """Check a law on so many inputs. The same ones every time: a red run is its change's fault."""
    bounded = settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=QUIET,
    )
    bounded(given(law.strategy)(law.check))()


@pytest.mark.parametrize("name", LAWS)
def test_a_law_holds_on_its_seeds(name: str) -> None:
    """Every message, path and document that fuzzing starts from keeps the law itself."""
    for data in LAWS[name].corpus:
        LAWS[name].check(data)


@pytest.mark.parametrize("name", LAWS)
def test_a_law_holds_on_damaged_input(name: str) -> None:
    """What a parser accepts means one thing to a second opinion; what it refuses, it refuses."""
    run(LAWS[name], LAWS[name].examples)
