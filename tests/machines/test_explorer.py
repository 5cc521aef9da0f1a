"""The explorer over the shipped machine: the promise holds, and every shortcut breaks it."""

from __future__ import annotations

import pytest

from gateway.testing.explorer_scenarios import HOLDS, SHORTCUTS, SLOW, requests
from gateway.testing.explorer_world import Stage


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", HOLDS)
def test_promise_holds_in_every_interleaving(name: str) -> None:
    """Once a token is admitted, no lower one takes effect: all interleavings, the shipped code."""
    scenario = HOLDS[name]
    verdict = scenario.search()
    assert verdict.holds, "\n".join((verdict.law, *verdict.story))
    # Not vacuous: something was sent, something landed, and each token was admitted on some path.
    assert {Stage.ADMITTED, Stage.LANDED, Stage.DONE} <= verdict.reached
    tokens = {token for _, token in verdict.admitted}
    assert {w.token for w in requests(scenario.requests)} <= tokens


@pytest.mark.parametrize("name", SHORTCUTS)
def test_every_shortcut_is_refuted(name: str) -> None:
    """Each rule is needed: without it the same search finds a violation."""
    verdict = SHORTCUTS[name].search()
    assert not verdict.holds, f"the search is blind to: {name}"
    assert verdict.story[-1].find("LANDS") > 0


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", SLOW)
def test_promise_holds_with_four_requests(name: str) -> None:
    """The promise over the larger scenarios."""
    verdict = SLOW[name].search()
    assert verdict.holds, "\n".join((verdict.law, *verdict.story))
