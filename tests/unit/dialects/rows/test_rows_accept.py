"""Media types of requests and answers."""

from __future__ import annotations

import pytest

from gateway.dialects.rows.accept import BodyForm, Shape, body_form, wanted_shape
from gateway.dialects.rows.problems import RequestError

_SINGLE = "application/vnd.pgrst.object+json"


@pytest.mark.parametrize(
    "accept,shape",
    [
        ("", Shape.ARRAY),
        ("*/*", Shape.ARRAY),
        ("application/*", Shape.ARRAY),
        ("application/json; charset=utf-8", Shape.ARRAY),
        (_SINGLE, Shape.OBJECT),
        ("application/vnd.pgrst.object", Shape.OBJECT),
        (f"text/html, {_SINGLE};q=0.5", Shape.OBJECT),
        (f"{_SINGLE};q=0.5, application/json", Shape.ARRAY),
        (f"application/json;q=0.1, {_SINGLE}; q=0.2", Shape.OBJECT),
        (f"{_SINGLE};q=0, */*", Shape.ARRAY),
        ("text/html,application/xhtml+xml,*/*;q=0.8", Shape.ARRAY),
        ("text/csv", Shape.CSV),
        ("text/csv;q=0.5, application/json", Shape.ARRAY),
    ],
)
def test_accepted(accept: str, shape: Shape) -> None:
    """The known type with the highest quality wins."""
    assert wanted_shape([accept.encode()]) is shape


@pytest.mark.parametrize(
    "accept",
    ["text/html", f"{_SINGLE};nulls=stripped", "*/*;q=0", "*/*;q=x", "application/geo+json"],
)
def test_not_acceptable(accept: str) -> None:
    """A type that cannot be produced is 406, and the answer repeats it."""
    with pytest.raises(RequestError) as caught:
        wanted_shape([accept.encode()])
    problem = caught.value.problem
    assert (problem.status, problem.native) == (406, "PGRST107")
    assert accept in problem.message


@pytest.mark.parametrize(
    "types,codings",
    [
        (["text/html"], []),
        (["application/xml"], []),
        (["application/json"], ["gzip"]),
    ],
)
def test_bodies_that_are_not_read(types: list[str], codings: list[str]) -> None:
    """A body of another type or coding is refused, not read as JSON."""
    with pytest.raises(RequestError) as caught:
        body_form([t.encode() for t in types], [c.encode() for c in codings])
    assert caught.value.problem.native == "PGRST102"


def test_bodies_that_are_read() -> None:
    """JSON, with or without a type, lines of values and the fields of a form are taken."""
    assert body_form([], []) is BodyForm.JSON
    assert body_form([b"application/json;charset=UTF-8"], [b"identity"]) is BodyForm.JSON
    assert body_form([b"text/csv; charset=utf-8"], []) is BodyForm.CSV
    assert body_form([b"application/x-www-form-urlencoded"], []) is BodyForm.FIELDS
