"""The canonical forms that signatures are made over."""

from __future__ import annotations

from urllib.parse import quote_from_bytes, unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.s3.canonical import (
    canonical_path,
    canonical_query,
    canonical_value,
    decode_path,
    decode_query,
    encode_path,
    encode_query,
    has_bad_escape,
    parse_query,
)


@given(data=st.binary(max_size=60))
def test_encoding_is_undone_by_decoding(data: bytes) -> None:
    """Any bytes survive, and the shortcuts for plain text give what the long way gives."""
    assert decode_path(encode_path(data)) == data
    assert decode_query(encode_query(data)) == data
    assert encode_path(data) == quote_from_bytes(data, safe="/").encode()
    assert encode_query(data) == quote_from_bytes(data, safe="").encode()
    assert decode_path(data) == unquote_to_bytes(data)


@given(data=st.binary(max_size=60))
def test_the_canonical_path_is_its_own_canonical_path(data: bytes) -> None:
    """A fixed point, so that signing what was canonical changes nothing."""
    once = canonical_path(b"/" + encode_path(data))
    assert canonical_path(once) == once


@pytest.mark.parametrize(
    "raw, expected",
    [
        (b"", b"/"),
        (b"/", b"/"),
        (b"/a%2fb%7Ec", b"/a/b~c"),
        (b"/a+b", b"/a%2Bb"),
        (b"//a/../b/.", b"//a/../b/."),
        (b"/\xc3\xbc", b"/%C3%BC"),
    ],
)
def test_canonical_paths(raw: bytes, expected: bytes) -> None:
    """Decoded once, encoded once, nothing folded; a plus sign is a plus sign."""
    assert canonical_path(raw) == expected


@pytest.mark.parametrize(
    "raw, pairs, canonical",
    [
        (b"", [], b""),
        (b"&&", [], b""),
        (b"b=2&a=1", [(b"b", b"2"), (b"a", b"1")], b"a=1&b=2"),
        (b"a", [(b"a", b"")], b"a="),
        (b"a=b=c", [(b"a", b"b=c")], b"a=b%3Dc"),
        (b"a=+%2B%20", [(b"a", b" + ")], b"a=%20%2B%20"),
        (b"a=2&a=10&A=3", [(b"a", b"2"), (b"a", b"10"), (b"A", b"3")], b"A=3&a=10&a=2"),
        (b"a-=1&a=2", [(b"a-", b"1"), (b"a", b"2")], b"a=2&a-=1"),
    ],
)
def test_queries_are_sorted_by_name_then_value(
    raw: bytes, pairs: list[tuple[bytes, bytes]], canonical: bytes
) -> None:
    """Encoded names are compared by byte, before values; a plus sign is a space."""
    assert parse_query(raw) == pairs
    assert canonical_query(pairs) == canonical


def test_values_are_trimmed_collapsed_and_joined() -> None:
    """Several lines of one name become one, in order."""
    assert canonical_value([b"  a \t b  ", b"c"]) == b"a b,c"
    assert canonical_value([b""]) == b""


@pytest.mark.parametrize("text", [b"%", b"%a", b"%zz", b"a%2", b"%%20", b"%\xff0"])
def test_broken_escapes_are_found(text: bytes) -> None:
    """A percent sign without two hex digits behind it."""
    assert has_bad_escape(text)
    assert not has_bad_escape(b"%25%aF%00 plain")
