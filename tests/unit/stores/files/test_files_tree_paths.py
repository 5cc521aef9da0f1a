"""File names of URL paths: one spelling, one file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.problem import Code
from gateway.stores.files.faults import Refusal
from gateway.stores.files.tree_paths import place_of

BARE = "ABCxyz0189-._~!$&'()*+,;=:@"
pieces = st.sampled_from([*BARE, *(f"%{byte:02X}" for byte in range(256))]) | st.sampled_from(
    ["%25", "%2525", "%21", "!", "%2F", "21", "%c3%a4", "%C3%A4"]
)
segments = st.lists(pieces, min_size=1, max_size=8).map("".join)


@pytest.mark.parametrize(
    "key, names",
    [
        ("a.txt", (b"a.txt",)),
        ("reports/a/q1.csv", (b"reports", b"a", b"q1.csv")),
        ("two%20words", (b"two words",)),
        ("%C3%BCber", "über".encode()),
        ("%c3%bcber", "über".encode()),
        ("a!b", (b"a!b",)),
        ("a%21b", (b"a%21b",)),
        ("a%2Fb", (b"a%2Fb",)),
        ("a%2fb", (b"a%2Fb",)),
        ("100%25", (b"100%",)),
        ("100%25.txt", (b"100%.txt",)),
        ("%2521", (b"%2521",)),
        ("nul%00", (b"nul%00",)),
        ("q%3Fx%23y", (b"q?x#y",)),
        ("...", (b"...",)),
    ],
)
def test_names(key: str, names: tuple[bytes, ...] | bytes) -> None:
    """What has one spelling is decoded for people; what has two keeps its escape."""
    assert place_of(key).names == (names if isinstance(names, tuple) else (names,))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "a/../b",
        "a/./b",
        "%2e%2E",
        "%41",
        "a b",
        "ü",
        "a%",
        "a%2",
        "a%zz",
        'a"b',
        "a{b",
        "a?b",
        "a\0b",
        "a\udcffb",
        "x" * 256,
        "%C3%BC" * 128,
        ".fencegate",
        ".fencegate/tmp/x",
        "a/.fencegate-x",
    ],
)
def test_refused(key: str) -> None:
    """What no file can be, or what has another spelling already, is refused with the reason."""
    with pytest.raises(Refusal) as refused:
        place_of(key)
    assert refused.value.problem.code is Code.CONFLICT
    assert "cannot hold" in refused.value.problem.message


@given(segments, segments)
def test_two_spellings_never_name_one_file(one: str, other: str) -> None:
    """Segments that differ in more than the case of hex digits have different names."""
    try:
        names = place_of(one).names, place_of(other).names
    except Refusal:
        return
    assert (names[0] == names[1]) == (canonical(one) == canonical(other))


def canonical(segment: str) -> str:
    """The segment with the hex digits of its escapes in upper case."""
    parts = segment.split("%")
    return "%".join([parts[0], *(part[:2].upper() + part[2:] for part in parts[1:])])


@given(st.lists(segments, min_size=1, max_size=4))
def test_no_name_leads_elsewhere(each: list[str]) -> None:
    """No name is empty, dots, has a slash or NUL, is too long, or the gateway's own."""
    try:
        names = place_of("/".join(each)).names
    except Refusal:
        return
    assert len(names) == len(each)
    for name in names:
        assert name not in (b"", b".", b"..")
        assert not set(name) & set(b"/\0")
        assert len(name) <= 255
        assert not name.startswith(b".fencegate")


def test_the_longest_name_fits() -> None:
    """255 bytes are allowed, counted as they lie on the disk."""
    assert place_of("x" * 255).names == (b"x" * 255,)
    assert len(place_of("%C3%BC" * 127).names[0]) == 254
