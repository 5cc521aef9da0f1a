"""Canonical paths: one thing has one name, the bytes stay, what is ambiguous is refused."""

from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.dialects.plain_path import PlainPath, is_directory, plain_path
from gateway.model.problem import Code, Problem
from gateway.stores.files.faults import Refusal
from gateway.stores.files.tree_paths import place_of

BARE = "ABCyz019-._~!$&'()*+,;=:@"
CHARS = st.one_of(
    st.sampled_from(BARE),
    st.sampled_from('/{}|^"<>[]`\\'),
    st.integers(0, 255).map(lambda byte: f"%{byte:02x}"),
    st.integers(0, 255).map(lambda byte: f"%{byte:02X}"),
)
PATHS = st.lists(CHARS, min_size=1, max_size=8).map(lambda parts: "/" + "".join(parts))


# Few pieces, so that two paths often mean the same thing.
FEW = ["a", "+", "%2B", "%2b", "/b", "%2F", "%2f", "%c3", "%C3", "!", "%21", "%25", "%252B"]
NEAR = st.lists(st.sampled_from(FEW), max_size=3).map(lambda parts: "/k" + "".join(parts))


def read(path: str) -> PlainPath:
    found = plain_path(path.encode("ascii"))
    assert isinstance(found, PlainPath)
    return found


def read_if_valid(path: str) -> PlainPath:
    """For generated paths: those that are refused are skipped."""
    assume(isinstance(plain_path(path.encode("ascii")), PlainPath))
    return read(path)


@given(PATHS)
def test_the_bytes_stay(path: str) -> None:
    """What is passed on is what came, without the slash in front."""
    assert "/" + read_if_valid(path).raw == path


@given(PATHS)
def test_the_canonical_name_is_its_own(path: str) -> None:
    """The name of a name is itself, and is never refused unless it must gain escapes."""
    canonical = read_if_valid(path).canonical
    again = plain_path(("/" + canonical).encode("ascii"))
    assert isinstance(again, PlainPath)
    assert again.canonical == canonical


@given(PATHS)
def test_another_spelling_has_the_same_name(path: str) -> None:
    """Hex digits in the other case, reserved characters escaped or bare: one name."""
    canonical = read_if_valid(path).canonical
    for spelling in (respell(path, str.upper), respell(path, str.lower), escape_reserved(path)):
        assert read(spelling).canonical == canonical


def respell(path: str, case: object) -> str:
    parts = path.split("%")
    change = case if callable(case) else str
    return "%".join([parts[0], *(change(part[:2]) + part[2:] for part in parts[1:])])


def escape_reserved(path: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in "!$&'()*+,;=:@{}|^\"<>[]`" else c for c in path)


@given(NEAR, NEAR)
def test_same_name_is_same_path_once_decoded(one: str, two: str) -> None:
    """For an origin that decodes once: one thing, one name; other names, other things.

    An escaped slash stays apart from a bare one: an origin that takes them for the same would see
    `a%2Fb` in two scopes, so such a store refuses the escape.
    """
    first, second = read_if_valid(one), read_if_valid(two)
    decoded = [
        unquote_to_bytes(path.raw.replace("%2f", "%2F").replace("%2F", "%252F"))
        for path in (first, second)
    ]
    assert (first.canonical == second.canonical) == (decoded[0] == decoded[1])


@given(NEAR, NEAR)
def test_one_file_has_one_scope(one: str, two: str) -> None:
    """For the files store: two spellings of one file never have two names."""
    first, second = read_if_valid(one), read_if_valid(two)
    try:
        places = [place_of(path.raw).names for path in (first, second)]
    except Refusal:
        return
    if places[0] == places[1]:
        assert first.canonical == second.canonical


def test_that_law_can_fail() -> None:
    """Negative control: the raw path as a name gives one file two names."""
    assert place_of("%c3%a9").names == place_of("%C3%A9").names
    assert read("/%c3%a9").raw != read("/%C3%A9").raw
    assert read("/%c3%a9").canonical == read("/%C3%A9").canonical


UNRESERVED = "ABCXYZabcxyz0189-._~"


@pytest.mark.parametrize("char", UNRESERVED)
@pytest.mark.parametrize("form", ["%{:02x}", "%{:02X}"])
def test_an_escape_without_need_is_refused(char: str, form: str) -> None:
    """Every unreserved byte has one spelling; the message tells it."""
    problem = plain_path(("/a" + form.format(ord(char))).encode())
    assert isinstance(problem, Problem)
    assert f'"{char}"' in problem.message


def test_all_other_escapes_are_accepted() -> None:
    """256 bytes: unreserved ones, NUL and the backslash are refused, all others kept."""
    accepted = {b for b in range(256) if isinstance(plain_path(b"/a%%%02X" % b), PlainPath)}
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
    assert accepted == set(range(256)) - set(letters) - {0, ord("\\")}


@pytest.mark.parametrize(
    "path",
    [
        "//",
        "/a//b",
        "/a/",
        "/.",
        "/..",
        "/./a",
        "/a/../b",
        "/a/..",
        "/a\\b",
        "/a%5cb",
        "/a%5Cb",
        "/a%2F%2Fb",
        "/a/%2Fb",
        "/a%2F/b",
        "/%2Fa",
        "/..%2Fa",
        "/a%2f..%2fb",
        "/%2e%2e/a",
        "/.%2E/a",
        "/a%00",
    ],
)
def test_refused(path: str) -> None:
    """Dot segments, empty segments, backslashes, NUL, in any spelling (a last slash: not here)."""
    found = plain_path(path.encode())
    if path == "/a/":
        assert isinstance(found, PlainPath)
        assert is_directory(found)
        return
    assert isinstance(found, Problem)
    assert found.code is Code.REQUEST_MALFORMED


@pytest.mark.parametrize("path", ["/.hidden", "/a.", "/...", "/a/.b", "/a..b", "/a%2Fb", "/a:b"])
def test_dots_within_names_are_names(path: str) -> None:
    """Only whole segments of one or two dots mean something else."""
    assert isinstance(plain_path(path.encode()), PlainPath)


@pytest.mark.parametrize(
    "path, directory",
    [("", True), ("/", True), ("/a/", True), ("/a%2F", True), ("/a", False), ("/a%2Fb", False)],
)
def test_directories(path: str, directory: bool) -> None:
    """The mount itself and what ends in a slash, escaped or not."""
    assert is_directory(read(path)) is directory
