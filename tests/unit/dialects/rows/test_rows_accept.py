"""Media types of requests and answers."""

from __future__ import annotations

import pytest

from gateway.dialects.rows.accept import check_body_type, wants_single
from gateway.dialects.rows.problems import RequestError

_SINGLE = "application/vnd.pgrst.object+json"


@pytest.mark.parametrize(
    "accept,single",
    [
        ("", False),
        ("*/*", False),
        ("application/*", False),
        ("application/json; charset=utf-8", False),
        (_SINGLE, True),
        ("application/vnd.pgrst.object", True),
        (f"text/html, {_SINGLE};q=0.5", True),
        (f"{_SINGLE};q=0.5, application/json", False),
        (f"application/json;q=0.1, {_SINGLE}; q=0.2", True),
        (f"{_SINGLE};q=0, */*", False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", False),
    ],
)
def test_accepted(accept: str, single: bool) -> None:
    """The known type with the highest quality wins."""
    assert wants_single([accept.encode()]) is single


@pytest.mark.parametrize(
    "accept",
    ["text/csv", f"{_SINGLE};nulls=stripped", "*/*;q=0", "*/*;q=x", "application/geo+json"],
)
def test_not_acceptable(accept: str) -> None:
    """A type that cannot be produced is 406, and the answer repeats it."""
    with pytest.raises(RequestError) as caught:
        wants_single([accept.encode()])
    problem = caught.value.problem
    assert (problem.status, problem.native) == (406, "PGRST107")
    assert accept in problem.message


@pytest.mark.parametrize(
    "types,codings",
    [
        (["text/csv"], []),
        (["application/x-www-form-urlencoded"], []),
        (["application/json"], ["gzip"]),
    ],
)
def test_bodies_that_are_no_json(types: list[str], codings: list[str]) -> None:
    """A body of another type or coding is refused, not read as JSON."""
    with pytest.raises(RequestError) as caught:
        check_body_type([t.encode() for t in types], [c.encode() for c in codings])
    assert caught.value.problem.native == "PGRST102"


def test_bodies_that_are_json() -> None:
    """JSON, with or without a type, is taken."""
    check_body_type([], [])
    check_body_type([b"application/json;charset=UTF-8"], [b"identity"])
