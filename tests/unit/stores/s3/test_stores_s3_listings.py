"""Listings: the store's XML read into values, and strange documents refused."""

from __future__ import annotations

import pytest

from gateway.model.object_action import ListObjects
from gateway.model.problem import Code, Problem
from gateway.model.reply import ListedObject
from gateway.stores.s3.listings import (
    BadDocument,
    parse_document,
    read_buckets,
    read_listing,
    read_location,
    unix_s,
    upstream_query,
)

NS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
PAGE = f"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult {NS}><Name>b</Name><EncodingType>url</EncodingType>
<IsTruncated>true</IsTruncated>%s
<Contents><Key>a+b%%2Bc/%%C3%%BC</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified>
<ETag>&quot;e1&quot;</ETag><Size>12345678901</Size><StorageClass>COLD</StorageClass></Contents>
<CommonPrefixes><Prefix>z/</Prefix></CommonPrefixes></ListBucketResult>"""


def test_page_of_version_2() -> None:
    """Keys are decoded once, tags keep their quotes, the next page is the store's own token."""
    raw = (PAGE % "<NextContinuationToken>1/+==</NextContinuationToken>").encode()
    listing = read_listing(raw, ListObjects("b", 2))
    assert listing.bucket == "b"
    assert listing.objects == (ListedObject("a b+c/ü", '"e1"', 12_345_678_901, 1_767_323_045),)
    assert listing.prefixes == ("z/",)
    assert listing.next_key == "1/+=="


def test_page_of_version_1() -> None:
    """The next page starts behind NextMarker, or behind the last key or prefix where none is."""
    action = ListObjects("b", 1)
    assert read_listing((PAGE % "<NextMarker>m+m</NextMarker>").encode(), action).next_key == "m m"
    assert read_listing((PAGE % "").encode(), action).next_key == "z/"


def test_last_page() -> None:
    """No next page without IsTruncated, and none after an empty one; raw keys stay raw."""
    raw = f"<ListBucketResult {NS}><IsTruncated>false</IsTruncated></ListBucketResult>".encode()
    assert read_listing(raw, ListObjects("b", 2)).next_key is None
    empty = b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"
    assert read_listing(empty, ListObjects("b", 2)).next_key is None
    plain = (
        b"<ListBucketResult><Contents><Key>a+%41</Key><Size>1</Size></Contents></ListBucketResult>"
    )
    assert read_listing(plain, ListObjects("b", 2)).objects[0].key == "a+%41"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html></html>",
        b"<ListBucketResult>",
        b"not xml",
        b'<!DOCTYPE x [<!ENTITY a "b">]><ListBucketResult>&a;</ListBucketResult>',
        b"<a>" * 40,
        b"<ListBucketResult><Contents><Key>k</Key><Size>-1</Size></Contents></ListBucketResult>",
        (PAGE % "").encode(),
    ],
    ids=["empty", "html", "cut", "text", "doctype", "deep", "size", "no token"],
)
def test_strange_documents(raw: bytes) -> None:
    """What is no listing is refused, and nothing in it is expanded."""
    with pytest.raises(BadDocument):
        read_listing(raw, ListObjects("b", 2))


def test_buckets_and_location() -> None:
    """Buckets with their times; an empty location is us-east-1."""
    raw = (
        b"<ListAllMyBucketsResult><Owner><ID>x</ID></Owner><Buckets><Bucket><Name>one</Name>"
        b"<CreationDate>1970-01-01T00:00:07Z</CreationDate></Bucket></Buckets>"
        b"</ListAllMyBucketsResult>"
    )
    assert read_buckets(raw).names == (("one", 7),)
    assert read_location(f"<LocationConstraint {NS}/>".encode()) == "us-east-1"
    assert read_location(b"<LocationConstraint>eu-west-1</LocationConstraint>") == "eu-west-1"
    with pytest.raises(BadDocument):
        read_location(b"<Other/>")


def test_queries() -> None:
    """max-keys is checked and cut; keys are asked for percent-encoded."""
    asked = upstream_query(ListObjects("b", 2, (("prefix", "p"), ("max-keys", "5000"))))
    assert not isinstance(asked, Problem)
    assert dict(asked) == {
        "prefix": "p",
        "max-keys": "1000",
        "encoding-type": "url",
        "list-type": "2",
    }
    assert "list-type" not in dict(upstream_query(ListObjects("b", 1)))  # type: ignore[call-overload]
    for wrong in ("-1", "x", "1.5", "٣"):
        problem = upstream_query(ListObjects("b", 1, (("max-keys", wrong),)))
        assert isinstance(problem, Problem)
        assert (problem.code, problem.native) == (Code.REQUEST_MALFORMED, "InvalidArgument")


def test_times_and_text() -> None:
    """A time that is none is 0; text in pieces is one text."""
    assert unix_s("2026-13-45T99:99:99Z") == unix_s("yesterday") == unix_s("") == 0
    assert parse_document(b"<a>x &amp; <![CDATA[y]]></a>").text == "x & y"
