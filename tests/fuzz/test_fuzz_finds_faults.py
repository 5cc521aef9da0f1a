"""The negative control: a planted fault must be found, with the same means and in seconds."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings

from tests.fuzz.laws import LAWS
from tests.fuzz.mutations import QUIET
from tests.fuzz.planted import FAULTS

BOUNDED = settings(
    max_examples=3000,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=QUIET,
)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway with this fault breaks its law within three thousand inputs."""
    fault = FAULTS[name]
    law = LAWS[fault.law]
    fault.plant(monkeypatch)
    with pytest.raises(AssertionError):
        BOUNDED(given(law.strategy)(law.check))()
