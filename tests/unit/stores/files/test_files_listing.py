"""Pages of a bucket, against a plain model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.object_action import ListObjects
from gateway.model.reply import Listing
from gateway.stores.files.faults import Refusal
from gateway.stores.files.index import Row
from gateway.stores.files.listing import Query, behind, items, page, query_of

texts = st.text(st.sampled_from("ab/-\u00e9\U00010000"), max_size=6)
keys = st.lists(texts.filter(bool), unique=True, max_size=25)


def rows_of(stored: list[str]) -> tuple[list[bytes], object]:
    ordered = sorted(key.encode() for key in stored)

    def rows(start: bytes) -> Iterator[Row]:
        return (Row(key, '"e"', 1, 2) for key in ordered if key >= start)

    return ordered, rows


def model(stored: list[bytes], query: Query) -> list[bytes]:
    """Every key or common prefix once, in order, behind `after`."""
    shown: list[bytes] = []
    for key in stored:
        if not key.startswith(query.prefix) or key <= query.after:
            continue
        at = key.find(query.delimiter, len(query.prefix)) if query.delimiter else -1
        item = key if at < 0 else key[: at + len(query.delimiter)]
        if item not in shown and item != query.after:
            shown.append(item)
    return shown


@given(keys, texts, st.sampled_from(["", "/", "a", "-/", "\u00e9"]), texts)
def test_items_are_what_the_model_shows(
    stored: list[str], prefix: str, delimiter: str, after: str
) -> None:
    """Jumping over a prefix gives what looking at every key gives."""
    ordered, rows = rows_of(stored)
    query = Query(prefix.encode(), delimiter.encode(), after.encode(), 1000)
    found = [item.key if isinstance(item, Row) else item for item in items(query, rows)]  # type: ignore[arg-type]
    assert found == model(ordered, query)


@given(keys, texts, st.sampled_from(["", "/", "a"]), st.integers(1, 5), st.sampled_from([1, 2]))
def test_pages_add_up(
    stored: list[str], prefix: str, delimiter: str, size: int, version: int
) -> None:
    """Following the pages gives every item once, in order, and never an empty last page."""
    _, rows = rows_of(stored)
    fields = {"prefix": prefix, "delimiter": delimiter, "max-keys": str(size)}
    seen: list[str] = []
    while True:
        action = ListObjects("b", version, tuple(fields.items()))
        found: Listing = page(action, query_of(action), rows)  # type: ignore[arg-type]
        part = [entry.key for entry in found.objects] + list(found.prefixes)
        assert len(part) <= size
        seen += sorted(part, key=str.encode)
        if found.next_key is None:
            break
        assert len(part) == size
        fields["marker" if version == 1 else "continuation-token"] = found.next_key
    whole = ListObjects("b", version, (("prefix", prefix), ("delimiter", delimiter)))
    all_ = page(whole, query_of(whole), rows)  # type: ignore[arg-type]
    expected = [entry.key for entry in all_.objects] + list(all_.prefixes)
    assert seen == sorted(expected, key=str.encode)


def test_a_prefix_costs_one_look() -> None:
    """A million keys under one common prefix are jumped over, not read."""
    looks: list[bytes] = []

    def rows(start: bytes) -> Iterator[Row]:
        looks.append(start)
        for number in range(1_000_000):
            key = b"big/%06d" % number
            if key >= start:
                yield Row(key, '"e"', 1, 2)
            elif start > b"big/999999":
                break

    query = Query(b"", b"/", b"", 1000)
    assert list(items(query, rows)) == [b"big/"]
    assert looks == [b"", b"big0"]


@pytest.mark.parametrize(
    "version, fields, after, limit",
    [
        (1, {}, b"", 1000),
        (1, {"marker": "m", "start-after": "s"}, b"m", 1000),
        (2, {"marker": "m", "start-after": "s"}, b"s", 1000),
        (2, {"start-after": "s", "continuation-token": "YQ=="}, b"a", 1000),
        (1, {"marker": "m", "continuation-token": "YQ=="}, b"m", 1000),
        (2, {"max-keys": "0"}, b"", 0),
        (2, {"max-keys": "1001"}, b"", 1000),
        (2, {"max-keys": ""}, b"", 1000),
        (2, {"fetch-owner": "true", "encoding-type": "url"}, b"", 1000),
    ],
)
def test_queries(version: int, fields: dict[str, str], after: bytes, limit: int) -> None:
    """Each version reads its own parameters; the token of a page comes before start-after."""
    query = query_of(ListObjects("b", version, tuple(fields.items())))
    assert (query.after, query.limit) == (after, limit)


@pytest.mark.parametrize(
    "fields",
    [
        {"max-keys": "-1"},
        {"max-keys": "1e3"},
        {"max-keys": "\u0661"},
        {"max-keys": "9" * 10},
        {"continuation-token": "%%"},
        {"continuation-token": "YQ="},
        {"continuation-token": "\u00e9"},
    ],
)
def test_bad_queries(fields: dict[str, str]) -> None:
    """What is no number or no token of ours is S3's InvalidArgument."""
    with pytest.raises(Refusal) as refused:
        query_of(ListObjects("b", 2, tuple(fields.items())))
    assert refused.value.problem.native == "InvalidArgument"


def test_behind() -> None:
    """The successor is above all that begin with the text, and nothing lies between."""
    assert behind(b"a/") == b"a0"
    assert behind("\U0010ffff".encode()) > "\U0010ffff\U0010ffff".encode()
