"""From a request to an operation: what each operation carries, and what is refused on the way."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.dialects.s3.metadata import MAX_USER_METADATA_BYTES
from gateway.dialects.s3.parse import Context
from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.mark import Scope
from gateway.model.object_action import (
    DeleteObject,
    GetObject,
    HeadBucket,
    ListBuckets,
    ListObjects,
    PutObject,
)
from gateway.model.operation import Kind
from gateway.model.problem import Code
from gateway.model.resource import Resource
from gateway.model.write_id import request_name
from gateway.ports.dialect import RawRequest
from tests.unit.dialects.s3.s3_requests import ACCESS, Fields, parsed, problem, raw, signed

PUT = ("PUT", b"/bucket/a%20key")


def with_fields(request: RawRequest, *fields: tuple[bytes, bytes]) -> RawRequest:
    """Add fields that no signature covers."""
    return dataclasses.replace(request, fields=(*request.fields, *fields))


async def test_an_upload_is_understood_whole() -> None:
    """Resource, route, kind, token, holder, conditions, retry key, worker: each in its place."""
    request = signed(
        *PUT,
        b"x-id=PutObject",
        body=b"hello",
        unsigned=[
            (b"x-fence-token", b"42"),
            (b"x-fence-holder", b"worker-7"),
            (b"if-match", b'"abc"'),
            (b"amz-sdk-invocation-id", b"5d1c-1"),
            (b"amz-sdk-request", b"attempt=1"),
        ],
    )
    operation = (await parsed(request)).operation
    assert operation.resource == Resource("objects", "bucket/a%20key")
    assert operation.route == "/bucket/a%20key"
    assert (operation.kind, operation.method) == (Kind.WRITE, "PUT")
    assert (operation.token, operation.holder) == (42, "worker-7")
    assert operation.conditions == Conditions(if_match=('"abc"',))
    assert operation.retry_key == "5d1c-1"
    assert (operation.worker, operation.request_id) == (ACCESS, "r-1")
    assert isinstance(operation.action, PutObject)
    assert (operation.action.bucket, operation.action.key) == ("bucket", "a key")
    assert operation.action.length == 5


@pytest.mark.parametrize(
    "method, path, query, kind, action, resource",
    [
        ("GET", b"/bucket/k", b"", Kind.READ, GetObject("bucket", "k"), "bucket/k"),
        ("HEAD", b"/bucket/k", b"", Kind.READ, GetObject("bucket", "k", head=True), "bucket/k"),
        ("DELETE", b"/bucket/k", b"", Kind.DELETE, DeleteObject("bucket", "k"), "bucket/k"),
        ("GET", b"/", b"", Kind.LIST, ListBuckets(), ""),
        ("HEAD", b"/bucket", b"", Kind.READ, HeadBucket("bucket"), "bucket"),
        ("GET", b"/bucket", b"location", Kind.READ, HeadBucket("bucket", True), "bucket"),
        (
            "GET",
            b"/bucket/",
            b"prefix=a%2Fb",
            Kind.LIST,
            ListObjects("bucket", 1, (("prefix", "a/b"), ("max-keys", "1000"))),
            "bucket",
        ),
        (
            "GET",
            b"/bucket",
            b"list-type=2&max-keys=7",
            Kind.LIST,
            ListObjects("bucket", 2, (("max-keys", "7"),)),
            "bucket",
        ),
    ],
)
async def test_each_operation_has_its_action(
    method: str, path: bytes, query: bytes, kind: Kind, action: object, resource: str
) -> None:
    """Reads, removals and listings, without a token, since a store decides who needs one."""
    operation = (await parsed(signed(method, path, query))).operation
    assert (operation.kind, operation.action) == (kind, action)
    assert (operation.resource.path, operation.route) == (resource, "/" + resource)
    assert (operation.token, operation.holder) == (None, None)
    assert operation.conditions == NO_CONDITIONS


@pytest.mark.parametrize(
    "fields, code",
    [
        ([(b"x-fence-token", b"01")], Code.TOKEN_MALFORMED),
        ([(b"x-fence-token", b"")], Code.TOKEN_MALFORMED),
        ([(b"x-fence-token", b"1"), (b"x-fence-token", b"1")], Code.TOKEN_MALFORMED),
        ([(b"x-fence-token", b"1"), (b"x-fence-holder", b"")], Code.TOKEN_MALFORMED),
    ],
)
async def test_a_malformed_token_is_never_missing(fields: Fields, code: Code) -> None:
    """The fence fields are judged as in every dialect."""
    assert (await problem(signed(*PUT, body=b"", unsigned=fields))).code is code


@pytest.mark.parametrize("value", [b"", b"a b", b"x" * 129, b"\xff"])
async def test_an_odd_retry_key_is_no_retry_key(value: bytes) -> None:
    """It only recognises retries, so a value that cannot be kept is left out."""
    request = signed(*PUT, body=b"", unsigned=[(b"amz-sdk-invocation-id", value)])
    assert (await parsed(request)).operation.retry_key is None


# --- conditions -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "method, fields, expected",
    [
        ("PUT", [(b"if-match", b'"abc"')], Conditions(if_match=('"abc"',))),
        ("PUT", [(b"if-match", b"abc")], Conditions(if_match=('"abc"',))),
        ("PUT", [(b"if-match", b"*")], Conditions(if_match=("*",))),
        ("PUT", [(b"if-match", b'"a", "b"')], Conditions(if_match=('"a", "b"',))),
        ("PUT", [(b"if-match", b'W/"a"')], Conditions(if_match=('W/"a"',))),
        ("PUT", [(b"if-none-match", b" * ")], Conditions(if_none_match=("*",))),
        ("DELETE", [(b"if-match", b'"abc"')], Conditions(if_match=('"abc"',))),
        ("DELETE", [(b"if-match", b"*")], Conditions(if_match=("*",))),
        ("GET", [(b"if-match", b'"a", b')], Conditions(if_match=('"a"', '"b"'))),
        ("GET", [(b"if-none-match", b'W/"a" , "b,c"')], Conditions(if_none_match=('"a"', '"b,c"'))),
        ("HEAD", [(b"if-none-match", b"*")], Conditions(if_none_match=("*",))),
        (
            "GET",
            [(b"if-match", b"a"), (b"if-none-match", b"b")],
            Conditions(('"a"',), ('"b"',)),
        ),
    ],
)
async def test_conditions_are_understood(method: str, fields: Fields, expected: Conditions) -> None:
    """Quoted and bare tags are one; on writes a list or a weak tag stays what no ETag equals."""
    request = signed(method, b"/bucket/k", body=b"", unsigned=fields)
    assert (await parsed(request)).operation.conditions == expected


@pytest.mark.parametrize(
    "method, fields",
    [
        ("PUT", [(b"if-none-match", b'"abc"')]),
        ("PUT", [(b"if-none-match", b"")]),
        ("PUT", [(b"if-match", b"a"), (b"if-none-match", b"*")]),
        ("PUT", [(b"if-unmodified-since", b"Fri, 15 Jan 2027 08:00:00 GMT")]),
        ("PUT", [(b"if-modified-since", b"Fri, 15 Jan 2027 08:00:00 GMT")]),
        ("DELETE", [(b"if-none-match", b"*")]),
        ("DELETE", [(b"if-unmodified-since", b"Fri, 15 Jan 2027 08:00:00 GMT")]),
    ],
)
async def test_conditions_that_s3_lacks_are_501(method: str, fields: Fields) -> None:
    """A condition that cannot be kept is refused, never ignored."""
    answer = await problem(signed(method, b"/bucket/k", body=b"", unsigned=fields))
    assert (answer.native, answer.status) == ("NotImplemented", 501)
    assert answer.code is Code.CONDITION_UNSUPPORTED


@pytest.mark.parametrize("name", [b"if-match", b"range", b"content-md5", b"content-type"])
@pytest.mark.parametrize("method", ["PUT", "GET"])
async def test_a_decisive_field_sent_twice_is_refused(method: str, name: bytes) -> None:
    """Two values of a field that decides leave open which one counts."""
    decides = {"PUT": {b"content-md5", b"content-type"}, "GET": {b"range"}}
    if name not in decides[method] | {b"if-match"}:
        return
    fields = [(name, b"*"), (name, b"*")]
    answer = await problem(signed(method, b"/bucket/k", body=b"", unsigned=fields))
    assert (answer.native, answer.status) == ("InvalidRequest", 400)


async def test_ranges_and_dates_of_a_read_are_passed_on() -> None:
    """Range and the date conditions reach the store as they were sent."""
    fields = [
        (b"range", b"bytes=0-9"),
        (b"if-modified-since", b"Fri, 15 Jan 2027 08:00:00 GMT"),
        (b"if-unmodified-since", b"Fri, 15 Jan 2027 09:00:00 GMT"),
    ]
    action = (await parsed(signed("GET", b"/bucket/k", unsigned=fields))).operation.action
    assert action == GetObject(
        "bucket",
        "k",
        range_="bytes=0-9",
        if_modified_since="Fri, 15 Jan 2027 08:00:00 GMT",
        if_unmodified_since="Fri, 15 Jan 2027 09:00:00 GMT",
    )
    fields.append((b"if-range", b'"old"'))
    action = (await parsed(signed("GET", b"/bucket/k", unsigned=fields))).operation.action
    assert isinstance(action, GetObject)
    assert action.range_ is None


# --- metadata -------------------------------------------------------------------------------------
async def test_what_is_stored_with_an_object() -> None:
    """Content fields, user metadata and the listed x-amz fields; the transfer's own are not."""
    fields = [
        (b"content-type", b"text/plain"),
        (b"content-encoding", b"gzip"),
        (b"content-disposition", b"inline"),
        (b"content-language", b"de"),
        (b"cache-control", b"no-store"),
        (b"expires", b"0"),
        (b"x-amz-meta-color", b" red "),
        (b"x-amz-meta-Ort".lower(), b"K\xf6ln"),
        (b"x-amz-storage-class", b"STANDARD_IA"),
        (b"x-amz-acl", b"private"),
        (b"x-amz-tagging", b"a=b"),
        (b"x-amz-server-side-encryption", b"AES256"),
    ]
    dropped = [(b"user-agent", b"x"), (b"expect", b"100-continue"), (b"accept", b"*/*")]
    request = signed(*PUT, fields=fields, body=b"", unsigned=dropped)
    action = (await parsed(request)).operation.action
    assert isinstance(action, PutObject)
    expected = {name.decode(): value.decode("latin-1").strip() for name, value in fields}
    assert dict(action.metadata) == expected
    assert len(action.metadata) == len(expected)


