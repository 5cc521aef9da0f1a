"""From an outcome to S3's answer: statuses, codes, fields and documents."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.s3.documents import escape
from gateway.dialects.s3.listing import unwrap_token, wrap_token
from gateway.model.outcome import Applied, Outcome, ReadFailed, ReadOk, Refused, Unknown
from gateway.model.problem import STATUS, Code, Problem
from gateway.model.reply import (
    BucketFound,
    Buckets,
    ListedObject,
    Listing,
    NotModified,
    ObjectDeleted,
    ObjectFound,
    ObjectMeta,
    ObjectPut,
    Relay,
    Rows,
)
from gateway.ports.dialect import Parsed, Reply
from tests.unit.dialects.s3.s3_requests import dialect, parsed, raw, signed

NS = "{http://s3.amazonaws.com/doc/2006-03-01/}"
ETAG = '"0123456789abcdef"'
WHEN_S = 1_700_000_000


def rendered(
    outcome: Outcome, known: Parsed | None = None, method: str = "GET", path: bytes = b"/bucket/k"
) -> tuple[Reply, dict[str, str]]:
    """Render; the fields as a dictionary, each name once."""
    reply = dialect().render(raw(method, path), known, outcome)
    fields = {name.decode(): value.decode("latin-1") for name, value in reply.fields}
    assert len(fields) == len(reply.fields)
    assert fields.pop("x-amz-request-id") == "r-1"
    return reply, fields


def document(reply: Reply) -> ET.Element:
    """Parse the body of an answer."""
    assert isinstance(reply.body, bytes)
    return ET.fromstring(reply.body)


async def answer(method: str, path: bytes, query: bytes, outcome: Outcome) -> tuple[Reply, dict]:
    """Parse a request, then render an outcome for it."""
    return rendered(outcome, await parsed(signed(method, path, query)), method, path)


# --- errors ---------------------------------------------------------------------------------------
S3_OWN = {
    Code.PRECONDITION_FAILED: "PreconditionFailed",
    Code.NOT_FOUND: "NoSuchBucket",
    Code.REQUEST_MALFORMED: "InvalidRequest",
    Code.REQUEST_TIMEOUT: "RequestTimeout",
    Code.BODY_TOO_LARGE: "EntityTooLarge",
    Code.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    Code.UNAUTHENTICATED: "AccessDenied",
    Code.ACCESS_DENIED: "AccessDenied",
    Code.CONDITION_UNSUPPORTED: "NotImplemented",
    Code.NOT_SATISFIABLE: "InvalidRange",
    Code.CONFLICT: "OperationAborted",
    Code.INTERNAL: "InternalError",
}


@pytest.mark.parametrize("code", Code)
def test_every_code_of_the_catalogue_has_its_answer(code: Code) -> None:
    """The fence's codes keep their names, S3's stand for what S3 knows; the status is kept."""
    reply, fields = rendered(Refused(Problem(code, "say <why> & how")))
    assert reply.status == STATUS[code]
    assert fields["content-type"] == "application/xml"
    assert fields["content-length"] == str(len(reply.body))
    root = document(reply)
    assert root.tag == "Error"
    assert root.findtext("Code") == S3_OWN.get(code, code.value)
    assert root.findtext("Message") == "say <why> & how"
    assert root.findtext("Resource") == "/bucket/k"
    assert root.findtext("RequestId") == "r-1"


def test_a_problems_own_code_and_status_win() -> None:
    """What the store or the dialect named itself is passed on."""
    problem = Problem(Code.NOT_FOUND, "gone", native="NoSuchUpload", status_override=418)
    for outcome in (Refused(problem), ReadFailed(problem), Unknown(problem)):
        reply, _ = rendered(outcome)
        assert (reply.status, document(reply).findtext("Code")) == (418, "NoSuchUpload")


async def test_a_missing_key_and_a_missing_bucket_differ() -> None:
    """Without a code from the store, the operation tells which one is missing."""
    gone = ReadFailed(Problem(Code.NOT_FOUND, "gone"))
    reply, _ = await answer("GET", b"/bucket/k", b"", gone)
    assert document(reply).findtext("Code") == "NoSuchKey"
    reply, _ = await answer("GET", b"/bucket", b"", gone)
    assert document(reply).findtext("Code") == "NoSuchBucket"


def test_what_else_an_error_carries() -> None:
    """Retry-After, Allow, details, and the wish to close."""
    problem = Problem(
        Code.BUSY,
        "later",
        retry_after_s=3,
        allow="GET",
        details="42 waiting",
        hint="wait",
        close=True,
    )
    reply, fields = rendered(Refused(problem))
    assert (fields["retry-after"], fields["allow"], reply.close) == ("3", "GET", True)
    assert document(reply).findtext("Details") == "42 waiting"
    assert document(reply).findtext("Hint") == "wait"
    assert not rendered(Refused(Problem(Code.BUSY, "later")))[0].close


def test_a_wrong_region_names_the_right_one() -> None:
    """SDKs read the region to sign for from this element."""
    problem = Problem(Code.UNAUTHENTICATED, "no", native="AuthorizationHeaderMalformed")
    assert document(rendered(Refused(problem))[0]).findtext("Region") == "us-east-1"


def test_head_errors_have_no_body() -> None:
    """An answer to HEAD ends with its fields."""
    reply, fields = rendered(ReadFailed(Problem(Code.NOT_FOUND, "gone")), method="HEAD")
    assert (reply.status, reply.body) == (404, b"")
    assert "content-length" not in fields


@given(path=st.binary(max_size=40), message=st.text(max_size=40))
def test_an_error_document_holds_whatever_a_request_held(path: bytes, message: str) -> None:
    """No path and no message breaks out of its element."""
    printable = "".join(c for c in message if c.isprintable())
    reply, _ = rendered(Refused(Problem(Code.BUSY, printable)), path=b"/" + path)
    root = document(reply)
    assert [child.tag for child in root] == ["Code", "Message", "Resource", "RequestId"]
    assert root.findtext("Message") == printable


# --- objects --------------------------------------------------------------------------------------
async def _chunks() -> AsyncIterator[bytes]:
    yield b"hello"


META = ObjectMeta(
    ETAG,
    5,
    WHEN_S,
    (
        ("content-type", "text/plain"),
        ("cache-control", "no-store"),
        ("x-amz-meta-color", "red"),
        ("x-amz-meta-fencegate", "v1.secret"),
        ("x-amz-acl", "private"),
        ("x-amz-tagging", "a=b"),
        ("x-amz-storage-class", "STANDARD_IA"),
    ),
    (
        ("x-amz-version-id", "v7"),
        ("x-amz-checksum-crc32", "AAAAAA=="),
        ("x-amz-id-2", "host"),
        ("server", "upstream"),
        ("connection", "close"),
        ("set-cookie", "a=b"),
    ),
)


async def test_an_object_is_answered_with_its_fields() -> None:
    """What belongs to the object comes back; the stamp and the store's own fields do not."""
    chunks = _chunks()
    reply, fields = rendered(ReadOk(ObjectFound(META, 5, chunks=chunks)))
    assert (reply.status, reply.body) == (200, chunks)
    assert fields == {
        "content-type": "text/plain",
        "cache-control": "no-store",
        "x-amz-meta-color": "red",
        "x-amz-storage-class": "STANDARD_IA",
        "x-amz-version-id": "v7",
        "x-amz-checksum-crc32": "AAAAAA==",
        "etag": ETAG,
        "last-modified": "Tue, 14 Nov 2023 22:13:20 GMT",
        "accept-ranges": "bytes",
        "content-length": "5",
    }


