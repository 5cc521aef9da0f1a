"""The allow-list of operations, and the table of body forms, cell by cell."""

from __future__ import annotations

import itertools
import re

import pytest

from gateway.dialects.s3.credentials import Auth
from gateway.dialects.s3.operations import Name, classify
from gateway.dialects.s3.payload import ACCEPTED, Payload, accepts, read_payload
from gateway.dialects.s3.refused import RefusedError
from gateway.dialects.s3.target import Target
from gateway.model.problem import Code
from tests.unit.dialects.s3.s3_requests import parsed, problem, raw, signed

OBJECT = Target("bucket", "key", "bucket/key")
BUCKET = Target("bucket", "", "bucket")
SERVICE = Target("", "", "")

KNOWN = [
    ("PUT", OBJECT, [], [], Name.PUT_OBJECT),
    ("PUT", OBJECT, [(b"x-id", b"PutObject")], [b"x-amz-meta-a", b"x-amz-acl"], Name.PUT_OBJECT),
    ("GET", OBJECT, [], [b"x-amz-checksum-mode"], Name.GET_OBJECT),
    ("GET", OBJECT, [(b"response-content-type", b"a/b")], [], Name.GET_OBJECT),
    ("HEAD", OBJECT, [], [], Name.HEAD_OBJECT),
    ("DELETE", OBJECT, [(b"x-id", b"DeleteObject")], [], Name.DELETE_OBJECT),
    ("GET", BUCKET, [], [], Name.LIST_OBJECTS),
    ("GET", BUCKET, [(b"prefix", b"a"), (b"marker", b"b")], [], Name.LIST_OBJECTS),
    ("GET", BUCKET, [(b"list-type", b"2"), (b"fetch-owner", b"true")], [], Name.LIST_OBJECTS_V2),
    ("GET", BUCKET, [(b"location", b"")], [], Name.GET_BUCKET_LOCATION),
    ("HEAD", BUCKET, [], [], Name.HEAD_BUCKET),
    ("GET", SERVICE, [(b"x-id", b"ListBuckets")], [], Name.LIST_BUCKETS),
]

# The rest of S3, by the query keys and fields of its API reference.
SUBRESOURCES = re.findall(
    r"\S+",
    "accelerate acl analytics annotation attributes cors delete encryption intelligent-tiering "
    "inventory legal-hold lifecycle logging metadataConfiguration metrics notification "
    "object-lock ownershipControls partNumber policy policyStatus publicAccessBlock renameObject "
    "replication requestPayment restore retention select session tagging torrent uploadId uploads "
    "versionId versioning versions website unheard-of",
)
METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "BREW")


@pytest.mark.parametrize("method, target, query, fields, name", KNOWN)
def test_the_operations_of_the_dialect_are_known(
    method: str, target: Target, query: list[tuple[bytes, bytes]], fields: list[bytes], name: Name
) -> None:
    """Each operation is recognised, with what an SDK adds to it."""
    assert classify(method, target, query, fields) is name


@pytest.mark.parametrize("key", SUBRESOURCES)
def test_every_other_subresource_is_refused(key: str) -> None:
    """A query key that is not listed turns the request into one we do not fence: 501."""
    for method, target in itertools.product(METHODS, (OBJECT, BUCKET, SERVICE)):
        with pytest.raises(RefusedError) as caught:
            classify(method, target, [(key.encode(), b"")], [])
        assert caught.value.problem.code is Code.NOT_FENCED
        assert caught.value.problem.status == 501


@pytest.mark.parametrize(
    "method, target",
    [
        pair
        for pair in itertools.product(METHODS, [OBJECT, BUCKET, SERVICE])
        if pair not in [(method, target) for method, target, *_ in KNOWN]
    ],
)
def test_every_other_method_is_refused(method: str, target: Target) -> None:
    """Bucket writes, POST and unknown methods are refused: 501."""
    with pytest.raises(RefusedError) as caught:
        classify(method, target, [], [])
    assert caught.value.problem.code is Code.NOT_FENCED


@pytest.mark.parametrize(
    "field",
    [
        b"x-amz-copy-source",
        b"x-amz-copy-source-if-match",
        b"x-amz-write-offset-bytes",
        b"x-amz-rename-source",
        b"x-amz-if-match-size",
        b"x-amz-mfa",
        b"x-amz-bypass-governance-retention",
        b"x-amz-object-lock-mode",
        b"x-amz-server-side-encryption-customer-key",
        b"x-amz-grant-write",
        b"x-amz-expected-bucket-owner",
        b"x-amz-unheard-of",
        b"x-goog-copy-source",
        b"cf-copy-destination-if-match",
    ],
)
def test_a_field_that_changes_the_operation_is_refused(field: bytes) -> None:
    """A vendor field that is not listed is never ignored: 501, naming it."""
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        with pytest.raises(RefusedError, match=field.decode()) as caught:
            classify(method, OBJECT, [], [b"host", field])
        assert caught.value.problem.code is Code.NOT_FENCED


