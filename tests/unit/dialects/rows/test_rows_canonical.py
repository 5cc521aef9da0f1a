"""The canonical form of a row's key."""

from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.rows.canonical import (
    canonical_value,
    changes_key,
    integer_of,
    key_of_filters,
    key_of_members,
    uuid_of,
)
from gateway.dialects.rows.row_body import parse_rows
from gateway.model.catalogue import ColumnKind
from gateway.model.row_action import Comparison, Filter, Member
from tests.unit.dialects.rows.rows_requests import JOBS, PAIRS, PLAIN, THINGS, column

_INT64 = st.integers(-(2**63), 2**63 - 1)
_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


def eq(name: str, value: str) -> Filter:
    """`name=eq.value`."""
    return Filter(name, Comparison.EQ, (value,))


@st.composite
def spellings(draw: st.DrawFn) -> tuple[int, str]:
    """An integer, and one of the texts that the database reads as it."""
    number = draw(_INT64)
    sign = "-" if number < 0 else draw(st.sampled_from(["", "+"]))
    blank = st.text(st.sampled_from(" \t\n"), max_size=2)
    zeros = "0" * draw(st.integers(0, 30))
    return number, f"{draw(blank)}{sign}{zeros}{abs(number)}{draw(blank)}"


@given(spellings(), spellings())
def test_filter_and_body_name_one_row_alike(one: tuple[int, str], two: tuple[int, str]) -> None:
    """Two spellings have one name exactly when the database reads one value in them."""
    by_filter = key_of_filters(JOBS, [eq("id", one[1])])
    by_body = key_of_members(JOBS, [Member("id", json.dumps(two[1]))])
    assert by_filter == str(one[0])
    assert (by_filter == by_body) == (one[0] == two[0])
    assert key_of_members(JOBS, [Member("id", str(one[0]))]) == by_filter


@given(st.uuids(), st.booleans(), st.booleans(), st.booleans())
def test_uuids(value: uuid.UUID, upper: bool, plain: bool, braces: bool) -> None:
    """A UUID has one name in every spelling."""
    text = value.hex if plain else str(value)
    text = text.upper() if upper else text
    text = f"{{{text}}}" if braces else text
    assert uuid_of(text) == str(value)
    assert key_of_filters(THINGS, [eq("uid", text)]) == str(value)


@given(_INT64, _TEXT, _INT64, _TEXT)
def test_keys_of_several_columns_do_not_run_together(a: int, b: str, c: int, d: str) -> None:
    """Different keys have different names, whatever commas, slashes and percents they hold."""
    one = key_of_filters(PAIRS, [eq("k2", b), eq("k1", str(a))])
    two = key_of_members(PAIRS, [Member("k1", str(c)), Member("k2", json.dumps(d))])
    assert one is not None
    assert (one == two) == ((a, b) == (c, d))
    assert set(one) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~-%,")


@pytest.mark.parametrize(
    "text",
    ["", "x", "1.0", "1e0", "0x1", "1_0", "\u0661", "--1", "9223372036854775808", "1 1", "\xa01"],
)
def test_no_integer(text: str) -> None:
    """What is no 64-bit integer has no name: the database will refuse it, or casts it its way."""
    assert integer_of(text) is None
    assert key_of_filters(JOBS, [eq("id", text)]) is None


@pytest.mark.parametrize("text", ["", "zz", "{" + "0" * 32, "0" * 31, "0" * 33, "0-0" + "0" * 30])
def test_no_uuid(text: str) -> None:
    """What is no UUID has no name."""
    assert uuid_of(text) is None


@pytest.mark.parametrize(
    "filters",
    [
        [],
        [eq("name", "1")],
        [Filter("id", Comparison.GT, ("1",))],
        [Filter("id", Comparison.EQ, ("1",), negated=True)],
        [Filter("id", Comparison.IN, ("1",))],
        [eq("id", "1"), eq("id", "2")],
    ],
)
def test_filters_that_do_not_pin(filters: list[Filter]) -> None:
    """Only eq on the whole key pins a row; two values for one key pin none."""
    assert key_of_filters(JOBS, filters) is None


def test_more_filters_pin_too() -> None:
    """Further filters, and the same value twice, leave the row pinned."""
    assert key_of_filters(JOBS, [eq("id", "1"), eq("name", "x"), eq("id", "01")]) == "1"


def test_parts_of_a_key_do_not_pin() -> None:
    """One column of a key of two is not the key, and a table without a key pins nothing."""
    assert key_of_filters(PAIRS, [eq("k1", "1")]) is None
    assert key_of_members(PLAIN, [Member("a", '"x"')]) is None


@pytest.mark.parametrize("value", ["null", "true", "{}", "[1]", '""'])
def test_bodies_that_do_not_pin(value: str) -> None:
    """A key that is null, a truth value or nested has no certain text form."""
    assert key_of_members(PAIRS, [Member("k1", "1"), Member("k2", value)]) is None
    assert key_of_members(JOBS, [Member("id", value)]) is None


@pytest.mark.parametrize(
    "kind", [ColumnKind.REAL, ColumnKind.NUMERIC, ColumnKind.OTHER, ColumnKind.JSON]
)
def test_other_types_are_never_exact(kind: ColumnKind) -> None:
    """1, 1.0 and 1e0 are one number but three texts: such a key has no name."""
    assert canonical_value(column("k", kind), "1") is None


def test_texts_that_the_database_may_change() -> None:
    """A collated text, or one longer than its type, may be stored or found as another."""
    assert canonical_value(column("k", collated=True), "a") is None
    short = column("k", max_chars=2)
    assert (canonical_value(short, "ab"), canonical_value(short, "ab ")) == ("ab", None)


@pytest.mark.parametrize(
    "body,changes",
    [
        ('{"name": "x"}', False),
        ('{"id": 1}', False),
        ('{"id": "01"}', False),
        ('{"id": 2}', True),
        ('{"id": null}', True),
        ('{"id": true}', True),
        ('{"id": "x"}', True),
    ],
)
def test_an_update_that_moves_the_row(body: str, changes: bool) -> None:
    """An update that gives the row another key writes a second resource."""
    (members,) = parse_rows(body.encode())
    assert changes_key(JOBS, [eq("id", "1")], members) is changes