def test_a_range_is_answered_as_206() -> None:
    """Content-Range tells which part of what; the checksum of the whole stays away from it."""
    reply, fields = rendered(ReadOk(ObjectFound(META, 2, span=(1, 2, 5))))
    assert reply.status == 206
    assert (fields["content-range"], fields["content-length"]) == ("bytes 1-2/5", "2")
    assert "x-amz-checksum-crc32" not in fields


def test_head_has_the_objects_length_and_no_body() -> None:
    """Also for an object without a content type, which S3 calls binary/octet-stream."""
    found = ObjectFound(ObjectMeta(ETAG, 5, WHEN_S), 5)
    reply, fields = rendered(ReadOk(found), method="HEAD")
    assert (reply.status, reply.body, fields["content-length"]) == (200, b"", "5")
    assert fields["content-type"] == "binary/octet-stream"


async def test_overrides_replace_the_objects_fields() -> None:
    """response-* parameters win over what is stored, in answers that carry the object."""
    query = b"response-content-type=a%2Fb&response-expires=0"
    _, fields = await answer("GET", b"/bucket/k", query, ReadOk(ObjectFound(META, 5)))
    assert (fields["content-type"], fields["expires"]) == ("a/b", "0")
    assert fields["cache-control"] == "no-store"


def test_a_stored_value_cannot_split_an_answer() -> None:
    """A field value with a line break, or one that is no field text at all, is left out."""
    meta = ObjectMeta(ETAG, 0, WHEN_S, (("x-amz-meta-a", "b\r\nx: y"), ("x-amz-meta-c", "\u20ac")))
    _, fields = rendered(ReadOk(ObjectFound(meta, 0)))
    assert not any(name.startswith("x-amz-meta-") for name in fields)


