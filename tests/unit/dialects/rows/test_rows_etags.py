"""Versions as entity tags."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.rows.etags import (
    etag_of,
    judge_read,
    version_of,
    versions_of,
    weak_versions_of,
)
from gateway.model.conditions import Conditions
from gateway.model.problem import Problem
from gateway.model.reply import NotModified


@given(st.integers(-(2**62), 2**62))
def test_round_trip(version: int) -> None:
    """A tag is read back as the version it was written from."""
    assert version_of(etag_of(version)) == version


@pytest.mark.parametrize("tag", ['W/"1"', '"01"', '"-0"', '"+1"', '"x"', '""', "1", '"1" '])
def test_tags_that_no_row_has(tag: str) -> None:
    """A weak tag, or one that is not as the gateway writes it, matches nothing."""
    assert version_of(tag) is None


def test_lists() -> None:
    """If-Match compares strongly, If-None-Match weakly."""
    tags = ('"1"', 'W/"2"', '"x"')
    assert versions_of(tags) == (1,)
    assert weak_versions_of(tags) == (1, 2)


@pytest.mark.parametrize(
    "conditions,version,status",
    [
        (Conditions(), 1, 200),
        (Conditions(), None, 200),
        (Conditions(if_match=("*",)), 1, 200),
        (Conditions(if_match=("*",)), None, 412),
        (Conditions(if_match=('"1"', '"2"')), 2, 200),
        (Conditions(if_match=('"1"',)), 2, 412),
        (Conditions(if_match=('W/"2"',)), 2, 412),
        (Conditions(if_none_match=("*",)), 1, 304),
        (Conditions(if_none_match=("*",)), None, 200),
        (Conditions(if_none_match=('W/"1"',)), 1, 304),
        (Conditions(if_none_match=('"2"',)), 1, 200),
        (Conditions(if_match=('"2"',), if_none_match=('"1"',)), 1, 412),
        (Conditions(if_match=('"1"',), if_none_match=('"1"',)), 1, 304),
    ],
)
def test_reads(conditions: Conditions, version: int | None, status: int) -> None:
    """If-Match is judged before If-None-Match (RFC 9110 section 13.2.2)."""
    found = judge_read(conditions, version)
    match found:
        case None:
            assert status == 200
        case NotModified(etag):
            assert (status, etag) == (304, f'"{version}"')
        case Problem():
            assert found.status == status
