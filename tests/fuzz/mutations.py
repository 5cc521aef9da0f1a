"""Bytes for the laws: pieces put together, and corpora cut, spliced and damaged."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import HealthCheck
from hypothesis import strategies as st

from tests.fuzz import seeds

Bytes = st.SearchStrategy[bytes]
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
"""What hypothesis need not say of these strategies."""

_ENDS = st.sampled_from([b"\r\n"] * 12 + [b"\n", b"\r", b"\r\n\r\n", b"\r\n "])


@st.composite
def damaged(draw: st.DrawFn, corpus: Sequence[bytes], inserts: Sequence[bytes]) -> bytes:
    """A seed with up to four changes: bytes set, cut out or put in, another seed's end."""
    data = draw(st.sampled_from(corpus))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 3)):
            case 0:
                data = data[:at] + draw(st.binary(min_size=1, max_size=2)) + data[at + 1 :]
            case 1:
                data = data[:at] + data[at + draw(st.integers(1, 8)) :]
            case 2:
                data = data[:at] + draw(st.sampled_from(inserts)) + data[at:]
            case _:
                other = draw(st.sampled_from(corpus))
                data = data[:at] + other[draw(st.integers(0, len(other))) :]
    return data


@st.composite
def composed(draw: st.DrawFn) -> bytes:
    """A message out of a request line, fields and a body that need not fit."""
    parts = [draw(st.sampled_from(seeds.LINES[:3] * 6 + seeds.LINES)), draw(_ENDS)]
    if draw(st.integers(0, 9)):
        parts += [b"Host: h", b"\r\n"]
    for field in draw(st.lists(st.sampled_from(seeds.FIELDS), max_size=4)):
        parts += [field, draw(_ENDS)]
    parts += [b"\r\n", draw(st.sampled_from(seeds.BODIES))]
    return b"".join(parts)


def joined(piece: Bytes, count: int) -> Bytes:
    """Pieces with NULs between them."""
    return st.lists(piece, min_size=1, max_size=count).map(b"\0".join)


heads = st.one_of(
    composed(),
    st.lists(composed(), min_size=2, max_size=3).map(b"".join),
    damaged(seeds.HEADS, [f + b"\r\n" for f in seeds.FIELDS] + seeds.BODIES),
)
tokens = damaged(seeds.TOKENS, seeds.TOKENS)
paths = st.lists(st.sampled_from([*seeds.PATHS, b"/", b"/", b".", b"%2f", b"%"]), max_size=5).map(
    b"".join
)
targets = st.one_of(damaged(seeds.TARGETS, seeds.PATHS), joined(paths, 2))
patterns = st.one_of(
    damaged(seeds.PATTERNS, [b"{c}", b"{c*}", b"/", b"%2F", b"\0"]),
    paths.map(lambda path: b"/{a}/{b*}\0s/{a}/{b*}\0/" + path + b"\0/p/q"),
)
credentials = damaged(seeds.CREDENTIALS, [b"/", b",", b"=", b";", b"\0", b"&", b"%00"])
signed = st.one_of(damaged(seeds.SIGNED, [b"%2F", b"=", b"&", b"+", b"%"]), joined(paths, 5))


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """A policy with lines left out, doubled, replaced or put in; or damaged within a line."""
    lines = draw(st.sampled_from(seeds.DOCUMENTS)).splitlines()
    lines = [line for line in lines if line.strip() and not line.startswith(b"#")]
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        new = draw(st.sampled_from(seeds.POLICY_LINES))
        lines[at : at + draw(st.integers(0, 1))] = draw(
            st.sampled_from([[new], [lines[at], new], []])
        )
    data = b"\n".join(lines)
    return draw(damaged([data], seeds.POLICY_LINES)) if draw(st.booleans()) else data