def test_not_modified_is_fields_alone() -> None:
    """304 with the ETag."""
    reply, fields = rendered(ReadOk(NotModified(ETAG)))
    assert (reply.status, reply.body, fields) == (304, b"", {"etag": ETAG})


def test_a_write_is_answered_with_its_etag() -> None:
    """200 whether it was there before or not; of the store's fields those on the list."""
    extra = (("x-amz-version-id", "v8"), ("x-amz-meta-x", "y"), ("server", "z"))
    for created in (True, False):
        reply, fields = rendered(Applied(ObjectPut(ETAG, created, extra)), method="PUT")
        assert (reply.status, reply.body) == (200, b"")
        assert fields == {"etag": ETAG, "content-length": "0", "x-amz-version-id": "v8"}


def test_a_removal_is_204_whether_there_was_something_or_not() -> None:
    """S3 does not tell the difference."""
    for existed in (True, False):
        extra = (("x-amz-delete-marker", "true"),)
        reply, fields = rendered(Applied(ObjectDeleted(existed, extra)), method="DELETE")
        assert (reply.status, reply.body, fields) == (204, b"", dict(extra))


def test_a_relayed_answer_passes_through_the_allow_list() -> None:
    """Status and body as they are, fields only those known."""
    fields_in = (
        ("content-type", "application/xml"),
        ("retry-after", "1"),
        ("x-amz-meta-fencegate", "v1.secret"),
        ("content-length", "999"),
        ("transfer-encoding", "chunked"),
        ("server", "upstream"),
    )
    relay = Relay(503, fields_in, b"<Error/>")
    reply, fields = rendered(Applied(relay), method="PUT")
    assert (reply.status, reply.body) == (503, b"<Error/>")
    assert fields == {"content-type": "application/xml", "retry-after": "1", "content-length": "8"}
    reply, _ = rendered(ReadOk(relay), method="HEAD")
    assert reply.body == b""


def test_rows_are_no_answer_to_s3() -> None:
    """A store of the wrong kind is an internal error, not an empty success."""
    reply, _ = rendered(ReadOk(Rows("[]", 0)))
    assert (reply.status, document(reply).findtext("Code")) == (500, "InternalError")


# --- buckets and listings -------------------------------------------------------------------------
async def test_buckets_are_listed() -> None:
    """Names and creation times."""
    reply, fields = await answer("GET", b"/", b"", ReadOk(Buckets((("one", 0), ("two", WHEN_S)))))
    assert (reply.status, fields["content-type"]) == (200, "application/xml")
    found = document(reply).findall(f"{NS}Buckets/{NS}Bucket")
    assert [(b.findtext(f"{NS}Name"), b.findtext(f"{NS}CreationDate")) for b in found] == [
        ("one", "1970-01-01T00:00:00.000Z"),
        ("two", "2023-11-14T22:13:20.000Z"),
    ]


