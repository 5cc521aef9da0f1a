"""The JSON body of a row."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.rows.accept import BodyForm
from gateway.dialects.rows.problems import RequestError
from gateway.dialects.rows.row_body import check_keys, parse_rows
from gateway.model.row_action import Member, object_text

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=8,
)
_ROW = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), _JSON
)


@given(_ROW, st.sampled_from([None, 1]), st.booleans())
def test_every_object_comes_back(row: dict[str, object], indent: int | None, array: bool) -> None:
    """Members are those of the object, in order, and joined again they are the object."""
    text = json.dumps([row] if array else row, indent=indent, ensure_ascii=False)
    (members,) = parse_rows(text.encode())
    assert [m.column for m in members] == list(row)
    assert json.loads(object_text(members)) == row


@pytest.mark.parametrize(
    "number", ["1.10", "12345678901234567890.0123456789", "1E400", "-0", "9" * 5000]
)
def test_numbers_keep_every_digit(number: str) -> None:
    """A number is kept as it was written."""
    (members,) = parse_rows(f' {{ "a" : {number} , "b":[{number}] }} '.encode())
    assert members == (Member("a", number), Member("b", f"[{number}]"))
    assert members[0].text == number


@pytest.mark.parametrize(
    "value,text",
    [("null", None), ('"x\\u0041\\n"', "xA\n"), ("true", "true"), ('{ "a":1}', '{ "a":1}')],
)
def test_the_text_for_the_column(value: str, text: str | None) -> None:
    """A column's input gets a string's content, and of everything else the JSON text."""
    assert Member("a", value).text == text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"1",
        b'"x"',
        b"null",
        b"[1]",
        b"[{},]",
        b"[{}",
        b"{",
        b'{"a"}',
        b'{"a":}',
        b'{"a":1,}',
        b"{a:1}",
        b"{1:1}",
        b'{["a"]:1}',
        b"{'a':1}",
        b'{"a":1}x',
        b'{"a":NaN}',
        b'{"a":[Infinity]}',
        b'{"a":01}',
        b'{"a":"\n"}',
        b'{"a":"\xff"}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":1}\x00',
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        '{"a":1}'.encode("utf-16"),
    ],
)
def test_no_json_object(body: bytes) -> None:
    """What is no object of JSON, by the letter of RFC 8259, is refused with PGRST102."""
    with pytest.raises(RequestError) as caught:
        parse_rows(body)
    problem = caught.value.problem
    assert (problem.status, problem.native) == (400, "PGRST102")
    assert problem.message == "Empty or invalid json"


def test_a_member_twice() -> None:
    """A member that stands twice has two values: which is the row's is not guessed."""
    with pytest.raises(RequestError) as caught:
        parse_rows(b'{"a":1,"\\u0061":2}')
    assert "twice" in caught.value.problem.message


@pytest.mark.parametrize("value", [b'"\\u0000"', b'"\\ud800"', b'[{"x":"\\udc00"}]'])
def test_what_no_database_text_can_hold(value: bytes) -> None:
    """NUL and half a surrogate pair are refused, also inside."""
    with pytest.raises(RequestError) as caught:
        parse_rows(b'{"a":' + value + b"}")
    assert caught.value.problem.native == "PGRST102"
    parse_rows(b'{"a":"\\ud83d\\ude00"}')


def test_several_rows() -> None:
    """No row is a list of none; without `columns`, all have the same members."""
    assert parse_rows(b" [ ] ") == ()
    alike = parse_rows(b'[{"a":1},{"a":2.50}]')
    assert alike == ((Member("a", "1"),), (Member("a", "2.50"),))
    check_keys(alike)
    check_keys(())
    with pytest.raises(RequestError) as caught:
        check_keys(parse_rows(b'[{"a":1},{"a":2,"b":3}]'))
    assert caught.value.problem.message == "All object keys must match"


def test_lines_of_values() -> None:
    """The first line names the columns; NULL is null, quotes hold commas, lines and quotes."""
    body = 'a,"b c"\r\n1,NULL\n"x,""y""\nz",é\n'.encode()
    assert parse_rows(body, BodyForm.CSV) == (
        (Member("a", '"1"'), Member("b c", "null")),
        (Member("a", '"x,\\"y\\"\\nz"'), Member("b c", '"\\u00e9"')),
    )
    assert parse_rows(b"", BodyForm.CSV) == ()
    assert parse_rows(b"a\n", BodyForm.CSV) == ()


@pytest.mark.parametrize(
    "body", [b"a,b\n1\n", b"a,a\n1,2\n", b'a\n"x\n', b"a\n\xff\n", b"a\nx\0\n"]
)
def test_lines_that_cannot_be_read(body: bytes) -> None:
    """Lines of another length, a column twice, an open quote, no UTF-8, NUL."""
    with pytest.raises(RequestError) as caught:
        parse_rows(body, BodyForm.CSV)
    assert caught.value.problem.native == "PGRST102"


def test_fields_of_a_form() -> None:
    """One row of texts."""
    row = (Member("a", '"x y"'), Member("b", '""'), Member("c", '"NULL"'))
    assert parse_rows(b"a=x+y&b=&c=NULL", BodyForm.FIELDS) == (row,)
    assert parse_rows(b"", BodyForm.FIELDS) == ((),)
    for body in (b"a=1&a=2", b"a=%00", b"a=%ff"):
        with pytest.raises(RequestError):
            parse_rows(body, BodyForm.FIELDS)
