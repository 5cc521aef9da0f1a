"""File names of URL paths: decoded for people, and one file for one canonical path."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.model.problem import Code
from gateway.policy.pattern import normal_path
from gateway.stores.files.faults import Refusal
from gateway.stores.files.tree_paths import place_of

BARE = "ABCxyz0189-._~!$&'()*+,;=:@{|}\"<>^`[]?#\\"
pieces = st.sampled_from([*BARE, *(f"%{byte:02X}" for byte in range(256))]) | st.sampled_from(
    ["%25", "%2525", "%21", "!", "21", "%c3%a4", "%C3%A4", "/"]
)
paths = st.lists(pieces, min_size=1, max_size=8).map("".join)


@pytest.mark.parametrize(
    "key, names",
    [
        ("a.txt", (b"a.txt",)),
        ("reports/a/q1.csv", (b"reports", b"a", b"q1.csv")),
        ("two%20words", (b"two words",)),
        ("%C3%BCber", ("über".encode(),)),
        ("%c3%bcber", ("über".encode(),)),
        ("a!b", (b"a!b",)),
        ("a%21b", (b"a!b",)),
        ("100%25", (b"100%",)),
        ("%2521", (b"%21",)),
        ("%2541", (b"%41",)),
        ("q%3Fx%23y", (b"q?x#y",)),
        ("...", (b"...",)),
        ("a+b", (b"a+b",)),
    ],
)
def test_names(key: str, names: tuple[bytes, ...]) -> None:
    """Each escape is decoded once, and nothing else is changed."""
    assert place_of(key).names == names


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
        "a/%2E./b",
        "a%2Fb",
        "..%2f..%2fetc",
        "nul%00",
        "a b",
        "ü",
        "a%",
        "a%2",
        "a%zz",
        "a\nb",
        "a\0b",
        "a\udcffb",
        "x" * 256,
        "%C3%BC" * 128,
        ".fencegate",
        "%2Efencegate",
        ".fencegate/tmp/x",
        "a/.fencegate-x",
    ],
)
def test_refused(key: str) -> None:
    """What no file can be is refused with the reason, in whatever spelling it comes."""
    with pytest.raises(Refusal) as refused:
        place_of(key)
    assert refused.value.problem.code is Code.CONFLICT
    assert "cannot hold" in refused.value.problem.message


@given(paths, paths)
def test_one_file_has_one_canonical_path(one: str, other: str) -> None:
    """Two paths name one file exactly if their canonical forms, and so their scopes, are one."""
    try:
        places = place_of(one), place_of(other)
    except Refusal:
        assume(False)
        return
    assert (places[0] == places[1]) == (normal_path(one) == normal_path(other))


@given(paths)
def test_its_canonical_form_names_the_same_file(path: str) -> None:
    """The canonical form is one of the spellings of the path."""
    try:
        place = place_of(path)
    except Refusal:
        assume(False)
        return
    assert place_of(normal_path(path)) == place


@given(paths)
def test_no_name_leads_elsewhere(path: str) -> None:
    """No name is empty, dots, has a slash or NUL, is too long, or the gateway's own."""
    try:
        names = place_of(path).names
    except Refusal:
        return
    assert len(names) == path.count("/") + 1
    for name in names:
        assert name not in (b"", b".", b"..")
        assert not set(name) & set(b"/\0")
        assert len(name) <= 255
        assert not name.startswith(b".fencegate")


def test_the_longest_name_fits() -> None:
    """255 bytes are allowed, counted as they lie on the disk."""
    assert place_of("x" * 255).names == (b"x" * 255,)
    assert len(place_of("%C3%BC" * 127).names[0]) == 254
