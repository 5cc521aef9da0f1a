"""The grammar of filters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.rows.filters import column_name, parse_filter
from gateway.dialects.rows.problems import RequestError
from gateway.model.problem import Code
from gateway.model.row_action import Comparison, Filter

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@pytest.mark.parametrize("name", ["eq", "neq", "gt", "gte", "lt", "lte"])
@pytest.mark.parametrize("negation", ["", "not."])
@given(value=_TEXT)
def test_one_value_is_taken_as_it_stands(name: str, negation: str, value: str) -> None:
    """Everything behind the operator's dot is the value: dots, quotes, blanks and commas too."""
    expected = Filter("a", Comparison(name), (value,), bool(negation))
    assert parse_filter("a", f"{negation}{name}.{value}", mutates=False) == expected


@given(values=st.lists(_TEXT, min_size=1))
def test_a_quoted_list_brings_back_its_elements(values: list[str]) -> None:
    """Elements in quotes, with quotes and backslashes escaped, survive whatever they hold."""
    quoted = ('"' + v.replace("\\", "\\\\").replace('"', '\\"') + '"' for v in values)
    found = parse_filter("a", f"in.({','.join(quoted)})", mutates=False)
    assert found == Filter("a", Comparison.IN, tuple(values))


@pytest.mark.parametrize(
    "text,values",
    [
        ("()", ()),
        ("( )", ()),
        ('("")', ("",)),
        ("(,)", ("", "")),
        ("(1,2)", ("1", "2")),
        ("( 1, 2 )", ("1", " 2 ")),
        (' ("a,b",c) ', ("a,b", "c")),
        ('("a""b")', ('"a""b"',)),
        ('(")', ('"',)),
        ('(a"b,c)', ('a"b', "c")),
        ('("a"b,c)', ('"a"b', "c")),
        ('("q\\"x","b\\\\s")', ('q"x', "b\\s")),
        ("(not.eq.1)", ("not.eq.1",)),
    ],
)
def test_lists(text: str, values: tuple[str, ...]) -> None:
    """An element that is not properly quoted is its own text; an empty list has no element."""
    assert parse_filter("a", f"in.{text}", mutates=False).values == values


@pytest.mark.parametrize("text", ["", "1,2", "(1,2", '("a', "(1)2", "(1))"])
def test_lists_that_do_not_close(text: str) -> None:
    """A list needs its parentheses, and nothing behind them."""
    with pytest.raises(RequestError) as caught:
        parse_filter("a", f"in.{text}", mutates=False)
    assert caught.value.problem.native == "PGRST100"


@pytest.mark.parametrize("word", ["null", "NULL", "not_null", "true", "False", "unknown"])
def test_is(word: str) -> None:
    """`is` takes its words in any case."""
    assert parse_filter("a", f"is.{word}", mutates=False).values == (word.lower(),)


@pytest.mark.parametrize("value", ["", "1", "eq", "eq1", "equals.1", "EQ.1", "is.nil", "not.", "."])
def test_not_understood(value: str) -> None:
    """What is no known operator with a dot is refused, and the answer lists the known ones."""
    with pytest.raises(RequestError) as caught:
        parse_filter("a", value, mutates=True)
    problem = caught.value.problem
    assert (problem.status, problem.native) == (400, "PGRST100")


@pytest.mark.parametrize(
    "key,value,named",
    [
        ("a", "like.*x*", "like"),
        ("a", "not.ilike.x", "ilike"),
        ("a", "fts(english).x", "fts(english)"),
        ("a", "eq(any).{1,2}", "eq(any)"),
        ("or", "(a.eq.1,b.eq.2)", '"or"'),
        ("not.and", "(a.eq.1)", '"not.and"'),
        ("a->>b", "eq.1", "a->>b"),
        ("rel.a", "eq.1", "rel.a"),
    ],
)
def test_left_out_by_name(key: str, value: str, named: str) -> None:
    """A known feature outside the subset is refused by name: 501 for a mutation, 400 for a read."""
    for mutates, status in ((True, 501), (False, 400)):
        with pytest.raises(RequestError) as caught:
            parse_filter(key, value, mutates=mutates)
        problem = caught.value.problem
        assert problem.status == status
        assert named in f"{problem.message}{problem.details}"
    assert problem.native == "PGRST127"
    assert problem.code is not Code.NOT_FENCED


@pytest.mark.parametrize(
    "text,name",
    [("a b", "a b"), ('"a.b"', "a.b"), ('"q\\"x"', 'q"x'), ("field-with_sep", "field-with_sep")],
)
def test_column_names(text: str, name: str) -> None:
    """A name with a dot or a comma is put in quotes."""
    assert column_name(text, mutates=False) == name


@pytest.mark.parametrize("text", ["", '"a', 'a"b'])
def test_no_column_names(text: str) -> None:
    """A name needs a character, and quotes that match."""
    with pytest.raises(RequestError):
        column_name(text, mutates=False)
