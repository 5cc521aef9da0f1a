"""Laws of patterns, captures and scope names."""

from __future__ import annotations

import re
from itertools import product
from urllib.parse import quote

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gateway.policy.pattern import (
    MAX_SCOPE_BYTES,
    Capture,
    Literal,
    Pattern,
    PatternError,
    Template,
    bounded_scope,
    covers,
    normal_path,
    parse_pattern,
    parse_template,
)

VALUE = st.text(min_size=1, max_size=6).filter(
    lambda s: not any(0xD800 <= ord(c) < 0xE000 for c in s)
)
VALUES = st.tuples(VALUE, VALUE, st.lists(VALUE, max_size=3).map("/".join))
TEMPLATES = ["t/{a}/{b}/{rest*}", "{a}/{b}", "{b}-x/{a}", "{a}/{rest*}/{b}", "n{rest*}", "{a}/{a}"]
PATTERN = parse_pattern("/s/{a}/{b}/{rest*}")


def spelled(values: tuple[str, str, str], more: str) -> str:
    """Spell a path: one-segment values with their slashes escaped, `more` left bare or not."""
    one, two, rest = values
    segments = [quote(one, safe=more), quote(two, safe=more)]
    return "/s/" + "/".join([*segments, *(quote(r, safe=more) for r in rest.split("/"))])


def expand(template: Template, route: str) -> str:
    found = re.fullmatch(PATTERN.expression(), normal_path(route), re.DOTALL)
    assert found is not None
    return bounded_scope(template.expand(found.groups()))


def used(text: str, values: tuple[str, str, str]) -> tuple[str, ...]:
    names = ("{a}", "{b}", "{rest*}")
    return tuple(v for name, v in zip(names, values, strict=True) if name in text)


@given(one=VALUES, two=VALUES, text=st.sampled_from(TEMPLATES))
@example(one=("x/y", "z", ""), two=("x", "y/z", ""), text="{a}/{b}")
@example(one=("%2F", "z", ""), two=("/", "z", ""), text="{a}/{b}")
def test_different_captures_never_share_a_scope(
    one: tuple[str, str, str], two: tuple[str, str, str], text: str
) -> None:
    """Scopes are equal exactly when every capture in them is."""
    template = parse_template(text, PATTERN)
    same = expand(template, spelled(one, "")) == expand(template, spelled(two, ""))
    assert same == (used(text, one) == used(text, two))


def test_captures_without_a_slash_between_them_are_refused_because_they_collide() -> None:
    """The rule on templates is needed: without it two paths would share a scope."""
    with pytest.raises(PatternError, match="two captures"):
        parse_template("{a}-{b}", PATTERN)
    unchecked = Template((0, "-", 1))
    assert expand(unchecked, "/s/x-y/z/") == expand(unchecked, "/s/x/y-z/")


@given(values=VALUES, text=st.sampled_from(TEMPLATES))
def test_two_spellings_of_one_path_have_one_scope(values: tuple[str, str, str], text: str) -> None:
    """What may stand bare or escaped in a path makes no difference to its scope."""
    template = parse_template(text, PATTERN)
    assert expand(template, spelled(values, "")) == expand(
        template, spelled(values, "!$&'()*+,;=:@")
    )


@given(values=VALUES, text=st.sampled_from(TEMPLATES))
def test_scopes_keep_to_their_alphabet_and_length(values: tuple[str, str, str], text: str) -> None:
    """A scope is ASCII, has no colon (default scopes have one), and at most 512 bytes."""
    scope = expand(parse_template(text, PATTERN), spelled(values, ""))
    assert re.fullmatch(r"[A-Za-z0-9._~/%-]+", scope)
    assert len(scope) <= MAX_SCOPE_BYTES


@given(st.text(max_size=900), st.text(max_size=900), st.text(max_size=900))
def test_long_scopes_stay_apart(prefix: str, one: str, two: str) -> None:
    """Scopes over the limit are told apart by a digest, and stay within the limit."""
    assume(one != two)
    first, second = bounded_scope(prefix + one), bounded_scope(prefix + two)
    assert first != second
    assert len(first.encode("utf-8", "surrogatepass")) <= MAX_SCOPE_BYTES


