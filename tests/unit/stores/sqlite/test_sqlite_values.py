"""Values between JSON text and SQLite."""

from __future__ import annotations

import json
import sqlite3
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.rows.problems import RequestError
from gateway.model.catalogue import Column, ColumnKind
from gateway.model.row_action import Member
from gateway.stores.sqlite.values import SqlValue, json_text, member_value, text_value


def column(kind: ColumnKind) -> Column:
    """A column of a kind."""
    return Column("c", kind.value, kind)


def stored(kind: ColumnKind, document: str) -> SqlValue:
    """What a member's JSON is stored as."""
    return member_value(column(kind), Member("c", document))


def state_of(kind: ColumnKind, document: str) -> str | None:
    """The SQLSTATE with which a member's JSON is refused."""
    with pytest.raises(RequestError) as caught:
        stored(kind, document)
    return caught.value.problem.native


@pytest.mark.parametrize(
    "kind,document,value",
    [
        (ColumnKind.INTEGER, "9223372036854775807", 2**63 - 1),
        (ColumnKind.INTEGER, '" -7 "', -7),
        (ColumnKind.REAL, "1e3", 1000.0),
        (ColumnKind.REAL, '".5"', 0.5),
        (ColumnKind.NUMERIC, "12345678901234567", 12345678901234567),
        (ColumnKind.NUMERIC, "0.000123456789012345", 0.000123456789012345),
        (ColumnKind.TEXT, "1.50", "1.50"),
        (ColumnKind.TEXT, "true", "true"),
        (ColumnKind.TEXT, '{"a" : 1}', '{"a" : 1}'),
        (ColumnKind.TEXT, '"x"', "x"),
        (ColumnKind.BOOLEAN, "true", 1),
        (ColumnKind.BOOLEAN, '"OFF"', 0),
        (ColumnKind.UUID, f'"{"AB" * 16}"', "abababab-abab-abab-abab-abababababab"),
        (ColumnKind.JSON, '{"a" : 1.10}', '{"a" : 1.10}'),
        (ColumnKind.JSON, '"x"', '"x"'),
        (ColumnKind.BINARY, '"\\\\x00ff"', b"\x00\xff"),
        (ColumnKind.OTHER, "5", 5),
        (ColumnKind.OTHER, "true", 1),
        (ColumnKind.OTHER, '"5"', "5"),
        (ColumnKind.OTHER, "[1]", "[1]"),
    ],
)
def test_stored(kind: ColumnKind, document: str, value: SqlValue) -> None:
    """Each kind takes what PostgreSQL's type of that name takes, and null."""
    found = stored(kind, document)
    assert (found, type(found)) == (value, type(value))
    assert stored(kind, "null") is None


@pytest.mark.parametrize(
    "kind,document,state",
    [
        (ColumnKind.INTEGER, '""', "22P02"),
        (ColumnKind.INTEGER, "1.0", "22P02"),
        (ColumnKind.INTEGER, "true", "22P02"),
        (ColumnKind.INTEGER, "9223372036854775808", "22003"),
        (ColumnKind.INTEGER, "9" * 5000, "22003"),
        (ColumnKind.REAL, '"NaN"', "22P02"),
        (ColumnKind.REAL, "1e999", "22003"),
        (ColumnKind.NUMERIC, "12345678901234567890", "22003"),
        (ColumnKind.NUMERIC, "1.2345678901234567", "22003"),
        (ColumnKind.NUMERIC, '"x"', "22P02"),
        (ColumnKind.BOOLEAN, "2", "22P02"),
        (ColumnKind.BOOLEAN, '"o"', "22P02"),
        (ColumnKind.UUID, '"x"', "22P02"),
        (ColumnKind.BINARY, '"00"', "22P02"),
        (ColumnKind.JSON, "1.2345678901234567", "22003"),
        (ColumnKind.OTHER, "12345678901234567890", "22003"),
    ],
)
def test_refused(kind: ColumnKind, document: str, state: str) -> None:
    """What SQLite would store as something else, or round, is refused."""
    assert state_of(kind, document) == state


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_keep_every_digit(number: int) -> None:
    """An integer goes in and comes out the same, from JSON and from a filter's text."""
    for value in (
        stored(ColumnKind.INTEGER, str(number)),
        text_value(column(ColumnKind.INTEGER), str(number)),
    ):
        assert json_text(column(ColumnKind.INTEGER), value) == str(number)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_survive(number: float) -> None:
    """A double goes in and comes out the same."""
    value = stored(ColumnKind.REAL, json.dumps(number))
    assert json.loads(json_text(column(ColumnKind.REAL), value)) == number


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=6, min_value=-(10**8), max_value=10**8
    )
)
def test_decimals_that_are_taken_are_kept(number: object) -> None:
    """A decimal of up to fifteen digits comes back equal from a NUMERIC column."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t(c NUMERIC)")
    connection.execute("INSERT INTO t VALUES (?)", (stored(ColumnKind.NUMERIC, f'"{number}"'),))
    (value,) = connection.execute("SELECT c FROM t").fetchone()
    connection.close()
    assert Decimal(json_text(column(ColumnKind.NUMERIC), value)) == number


@pytest.mark.parametrize(
    "kind,value,text",
    [
        (ColumnKind.TEXT, None, "null"),
        (ColumnKind.TEXT, 'é"\n', '"é\\"\\n"'),
        (ColumnKind.BOOLEAN, 1, "true"),
        (ColumnKind.BOOLEAN, 2, "2"),
        (ColumnKind.JSON, '{"a":1.10}', '{"a":1.10}'),
        (ColumnKind.JSON, "no json", '"no json"'),
        (ColumnKind.JSON, "NaN", '"NaN"'),
        (ColumnKind.BINARY, b"\x00\xff", '"\\\\x00ff"'),
        (ColumnKind.INTEGER, "beside", '"beside"'),
        (ColumnKind.REAL, float("inf"), '"Infinity"'),
        (ColumnKind.REAL, float("-inf"), '"-Infinity"'),
    ],
)
def test_shown(kind: ColumnKind, value: SqlValue, text: str) -> None:
    """What stands in the database is always written as JSON, also what others put there."""
    assert json_text(column(kind), value) == text
    json.loads(text)


def test_json_has_no_order() -> None:
    """A filter on a JSON column is refused as PostgreSQL does: it has no operator for it."""
    with pytest.raises(RequestError) as caught:
        text_value(column(ColumnKind.JSON), "{}")
    assert caught.value.problem.native == "42883"