@pytest.mark.parametrize(
    "sent, kept",
    [
        ([b"aws-chunked"], None),
        ([b"gzip,aws-chunked"], "gzip"),
        ([b"AWS-Chunked , gzip, br"], "gzip,br"),
        ([b"gzip", b"aws-chunked"], "gzip"),
        ([b""], None),
        ([b"gzip"], "gzip"),
    ],
)
async def test_the_transfers_coding_is_not_the_objects(sent: list[bytes], kept: str | None) -> None:
    """aws-chunked goes, the codings of the object stay in order."""
    fields = [
        *((b"content-encoding", value) for value in sent),
        (b"x-amz-decoded-content-length", b"0"),
        (b"x-amz-trailer", b"x-amz-checksum-crc32"),
    ]
    request = signed(*PUT, fields=fields, body=b"", payload="STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    action = (await parsed(request)).operation.action
    assert isinstance(action, PutObject)
    assert dict(action.metadata).get("content-encoding") == kept


async def test_the_stamps_name_is_the_gateways_own() -> None:
    """A client cannot forge, or lose, a stamp."""
    request = signed(*PUT, fields=[(b"x-amz-meta-fencegate", b"v1.x")], body=b"")
    answer = await problem(request)
    assert (answer.native, answer.status) == ("InvalidArgument", 400)


async def test_user_metadata_has_a_limit() -> None:
    """2 KiB of names and values, as in S3."""
    value = b"v" * (MAX_USER_METADATA_BYTES - 1)
    await parsed(signed(*PUT, fields=[(b"x-amz-meta-a", value)], body=b""))
    answer = await problem(signed(*PUT, fields=[(b"x-amz-meta-ab", value)], body=b""))
    assert (answer.native, answer.status) == ("MetadataTooLarge", 400)


# --- listings -------------------------------------------------------------------------------------
LISTING_PARAMETERS = [
    (b"max-keys=0", 2, {"max-keys": "0"}),
    (b"max-keys=5000", 2, {"max-keys": "1000"}),
    (b"max-keys=", 2, {"max-keys": "1000"}),
    (b"prefix=&delimiter=%2F", 2, {"prefix": "", "delimiter": "/", "max-keys": "1000"}),
    (b"prefix=a+b%2Bc", 2, {"prefix": "a b+c", "max-keys": "1000"}),
    (b"encoding-type=url&fetch-owner=true", 2, {"max-keys": "1000"}),
    (b"start-after=%C3%BC", 2, {"start-after": "ü", "max-keys": "1000"}),
    (
        b"start-after=a&continuation-token=ZmcxLnRoZSBuZXh0",
        2,
        {"continuation-token": "the next", "max-keys": "1000"},
    ),
    (b"marker=m&prefix=p", 1, {"marker": "m", "prefix": "p", "max-keys": "1000"}),
]


@pytest.mark.parametrize("query, version, expected", LISTING_PARAMETERS)
async def test_listing_parameters_reach_the_store_decoded(
    query: bytes, version: int, expected: dict[str, str]
) -> None:
    """What chooses entries is passed on; what only shapes the answer is not."""
    full = (b"list-type=2&" if version == 2 else b"") + query
    action = (await parsed(signed("GET", b"/bucket", full))).operation.action
    assert isinstance(action, ListObjects)
    assert (action.version, dict(action.query)) == (version, expected)


@pytest.mark.parametrize(
    "query",
    [
        b"max-keys=-1",
        b"max-keys=1e3",
        b"max-keys=%D9%A3",
        b"max-keys=99999999999",
        b"encoding-type=xml",
        b"fetch-owner=yes",
        b"prefix=%FF",
        b"continuation-token=",
        b"continuation-token=not-ours",
        b"continuation-token=bm90IG91cnM%3D",
        b"continuation-token=%C3%BC",
    ],
)
async def test_bad_listing_parameters_are_refused(query: bytes) -> None:
    """400 InvalidArgument, as S3 answers."""
    answer = await problem(signed("GET", b"/bucket", b"list-type=2&" + query))
    assert (answer.native, answer.status) == ("InvalidArgument", 400)


async def test_a_broken_escape_in_the_query_is_refused() -> None:
    """A percent sign that starts no escape could be read in two ways."""
    answer = await problem(signed("GET", b"/bucket", b"prefix=%zz"))
    assert (answer.native, answer.status) == ("InvalidURI", 400)


# --- response overrides ---------------------------------------------------------------------------
async def test_response_overrides_are_remembered_for_the_answer() -> None:
    """Each response-* parameter names the field it replaces."""
    query = b"response-content-type=text%2Fplain&response-content-disposition=attachment"
    context = (await parsed(signed("GET", b"/bucket/k", query))).context
    assert context == Context(
        overrides=(("content-type", "text/plain"), ("content-disposition", "attachment"))
    )


@pytest.mark.parametrize("value", [b"a%0D%0Ax-evil:1", b"a%0Ab", b"a%00b", b"a%7Fb"])
async def test_an_override_cannot_split_the_answer(value: bytes) -> None:
    """A line break or control character in a parameter never becomes a field of ours."""
    answer = await problem(signed("GET", b"/bucket/k", b"response-content-type=" + value))
    assert (answer.native, answer.status) == ("InvalidArgument", 400)


# --- authentication off ---------------------------------------------------------------------------
async def test_without_authentication_signed_and_unsigned_requests_pass() -> None:
    """`auth = "none"`: a plain curl and a signing SDK are both understood, as nobody."""
    plain = raw("PUT", b"/bucket/k", fields=[(b"content-length", b"2")], body=b"hi")
    for request in (plain, signed("PUT", b"/bucket/k", body=b"hi", secret="any")):
        operation = (await parsed(request, keys=None)).operation
        assert operation.worker is None
        assert operation.resource.path == "bucket/k"
    presigned = b"X-Amz-Algorithm=a&X-Amz-Credential=b&X-Amz-Date=c&X-Amz-Expires=d"
    request = raw("GET", b"/bucket/k", presigned + b"&X-Amz-SignedHeaders=e&X-Amz-Signature=f")
    assert (await parsed(request, keys=None)).operation.worker is None
    answer = await problem(with_fields(plain, (b"x-amz-copy-source", b"b/k")), keys=None)
    assert answer.code is Code.NOT_FENCED


async def test_other_digests_are_other_contents() -> None:
    """An upload of the same length under the same SDK id is no retry when a checksum differs."""

    async def content(*fields: tuple[bytes, bytes]) -> str:
        fields = ((b"x-fence-token", b"4"), (b"amz-sdk-invocation-id", b"i"), *fields)
        length = (b"content-length", b"5")
        request = raw(*PUT, fields=(*fields, length), body=b"hello")
        name = request_name((await parsed(request, None)).operation, Scope("s"))
        assert name is not None
        return name.content

    md5 = [(b"content-md5", value) for value in (b"XUFAKrxLKna5cZ2REBfFkg==", b"A" * 22 + b"==")]
    crc = [(b"x-amz-checksum-crc32", value) for value in (b"NhCmhg==", b"AAAAAA==")]
    contents = [await content(), *[await content(field) for field in (*md5, *crc)]]
    assert len(set(contents)) == 5
    assert await content(md5[0]) == contents[1]  # control: a retry is one