def test_a_name_that_looks_like_a_digest_cannot_take_its_place() -> None:
    """Nobody can name a resource so that it lands in the scope of a long one."""
    digest = bounded_scope("x" * 600)
    assert len(digest) == MAX_SCOPE_BYTES
    assert bounded_scope(digest) != digest
    assert bounded_scope("y" * 512) == "y" * 512


def test_a_rest_may_be_empty_but_not_its_slash() -> None:
    """`{x*}` is all behind the slash before it, nothing included; `{x}` is never empty."""
    matches = {
        path: re.fullmatch(parse_pattern("/a/{x*}").expression(), path) is not None
        for path in ("/a", "/a/", "/a/b", "/a/b/c")
    }
    assert matches == {"/a": False, "/a/": True, "/a/b": True, "/a/b/c": True}
    assert re.fullmatch(parse_pattern("/a/{x}").expression(), "/a/") is None


@pytest.mark.parametrize(
    "text, told",
    [
        ("a/{x}", 'starts with "/"'),
        ("/a?x=1", "the query is no part"),
        ("/a//b", "empty segment"),
        ("/{x}/{x}", "stands twice"),
        ("/{x*}/b", "must be the last"),
        ("/{x}.json", "a capture is a whole segment"),
        ("/{X}", "lower-case"),
        ("/{x", "whole segment"),
        ("/a/*", "write {name} for one segment"),
        ("/a/%2", "two hex digits"),
    ],
)
def test_a_wrong_pattern_is_told_what_to_write(text: str, told: str) -> None:
    """Every way to get a pattern wrong has an answer that names the right form."""
    with pytest.raises(PatternError, match=re.escape(told)):
        parse_pattern(text)


@pytest.mark.parametrize(
    "text, told",
    [
        ("{z}", "not captured by match, which has {a}, {b}, {rest}"),
        ("{a*}", "write {a}"),
        ("a:b", "letters, digits"),
        ("a b", "letters, digits"),
        ("x{", "a capture is written"),
        ("{rest*}", "can be empty"),
        ("a" * 513, "at most 512 bytes"),
    ],
)
def test_a_wrong_scope_is_told_what_to_write(text: str, told: str) -> None:
    """Every way to get a scope wrong has an answer that names the right form."""
    with pytest.raises(PatternError, match=re.escape(told)):
        parse_template(text, PATTERN)


def test_literals_match_in_every_spelling() -> None:
    """A pattern may be written bare or escaped; both match both."""
    assert (
        parse_pattern("/a b/ü") == parse_pattern("/a%20b/%C3%BC") == parse_pattern("/a%20b/%c3%bc")
    )


SEGMENTS = (Literal("a"), Literal("b"), Capture("x"))
TAILS = (Literal("a"), Capture("y"), Capture("z", rest=True), Literal(""))
PATTERNS = [
    Pattern((*head, tail))
    for n in range(3)
    for head in product(SEGMENTS, repeat=n)
    for tail in TAILS
]
PATHS = ["/" + "/".join(parts) for n in range(1, 5) for parts in product(("a", "c", ""), repeat=n)]
MATCHES = {
    pattern: {path for path in PATHS if re.fullmatch(pattern.expression(), path)}
    for pattern in PATTERNS
}


def test_a_pattern_that_covers_another_matches_all_of_its_paths() -> None:
    """`covers` never claims too much: a rule that is called dead really is."""
    pairs = [(wide, narrow) for wide, narrow in product(PATTERNS, PATTERNS) if covers(wide, narrow)]
    assert len(pairs) > len(PATTERNS)
    assert [pair for pair in pairs if not MATCHES[pair[0]] >= MATCHES[pair[1]]] == []


def test_the_prefix_is_one_of_every_match() -> None:
    """The quick look at the prefix never skips a rule that matches."""
    matches = [(pattern, path) for pattern, paths in MATCHES.items() for path in paths]
    assert all(path.startswith(pattern.prefix) for pattern, path in matches)
