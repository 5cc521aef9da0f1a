"""The query string of a request."""

from __future__ import annotations

import pytest

from gateway.dialects.rows.problems import RequestError
from gateway.dialects.rows.query import Query, parse_query, with_range
from gateway.model.row_action import Comparison, Filter, Order, Selected, Selection, Step

BC = (Step("b"), Step("c", as_text=True))


def test_nothing_sent() -> None:
    """Without parameters there is nothing to restrict."""
    assert parse_query(b"", mutates=False) == Query()


def test_all_parts() -> None:
    """Reserved names are the dialect's, every other one is a filter; order is kept."""
    query = parse_query(b"select=a,b&id=eq.1&order=a.desc&limit=3&offset=2&id=lt.9", mutates=False)
    assert query.select == (Selected("a"), Selected("b"))
    assert query.filters == (
        Filter("id", Comparison.EQ, ("1",)),
        Filter("id", Comparison.LT, ("9",)),
    )
    assert (query.order, query.limit, query.offset) == ((Order("a", True, True),), 3, 2)


@pytest.mark.parametrize(
    "raw,value",
    [(b"a=eq.x+y%2B%26", "x y+&"), (b"a=eq.%C3%A9", "é"), (b"a=eq.a=b", "a=b"), (b"%61=eq.", "")],
)
def test_decoding(raw: bytes, value: str) -> None:
    """A plus is a blank, escapes are UTF-8, and only the first = divides."""
    assert parse_query(raw, mutates=False).filters == (Filter("a", Comparison.EQ, (value,)),)


@pytest.mark.parametrize("raw", [b"a=eq.%", b"a=eq.%zz", b"a=eq.%ff", b"a=eq.%00", b"%c3=eq.1"])
def test_undecodable(raw: bytes) -> None:
    """A bad escape, bad UTF-8 and NUL are refused, never guessed."""
    with pytest.raises(RequestError) as caught:
        parse_query(raw, mutates=True)
    assert caught.value.problem.native == "PGRST100"


@pytest.mark.parametrize(
    "raw,select",
    [
        (b"", None),
        (b"select=", ()),
        (b"select=*", ()),
        (b"select=a,%20b%20,a", (Selected("a"), Selected("b"))),
        (b"select=*,x:a", (Selected("*"), Selected("a", alias="x"))),
        (b"select=a::text", (Selected("a", cast="text"),)),
        (b"select=x:a->b->>c::INT4", (Selected("a", BC, "integer", "x"),)),
        (b'select="x:y":"a::b"', (Selected("a::b", alias="x:y"),)),
    ],
)
def test_select(raw: bytes, select: Selection | None) -> None:
    """No names stand for all columns; a name twice is one column."""
    assert parse_query(raw, mutates=False).select == select


def test_names_in_quotes() -> None:
    """Commas, dots and quotes in a quoted name divide nothing."""
    query = parse_query(b'select="a,b","c.d"&order="e.f".desc,"g,h"', mutates=False)
    assert query.select == (Selected("a,b"), Selected("c.d"))
    assert query.order == (Order("e.f", True, True), Order("g,h"))


@pytest.mark.parametrize(
    "raw,order",
    [
        (b"a", Order("a")),
        (b"a.asc", Order("a", False, False)),
        (b"a.desc", Order("a", True, True)),
        (b"a.desc.nullslast", Order("a", True, False)),
        (b"a.asc.nullsfirst", Order("a", False, True)),
        (b"a.nullsfirst", Order("a", False, True)),
    ],
)
def test_order(raw: bytes, order: Order) -> None:
    """Nulls come last ascending and first descending, unless the client says so."""
    assert parse_query(b"order=" + raw, mutates=False).order == (order,)


@pytest.mark.parametrize(
    "raw",
    [
        b"order=a.down",
        b"order=a.nullslast.desc",
        b"order=a,,b",
        b"limit=x",
        b"limit=1.5",
        b"limit=+1",
        b"offset=9999999999999999999999",
        b"select=a::regclass",
        b"select=x:*",
        b"select=a::",
        b"limit=1&limit=2",
        b"foo",
    ],
)
def test_not_of_the_grammar(raw: bytes) -> None:
    """What cannot be read is refused."""
    with pytest.raises(RequestError) as caught:
        parse_query(raw, mutates=False)
    assert (caught.value.problem.status, caught.value.problem.native) == (400, "PGRST100")


def test_negative_range() -> None:
    """A negative limit asks for what cannot be: 416."""
    with pytest.raises(RequestError) as caught:
        parse_query(b"limit=-1", mutates=False)
    assert (caught.value.problem.status, caught.value.problem.native) == (416, "PGRST103")


@pytest.mark.parametrize(
    "raw,named",
    [
        (b"select=rel(*)", "rel(*)"),
        (b"select=...rel(a)", "...rel(a)"),
        (b"select=id.count()", "id.count()"),
        (b"order=rel(a)", "rel(a)"),
    ],
)
def test_left_out_by_name(raw: bytes, named: str) -> None:
    """Embedding and aggregates are refused by name."""
    for mutates, status in ((False, 400), (True, 501)):
        with pytest.raises(RequestError) as caught:
            parse_query(raw, mutates=mutates)
        problem = caught.value.problem
        if not raw.startswith(b"order") or not mutates:  # order on a mutation is refused as such
            assert problem.status == status
            assert named in f"{problem.message}{problem.details}"


@pytest.mark.parametrize("raw", [b"limit=1", b"offset=1", b"order=a"])
def test_no_paging_of_mutations(raw: bytes) -> None:
    """limit on a mutation, if ignored, would change more rows than asked for: 501."""
    with pytest.raises(RequestError) as caught:
        parse_query(raw, mutates=True)
    assert caught.value.problem.status == 501


@pytest.mark.parametrize(
    "value,units,page",
    [
        (b"0-9", [], (0, 10)),
        (b"items=5-5", [b"items"], (5, 1)),
        (b"7-", [], (7, None)),
        (b"bytes=0-9", [], (1, 2)),
        (b"0-9", [b"bytes"], (1, 2)),
        (b"-5", [], (1, 2)),
    ],
)
def test_ranges(value: bytes, units: list[bytes], page: tuple[int, int | None]) -> None:
    """A range of items replaces limit and offset; one of something else is ignored."""
    query = parse_query(b"offset=1&limit=2", mutates=False)
    found = with_range(query, [value], units)
    assert (found.offset, found.limit) == page


def test_a_range_that_ends_before_it_begins() -> None:
    """416, as for a page that cannot be."""
    with pytest.raises(RequestError) as caught:
        with_range(Query(), [b"9-0"], [])
    assert (caught.value.problem.status, caught.value.problem.native) == (416, "PGRST103")


def test_filters_inside_trees_count() -> None:
    """The bound is on filters, however they are nested."""
    tree = b"or=(" + b",".join([b"a.eq.1"] * 101) + b")"
    with pytest.raises(RequestError):
        parse_query(tree, mutates=True)


def test_too_many_filters() -> None:
    """The number of filters is bounded."""
    parse_query(b"&".join([b"a=eq.1"] * 100), mutates=False)
    with pytest.raises(RequestError):
        parse_query(b"&".join([b"a=eq.1"] * 107), mutates=False)