@pytest.mark.parametrize("region, text", [("us-east-1", None), ("eu-central-1", "eu-central-1")])
async def test_a_buckets_place(region: str, text: str | None) -> None:
    """HEAD names the region in a field, ?location in a document (empty for the oldest one)."""
    found = ReadOk(BucketFound(region))
    reply, fields = await answer("HEAD", b"/bucket", b"", found)
    assert (reply.status, reply.body, fields["x-amz-bucket-region"]) == (200, b"", region)
    reply, _ = await answer("GET", b"/bucket", b"location", found)
    root = document(reply)
    assert (root.tag, root.text) == (f"{NS}LocationConstraint", text)


ODD = "a b/<ü>&\"'+%\n\x01"
LISTING = Listing(
    "bucket", (ListedObject(ODD, ETAG, 5, WHEN_S),), prefixes=("p&/",), next_key="next/é"
)


async def test_a_listing_of_version_2() -> None:
    """Everything that was asked is repeated, keys are percent-encoded when asked for."""
    token = wrap_token("before")
    query = (
        b"list-type=2&prefix=a%20&delimiter=%2F&encoding-type=url&max-keys=2"
        b"&fetch-owner=true&continuation-token=" + token.encode()
    )
    reply, _ = await answer("GET", b"/bucket", query, ReadOk(LISTING))
    root = document(reply)
    flat = {child.tag.removeprefix(NS): child.text for child in root if not len(child)}
    assert unwrap_token(flat.pop("NextContinuationToken") or "") == "next/é"
    assert flat == {
        "Name": "bucket",
        "Prefix": "a%20",
        "ContinuationToken": token,
        "KeyCount": "2",
        "MaxKeys": "2",
        "Delimiter": "/",
        "EncodingType": "url",
        "IsTruncated": "true",
    }
    entry = root.find(f"{NS}Contents")
    assert entry is not None
    assert {child.tag.removeprefix(NS): child.text for child in entry if not len(child)} == {
        "Key": "a%20b/%3C%C3%BC%3E%26%22%27%2B%25%0A%01",
        "LastModified": "2023-11-14T22:13:20.000Z",
        "ETag": ETAG,
        "Size": "5",
    }
    assert entry.findtext(f"{NS}Owner/{NS}ID") == "fencegate"
    assert root.findtext(f"{NS}CommonPrefixes/{NS}Prefix") == "p%26/"


async def test_a_listing_of_version_1() -> None:
    """Marker and NextMarker, and no key count; the last page has no next marker."""
    query = b"marker=m&prefix=%26"
    plain = Listing("bucket", (ListedObject("<k>", ETAG, 5, WHEN_S),), next_key="<k>")
    reply, _ = await answer("GET", b"/bucket", query, ReadOk(plain))
    root = document(reply)
    flat = {child.tag.removeprefix(NS): child.text for child in root if not len(child)}
    assert flat == {
        "Name": "bucket",
        "Prefix": "&",
        "Marker": "m",
        "NextMarker": "<k>",
        "MaxKeys": "1000",
        "IsTruncated": "true",
    }
    assert root.findtext(f"{NS}Contents/{NS}Key") == "<k>"
    reply, _ = await answer("GET", b"/bucket", b"", ReadOk(Listing("bucket", ())))
    root = document(reply)
    assert (root.findtext(f"{NS}IsTruncated"), root.find(f"{NS}NextMarker")) == ("false", None)


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_a_continuation_token_gives_back_what_it_was_made_of(text: str) -> None:
    """Any next_key of a store survives the trip through the client."""
    token = wrap_token(text)
    assert unwrap_token(token) == text
    assert token.isascii()


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_escaped_text_is_text_again_for_a_parser(text: str) -> None:
    """No text opens or closes an element; what XML can hold is read back unchanged."""
    escaped = escape(text)
    assert not set("<>\"'") & set(escaped)
    possible = "".join(c for c in text if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff"))
    assert (ET.fromstring(f"<a>{escape(possible)}</a>").text or "") == possible
