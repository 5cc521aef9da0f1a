"""If-Match and If-None-Match, read as RFC 9110 writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.entity_tags import conditions
from gateway.model.conditions import Conditions
from gateway.model.problem import Code, Problem

READ = [
    ([b"*"], ("*",)),
    ([b'"a"'], ('"a"',)),
    ([b'"a", "b"'], ('"a"', '"b"')),
    ([b'"a","b"'], ('"a"', '"b"')),
    ([b'"a"', b'"b"'], ('"a"', '"b"')),
    ([b', "a" , ,"b" ,'], ('"a"', '"b"')),
    ([b'""'], ('""',)),
    ([b'"a,b"'], ('"a,b"',)),
    ([b'"\xe9!#"'], ('"\xe9!#"',)),
    ([b'W/"a"'], ('W/"a"',)),
]


@pytest.mark.parametrize("fields, tags", READ)
def test_read(fields: list[bytes], tags: tuple[str, ...]) -> None:
    """Lists, several lines, empty elements, commas within tags; quotes are kept."""
    assert conditions(fields, []) == Conditions(if_match=tags)
    weakly = tuple(tag.removeprefix("W/") for tag in tags)
    assert conditions([], fields) == Conditions(if_none_match=weakly)


@pytest.mark.parametrize(
    "fields",
    [
        [b""],
        [b","],
        [b"a"],
        [b'"a'],
        [b'a"'],
        [b'"a" "b"'],
        [b'"a","b'],
        [b'"a"b'],
        [b'w/"a"'],
        [b'W/ "a"'],
        [b"W/a"],
        [b'*, "a"'],
        [b'"a"', b"*"],
        [b'"a b"'],
        [b'"a\tb"'],
        [b'"a"\n'],
        [b"**"],
    ],
)
def test_malformed(fields: list[bytes]) -> None:
    """A condition that cannot be read is refused, never taken for none."""
    for problem in (conditions(fields, []), conditions([], fields)):
        assert isinstance(problem, Problem)
        assert problem.code is Code.REQUEST_MALFORMED


def test_a_weak_tag_never_matches_strongly() -> None:
    """It keeps its mark in If-Match, and so equals no strong tag of a store."""
    found = conditions([b'W/"a"'], [])
    assert isinstance(found, Conditions)
    assert found.if_match is not None
    assert '"a"' not in found.if_match


def test_no_field_is_no_condition() -> None:
    """And an empty condition is false."""
    assert not conditions([], [])


@given(st.lists(st.text("abc,!*/W", max_size=4), min_size=1, max_size=5), st.booleans())
def test_what_is_written_is_read(opaque: list[str], one_line: bool) -> None:
    """Any list of tags, in one line or several, comes back as it was written."""
    tags = [f'"{text}"' for text in opaque]
    fields = [", ".join(tags).encode()] if one_line else [tag.encode() for tag in tags]
    assert conditions(fields, []) == Conditions(if_match=tuple(tags))


@given(st.binary(max_size=12))
def test_any_bytes_are_read_or_refused(field: bytes) -> None:
    """Nothing raises, and nothing is read as "no condition"."""
    found = conditions([field], [])
    assert isinstance(found, Problem) or found.if_match
