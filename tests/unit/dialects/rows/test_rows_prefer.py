"""Preferences of a request."""

from __future__ import annotations

import pytest

from gateway.dialects.rows.prefer import Preferences, Resolution, Returning, parse_prefer
from gateway.dialects.rows.problems import RequestError
from gateway.model.row_action import Count


@pytest.mark.parametrize(
    "method,sent,expected",
    [
        ("POST", [], Preferences()),
        (
            "POST",
            ["return=representation"],
            Preferences(returning=Returning.REPRESENTATION, applied="return=representation"),
        ),
        ("PATCH", ["return=minimal"], Preferences(applied="return=minimal")),
        (
            "POST",
            ["return=headers-only", "return=representation"],
            Preferences(returning=Returning.HEADERS_ONLY, applied="return=headers-only"),
        ),
        (
            "POST",
            ["handling=lenient, return=representation , missing=default"],
            Preferences(
                returning=Returning.REPRESENTATION,
                missing_default=True,
                applied="missing=default, return=representation, handling=lenient",
            ),
        ),
        ("PATCH", ["missing=default"], Preferences()),
        ("GET", ["return=representation"], Preferences()),
        ("GET", ["resolution=merge-duplicates"], Preferences()),
        ("DELETE", ["max-affected=1"], Preferences()),
        (
            "DELETE",
            ["handling=strict,max-affected=1"],
            Preferences(max_affected=1, applied="handling=strict, max-affected=1"),
        ),
        (
            "PATCH",
            ["count=exact, tx=rollback, wait=3; x=y, nonsense, ,"],
            Preferences(count=Count.EXACT, applied="count=exact"),
        ),
        ("GET", ["count=planned"], Preferences(count=Count.PLANNED, applied="count=planned")),
        ("GET", ["count=all"], Preferences()),
        (
            "POST",
            ["return=representation, resolution=merge-duplicates, missing=default"],
            Preferences(
                resolution=Resolution.MERGE,
                returning=Returning.REPRESENTATION,
                missing_default=True,
                applied="resolution=merge-duplicates, missing=default, return=representation",
            ),
        ),
        ("PATCH", ["resolution=merge-duplicates"], Preferences()),
        ("POST", ["resolution=other"], Preferences()),
        (
            "PATCH",
            ['Return="representation"'],
            Preferences(returning=Returning.REPRESENTATION, applied="return=representation"),
        ),
    ],
)
def test_what_is_honoured(method: str, sent: list[str], expected: Preferences) -> None:
    """The first value of a preference wins, and Preference-Applied names what is honoured."""
    assert parse_prefer([value.encode() for value in sent], method, resolvable=True) == expected


@pytest.mark.parametrize(
    "method,sent,named",
    [
        ("GET", "handling=strict, count=some", "count=some"),
        ("POST", "handling=strict, anything", "anything"),
        ("POST", "handling=strict, max-affected=1", "max-affected=1"),
        ("PATCH", "handling=strict, max-affected=-1, return=x", "max-affected=-1, return=x"),
    ],
)
def test_strict_refuses_the_rest(method: str, sent: str, named: str) -> None:
    """Under handling=strict a preference that is not honoured is refused by name."""
    with pytest.raises(RequestError) as caught:
        parse_prefer([sent.encode()], method, resolvable=True)
    problem = caught.value.problem
    assert (problem.status, problem.native) == (400, "PGRST122")
    assert problem.details == f"Invalid preferences: {named}"


def test_nothing_to_resolve() -> None:
    """Without a key or on_conflict nothing can conflict, and the preference is not applied."""
    found = parse_prefer([b"resolution=ignore-duplicates"], "POST", resolvable=False)
    assert found == Preferences()
