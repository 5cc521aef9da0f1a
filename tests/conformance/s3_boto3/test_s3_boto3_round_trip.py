"""boto3, unmodified, over real sockets: what a user of the dialect does, and what they see."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from gateway.model.problem import Code, Problem
from tests.conformance.s3_boto3.s3_in_memory import MemoryObjects, Running, serving
from tests.unit.dialects.s3.s3_requests import ACCESS, REGION, SECRET, dialect

ODD_KEYS = [
    "a",
    "a/",
    "a/b",
    "a//b",
    "//",
    "/lead",
    "..",
    ".",
    "../up",
    "a/../b",
    "sp ace",
    "plus+sign",
    "100%",
    "%2F",
    "a%20b",
    "?query=1&x",
    "#fragment",
    "&amp;<tag>\"quote'",
    "back\\slash",
    "ü/é/日本",
    "e\u0301",
    "\U0001f600",
    "tab\tnew\nline\x01",
    "semi;colon:at@",
    "~*'()!$,=[]{}|^`",
    "x" * 1024,
]


@pytest.fixture
def running() -> Iterator[Running]:
    with serving(dialect(), MemoryObjects("demo", "other")) as server:
        yield server


def client(running: Running, secret: str = SECRET, access: str = ACCESS, **config: Any) -> Any:
    """Make a client as any user would: endpoint, keys, nothing else."""
    config.setdefault("retries", {"total_max_attempts": 1})
    return boto3.client(
        "s3",
        endpoint_url=running.endpoint,
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        region_name=config.pop("region_name", REGION),
        config=Config(**config),
    )


def refusal(call: Any, **arguments: Any) -> tuple[str, int]:
    """Make a call that must fail; returns code and status."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def test_put_get_head_delete(running: Running) -> None:
    """An object comes back with its bytes, metadata and content fields, until it is removed."""
    s3 = client(running)
    put = s3.put_object(
        Bucket="demo", Key="k", Body=b"hello", ContentType="text/plain", CacheControl="no-store",
        Metadata={"color": "red"}, StorageClass="STANDARD_IA", Tagging="a=b",
    )  # fmt: skip
    got = s3.get_object(Bucket="demo", Key="k")
    assert got["Body"].read() == b"hello"
    head = s3.head_object(Bucket="demo", Key="k")
    for answer in (got, head):
        assert answer["ETag"] == put["ETag"]
        assert answer["ContentLength"] == 5
        assert answer["ContentType"] == "text/plain"
        assert answer["CacheControl"] == "no-store"
        assert answer["Metadata"] == {"color": "red"}
        assert answer["StorageClass"] == "STANDARD_IA"
        assert answer["LastModified"].timestamp() == 1_700_000_000
    assert head["ResponseMetadata"]["RequestId"] == "req-3"
    gone = s3.delete_object(Bucket="demo", Key="k")
    assert gone["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert refusal(s3.get_object, Bucket="demo", Key="k") == ("NoSuchKey", 404)
    assert refusal(s3.head_object, Bucket="demo", Key="k") == ("404", 404)
    s3.delete_object(Bucket="demo", Key="k")


@pytest.mark.parametrize("size", [0, 1, 65_536, 3_000_000])
def test_bodies_of_any_size(running: Running, size: int) -> None:
    """Empty, tiny, a buffer, and megabytes."""
    s3 = client(running)
    body = bytes(range(256)) * (size // 256 + 1)
    s3.put_object(Bucket="demo", Key="k", Body=body[:size])
    assert s3.get_object(Bucket="demo", Key="k")["Body"].read() == body[:size]


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_checksums_of_the_client_are_verified(running: Running, algorithm: str) -> None:
    """A right checksum passes; one of other bytes is refused, and nothing is stored."""
    s3 = client(running)
    s3.put_object(Bucket="demo", Key="k", Body=b"hello", ChecksumAlgorithm=algorithm)
    wrong = {"CRC32": "AAAAAA==", "SHA1": "A" * 27 + "=", "SHA256": "A" * 43 + "="}
    call = {
        "Bucket": "demo",
        "Key": "k",
        "Body": b"other",
        f"Checksum{algorithm}": wrong[algorithm],
    }
    assert refusal(s3.put_object, **call) == ("BadDigest", 400)
    assert s3.get_object(Bucket="demo", Key="k")["Body"].read() == b"hello"


def test_odd_keys_are_objects_of_their_own(running: Running) -> None:
    """Every key is stored, read, listed and removed as itself, whatever is in it."""
    s3 = client(running)
    for key in ODD_KEYS:
        s3.put_object(Bucket="demo", Key=key, Body=key.encode())
    assert set(running.objects.buckets["demo"]) == set(ODD_KEYS)
    for key in ODD_KEYS:
        assert s3.get_object(Bucket="demo", Key=key)["Body"].read() == key.encode()
    for operation in ("list_objects", "list_objects_v2"):
        pages = s3.get_paginator(operation).paginate(
            Bucket="demo", PaginationConfig={"PageSize": 3}
        )
        listed = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        assert listed == sorted(ODD_KEYS, key=str.encode)
    for key in ODD_KEYS:
        s3.delete_object(Bucket="demo", Key=key)
    assert not running.objects.buckets["demo"]


def test_listings_fold_common_prefixes(running: Running) -> None:
    """Prefix and delimiter, over several pages, in both versions."""
    s3 = client(running)
    keys = ["a b/1", "a b/2", "a b/ü/3", "a b/ü/4", "a b/z", "c"]
    for key in keys:
        s3.put_object(Bucket="demo", Key=key, Body=b"")
    for operation in ("list_objects", "list_objects_v2"):
        pages = list(
            s3.get_paginator(operation).paginate(
                Bucket="demo", Prefix="a b/", Delimiter="/", PaginationConfig={"PageSize": 2}
            )
        )
        assert len(pages) == 2
        assert [e["Key"] for p in pages for e in p.get("Contents", [])] == [
            "a b/1",
            "a b/2",
            "a b/z",
        ]
        assert [e["Prefix"] for p in pages for e in p.get("CommonPrefixes", [])] == ["a b/ü/"]
    answer = s3.list_objects_v2(Bucket="demo", StartAfter="a b/ü/4", FetchOwner=True)
    assert [entry["Key"] for entry in answer["Contents"]] == ["c"]
    assert answer["KeyCount"] == 1
    assert answer["Contents"][0]["Owner"]["ID"] == "fencegate"
    empty = s3.list_objects_v2(Bucket="demo", MaxKeys=0)
    assert (empty["KeyCount"], empty["IsTruncated"]) == (0, False)


def test_buckets_can_be_seen_and_not_changed(running: Running) -> None:
    """List, head and location work; writing a bucket is not fenced: 501."""
    s3 = client(running)
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["demo", "other"]
    assert s3.head_bucket(Bucket="demo")["BucketRegion"] == "us-east-1"
    assert s3.get_bucket_location(Bucket="demo")["LocationConstraint"] is None
    assert refusal(s3.head_bucket, Bucket="absent") == ("404", 404)
    assert refusal(s3.list_objects_v2, Bucket="absent") == ("NoSuchBucket", 404)
    assert refusal(s3.create_bucket, Bucket="new-bucket") == ("operation_not_fenced", 501)
    assert refusal(s3.delete_bucket, Bucket="demo") == ("operation_not_fenced", 501)


def test_ranges_and_conditions_of_reads(running: Running) -> None:
    """Parts of an object, 304 for what the client has, overrides of the answer's fields."""
    s3 = client(running)
    etag = s3.put_object(Bucket="demo", Key="k", Body=b"0123456789")["ETag"]
    part = s3.get_object(Bucket="demo", Key="k", Range="bytes=2-4")
    assert (part["Body"].read(), part["ContentRange"]) == (b"234", "bytes 2-4/10")
    assert part["ResponseMetadata"]["HTTPStatusCode"] == 206
    beyond = refusal(s3.get_object, Bucket="demo", Key="k", Range="bytes=10-")
    assert beyond == ("InvalidRange", 416)
    assert refusal(s3.get_object, Bucket="demo", Key="k", IfNoneMatch=etag) == ("304", 304)
    shown = s3.get_object(
        Bucket="demo", Key="k", ResponseContentType="text/x", ResponseContentDisposition='a; b="ü"'
    )
    assert shown["ContentType"] == "text/x"
    assert shown["Body"].read() == b"0123456789"


def test_conditional_writes(running: Running) -> None:
    """If-None-Match: * creates once; If-Match changes what was read."""
    s3 = client(running)
    etag = s3.put_object(Bucket="demo", Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    again = refusal(s3.put_object, Bucket="demo", Key="k", Body=b"2", IfNoneMatch="*")
    assert again == ("PreconditionFailed", 412)
    s3.put_object(Bucket="demo", Key="k", Body=b"3", IfMatch=etag)
    late = refusal(s3.put_object, Bucket="demo", Key="k", Body=b"4", IfMatch=etag)
    assert late == ("PreconditionFailed", 412)
    odd = refusal(s3.put_object, Bucket="demo", Key="k", Body=b"5", IfNoneMatch='"x"')
    assert odd == ("NotImplemented", 501)
    assert s3.get_object(Bucket="demo", Key="k")["Body"].read() == b"3"


def test_everything_else_is_refused_by_name(running: Running) -> None:
    """Operations that the dialect does not fence never reach the store."""
    s3 = client(running)
    s3.put_object(Bucket="demo", Key="k", Body=b"1")
    before = len(running.objects.operations)
    where = {"Bucket": "demo", "Key": "k"}
    calls = [
        (s3.copy_object, {**where, "CopySource": "demo/k"}),
        (s3.create_multipart_upload, where),
        (s3.upload_part, {**where, "UploadId": "u", "PartNumber": 1, "Body": b"x"}),
        (s3.abort_multipart_upload, {**where, "UploadId": "u"}),
        (s3.delete_objects, {"Bucket": "demo", "Delete": {"Objects": [{"Key": "k"}]}}),
        (s3.put_object_tagging, {**where, "Tagging": {"TagSet": []}}),
        (s3.delete_object_tagging, where),
        (s3.put_object_acl, {**where, "ACL": "private"}),
        (s3.get_object_acl, where),
        (s3.get_object_attributes, {**where, "ObjectAttributes": ["ETag"]}),
        (s3.restore_object, where),
        (s3.delete_object, {**where, "VersionId": "v"}),
        (s3.list_object_versions, {"Bucket": "demo"}),
        (s3.put_bucket_policy, {"Bucket": "demo", "Policy": "{}"}),
        (s3.get_bucket_versioning, {"Bucket": "demo"}),
    ]
    for call, arguments in calls:
        assert refusal(call, **arguments) == ("operation_not_fenced", 501), call
    assert len(running.objects.operations) == before


def test_wrong_credentials(running: Running) -> None:
    """Unknown key, wrong secret, no signature at all: each by S3's own code."""
    call = {"Bucket": "demo", "Key": "k", "Body": b"x"}
    assert refusal(client(running, access="nobody").put_object, **call) == (
        "InvalidAccessKeyId",
        403,
    )
    assert refusal(client(running, secret="wrong").put_object, **call) == (
        "SignatureDoesNotMatch",
        403,
    )
    assert refusal(client(running, signature_version=UNSIGNED).put_object, **call) == (
        "AccessDenied",
        403,
    )
    assert not running.objects.operations


@pytest.mark.parametrize(
    "problem, code, status",
    [
        (Problem(Code.TOKEN_STALE, "stale", mark=7), "fence_token_stale", 412),
        (Problem(Code.TOKEN_REQUIRED, "no token"), "fence_token_required", 428),
        (Problem(Code.TOKEN_DUPLICATE, "twice"), "fence_token_duplicate", 409),
        (Problem(Code.CHANGED_UNDERNEATH, "changed"), "changed_underneath", 409),
        (Problem(Code.REGISTRY_UNAVAILABLE, "later"), "registry_unavailable", 503),
        (Problem(Code.OUTCOME_UNKNOWN, "who knows"), "outcome_unknown", 504),
    ],
)
def test_the_fences_refusals_reach_the_client(
    running: Running, problem: Problem, code: str, status: int
) -> None:
    """The gateway's codes are what botocore calls the error's code."""
    running.objects.refusals.append(problem)
    call = client(running).put_object
    assert refusal(call, Bucket="demo", Key="k", Body=b"x") == (code, status)


def test_the_token_travels_as_a_header(running: Running) -> None:
    """The documented event hook, signed and unsigned, carries token and holder."""
    for event in ("before-sign.s3", "before-send.s3"):
        s3 = client(running)

        def fence(request: Any, **_: Any) -> None:
            request.headers["X-Fence-Token"] = "42"
            request.headers["X-Fence-Holder"] = "worker-7"

        s3.meta.events.register(event, fence)
        s3.put_object(Bucket="demo", Key="k", Body=b"x")
        operation = running.objects.operations[-1]
        assert (operation.token, operation.holder) == (42, "worker-7")


@pytest.mark.parametrize("mode", ["legacy", "standard"])
def test_a_retry_is_recognised_by_its_key(
    running: Running, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """boto3 retries a 503 by itself, with the same key on every attempt and another next time."""
    waits: list[float] = []
    monkeypatch.setattr("botocore.endpoint.time", types.SimpleNamespace(sleep=waits.append))
    s3 = client(running, retries={"mode": mode, "total_max_attempts": 3})
    busy = Problem(Code.BUSY, "later", retry_after_s=1)
    running.objects.refusals.extend([busy, busy])
    s3.put_object(Bucket="demo", Key="k", Body=b"hello")
    attempts = running.objects.operations
    assert len(attempts) == 3
    assert len(waits) == 2
    assert len({operation.retry_key for operation in attempts}) == 1
    assert attempts[0].retry_key
    s3.put_object(Bucket="demo", Key="k", Body=b"hello")
    assert attempts[-1].retry_key != attempts[0].retry_key


def test_a_stale_refusal_is_not_retried(running: Running) -> None:
    """412 ends the call at once, with retries on."""
    running.objects.refusals.append(Problem(Code.TOKEN_STALE, "stale"))
    s3 = client(running, retries={"mode": "standard", "total_max_attempts": 5})
    assert refusal(s3.put_object, Bucket="demo", Key="k", Body=b"x")[0] == "fence_token_stale"
    assert len(running.objects.operations) == 1


def test_a_wrong_region_is_named(running: Running) -> None:
    """The error tells which region to sign for."""
    s3 = client(running, region_name="eu-central-1")
    with pytest.raises(ClientError) as caught:
        s3.list_buckets()
    error = caught.value.response["Error"]
    assert (error["Code"], error["Region"]) == ("AuthorizationHeaderMalformed", "us-east-1")
