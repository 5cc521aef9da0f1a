"""The grammar of filters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.rows.filters import parse_filter
from gateway.dialects.rows.names import column_name
from gateway.dialects.rows.problems import RequestError
from gateway.model.problem import Code
from gateway.model.row_action import (
    Comparison,
    Filter,
    Group,
    Quantifier,
    Step,
    filters_in,
    pinning,
)

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


EQ = Comparison.EQ


@pytest.mark.parametrize(
    "key,value,expected",
    [
        ("a", "like.*x*", Filter("a", Comparison.LIKE, ("*x*",))),
        ("a", "not.imatch.^x", Filter("a", Comparison.IMATCH, ("^x",), negated=True)),
        ("a", "eq(any).{1,2}", Filter("a", EQ, ("{1,2}",), quantifier=Quantifier.ANY)),
        (
            "a",
            "like(all).{a*,*b}",
            Filter("a", Comparison.LIKE, ("{a*,*b}",), quantifier=Quantifier.ALL),
        ),
        ("a", "fts(english).x & y", Filter("a", Comparison.FTS, ("x & y",), language="english")),
        ("a", "wfts.x", Filter("a", Comparison.WEB_FTS, ("x",))),
        ("a", "cs.{1,2}", Filter("a", Comparison.CONTAINS, ("{1,2}",))),
        ("a", "ov.[1,2)", Filter("a", Comparison.OVERLAPS, ("[1,2)",))),
        ("a", "isdistinct.1", Filter("a", Comparison.IS_DISTINCT, ("1",))),
        ("a->b->>c", "eq.1", Filter("a", EQ, ("1",), path=(Step("b"), Step("c", True)))),
        ('"a.x"->0->"k.k"', "eq.1", Filter("a.x", EQ, ("1",), path=(Step(0), Step("k.k")))),
        ("a->-1", "eq.1", Filter("a", EQ, ("1",), path=(Step(-1),))),
        ("a->b-c", "eq.1", Filter("a", EQ, ("1",), path=(Step("b-c"),))),
    ],
)
def test_operators_and_paths(key: str, value: str, expected: Filter) -> None:
    """Every operator of the dialect, with what may stand in parentheses; ways into documents."""
    assert parse_filter(key, value, mutates=True) == expected


@pytest.mark.parametrize(
    "key,value",
    [
        ("a", "neq(any).{1}"),
        ("a", "eq(some).{1}"),
        ("a", "in(any).(1)"),
        ("a", "eq(english).x"),
        ("a", "fts(en'glish).x"),
        ("a->>b->c", "eq.1"),
        ("a->", "eq.1"),
        ('"a"b', "eq.1"),
        ("a" + "->b" * 33, "eq.1"),
    ],
)
def test_parentheses_and_paths_that_do_not_fit(key: str, value: str) -> None:
    """A modifier goes with certain operators, and nothing follows a text."""
    with pytest.raises(RequestError) as caught:
        parse_filter(key, value, mutates=True)
    assert caught.value.problem.native == "PGRST100"


A1, B2 = Filter("a", EQ, ("1",)), Filter("b", EQ, ("2",))


@pytest.mark.parametrize(
    "key,value,expected",
    [
        ("and", "(a.eq.1,b.eq.2)", Group(False, (A1, B2))),
        ("or", "(a.eq.1,b.eq.2)", Group(True, (A1, B2))),
        ("not.or", "( a.eq.1 , b.eq.2)", Group(True, (Filter("a", EQ, ("1 ",)), B2), True)),
        ("or", "(a.eq.1,not.and(b.eq.2,a.eq.1))", Group(True, (A1, Group(False, (B2, A1), True)))),
        ("or", '(a.eq."x,)y",b.eq.2)', Group(True, (Filter("a", EQ, ("x,)y",)), B2))),
        ("or", "(a.in.(1,2),b.eq.2)", Group(True, (Filter("a", Comparison.IN, ("1", "2")), B2))),
        (
            "or",
            "(a.cs.{1,2},b.eq.2)",
            Group(True, (Filter("a", Comparison.CONTAINS, ("{1,2}",)), B2)),
        ),
        ("or", "(a.not.is.null)", Group(True, (Filter("a", Comparison.IS, ("null",), True),))),
        (
            "or",
            '("a.b"->>c.eq.1)',
            Group(True, (Filter("a.b", EQ, ("1",), path=(Step("c", True),)),)),
        ),
        ("or", "(a.eq.1.5)", Group(True, (Filter("a", EQ, ("1.5",)),))),
        (
            "and",
            "(a.eq(any).{1,2})",
            Group(False, (Filter("a", EQ, ("{1,2}",), quantifier=Quantifier.ANY),)),
        ),
    ],
)
def test_trees(key: str, value: str, expected: Group) -> None:
    """Conditions inside each other; commas and parentheses in quotes or braces divide nothing."""
    assert parse_filter(key, value, mutates=False) == expected


@pytest.mark.parametrize(
    "value",
    [
        *("", "a.eq.1", "()", "(a.eq.1", "(a.eq.1))", "(a)", "(a.eq.1,)", "(or(a.eq.1)", "(and)"),
        "(" + "or(" * 20 + "a.eq.1" + ")" * 21,
    ],
)
def test_trees_that_do_not_close(value: str) -> None:
    """What is no tree is refused; a filter that is skipped would change more rows."""
    with pytest.raises(RequestError) as caught:
        parse_filter("or", value, mutates=True)
    assert caught.value.problem.native == "PGRST100"


def test_only_certain_filters_pin_a_row() -> None:
    """Under `or`, under `not`, through a path or of any value, a row may be another one."""
    pinned = Group(False, (A1, Group(False, (B2,))))
    loose = (
        Group(True, (A1,)),
        Group(False, (A1,), negated=True),
        Filter("a", EQ, ("1",), negated=True),
        Filter("a", EQ, ("1",), path=(Step("x"),)),
        Filter("a", EQ, ("{1}",), quantifier=Quantifier.ANY),
        Filter("a", Comparison.IN, ("1",)),
    )
    assert list(pinning([pinned, *loose])) == [A1, B2]
    assert len(list(filters_in([pinned, *loose]))) == 8


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