@pytest.mark.parametrize("field", [b"x-amz-meta-a", b"x-amz-acl", b"x-amz-tagging"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_fields_of_an_upload_belong_to_an_upload(method: str, field: bytes) -> None:
    """What PUT stores means nothing elsewhere, so it is refused there."""
    with pytest.raises(RefusedError):
        classify(method, OBJECT, [], [field])
    assert classify("PUT", OBJECT, [], [field]) is Name.PUT_OBJECT


@pytest.mark.parametrize(
    "target, query",
    [
        (OBJECT, [(b"x-id", b"GetObjectAcl")]),
        (SERVICE, [(b"x-id", b"ListDirectoryBuckets")]),
        (BUCKET, [(b"list-type", b"1")]),
        (BUCKET, [(b"list-type", b"")]),
        (BUCKET, [(b"list-type", b"2"), (b"list-type", b"2")]),
        (BUCKET, [(b"list-type", b"2"), (b"location", b"")]),
        (BUCKET, [(b"list-type", b"2"), (b"marker", b"a")]),
        (BUCKET, [(b"prefix", b"a"), (b"prefix", b"b")]),
        (BUCKET, [(b"start-after", b"a")]),
        (OBJECT, [(b"prefix", b"a")]),
        (OBJECT, [(b"response-content-type", b"a"), (b"response-content-type", b"b")]),
    ],
)
def test_contradictions_in_a_query_are_refused(
    target: Target, query: list[tuple[bytes, bytes]]
) -> None:
    """An x-id of another operation, a parameter of another version, a parameter twice: 501."""
    with pytest.raises(RefusedError):
        classify("GET", target, query, [])


async def test_a_refused_subresource_reaches_the_client_as_501() -> None:
    """Through the whole parser: a signed tagging request is not an upload."""
    answer = await problem(signed("PUT", b"/bucket/key", b"tagging", body=b"<Tagging/>"))
    assert (answer.code, answer.status) == (Code.NOT_FENCED, 501)
    assert "tagging" in answer.message


async def test_the_signature_is_judged_first() -> None:
    """Who is not known learns nothing of what would be accepted."""
    answer = await problem(raw("PUT", b"/bucket/key", b"tagging"))
    assert answer.native == "AccessDenied"


# --- operation x authentication x body form -------------------------------------------------------
UPLOADS = {
    Auth.HEADER: set(Payload),
    Auth.PRESIGNED: {Payload.HASHED, Payload.UNSIGNED},
    Auth.OFF: set(Payload),
}
WORDS = {
    "0" * 64: Payload.HASHED,
    "UNSIGNED-PAYLOAD": Payload.UNSIGNED,
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD": Payload.CHUNKS_SIGNED,
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER": Payload.CHUNKS_SIGNED_TRAILER,
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER": Payload.CHUNKS_TRAILER,
}


@pytest.mark.parametrize("name", Name)
@pytest.mark.parametrize("auth", Auth)
def test_each_cell_of_the_table(name: Name, auth: Auth) -> None:
    """Chunked bodies are for uploads, and never for a presigned URL; all else is plain."""
    expected = UPLOADS[auth] if name is Name.PUT_OBJECT else {Payload.HASHED, Payload.UNSIGNED}
    for form in (*Payload, None):
        assert accepts(name, auth, form) is (form in expected)


def test_the_table_lists_every_row_and_no_other() -> None:
    """A new operation or way to authenticate has to be entered."""
    assert set(ACCEPTED) == set(itertools.product(Name, Auth))


def test_a_row_that_is_missing_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unlisted means refused, not accepted."""
    monkeypatch.delitem(ACCEPTED, (Name.PUT_OBJECT, Auth.HEADER))
    assert not any(accepts(Name.PUT_OBJECT, Auth.HEADER, form) for form in Payload)


@pytest.mark.parametrize("word", WORDS)
def test_each_form_has_its_word(word: str) -> None:
    """The value of x-amz-content-sha256 names the form."""
    assert read_payload(word) is WORDS[word]


def test_no_word_at_all_is_an_unsigned_body() -> None:
    """Possible with authentication off only."""
    assert read_payload(None) is Payload.UNSIGNED


@pytest.mark.parametrize(
    "word", ["", "0" * 63, "A" * 64, "unsigned-payload", "None", "0" * 64 + "\n"]
)
def test_an_unknown_word_is_malformed(word: str) -> None:
    """What S3 does not have is 400, not 501."""
    with pytest.raises(RefusedError) as caught:
        read_payload(word)
    assert (caught.value.problem.native, caught.value.problem.status) == ("InvalidArgument", 400)


async def test_asymmetric_chunk_signatures_are_not_fenced() -> None:
    """A form that S3 has and we have not is 501."""
    request = signed("PUT", b"/bucket/k", payload="STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD")
    assert (await problem(request)).code is Code.NOT_FENCED


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
@pytest.mark.parametrize("payload", [word for word, form in WORDS.items() if form.chunked])
async def test_the_table_is_asked(method: str, payload: str) -> None:
    """A cell that the table refuses is 501 through the whole parser too."""
    assert (await problem(signed(method, b"/bucket/k", payload=payload))).code is Code.NOT_FENCED


@pytest.mark.parametrize("field", [b"x-amz-meta-a", b"x-amz-acl", b"x-amz-date"])
def test_a_vendor_field_twice_is_refused(field: bytes) -> None:
    """Which of two would count is for nobody to guess."""
    with pytest.raises(RefusedError):
        classify("PUT", OBJECT, [], [field, field])


@pytest.mark.parametrize("method, path", [("GET", b"/bucket/k"), ("DELETE", b"/bucket/k")])
async def test_what_takes_no_body_refuses_one(method: str, path: bytes) -> None:
    """A body that nobody would read or verify is refused; an announced empty one is none."""
    with_body = signed(method, path, unsigned=[(b"content-length", b"5")])
    assert (await problem(with_body)).native == "InvalidRequest"
    chunked = signed(method, path, unsigned=[(b"transfer-encoding", b"chunked")])
    assert (await problem(chunked)).native == "InvalidRequest"
    hashed = signed(method, path, payload="1" * 64)
    assert (await problem(hashed)).native == "XAmzContentSHA256Mismatch"
    await parsed(signed(method, path, unsigned=[(b"content-length", b"0")]))
    await parsed(signed(method, path, payload="UNSIGNED-PAYLOAD"))
