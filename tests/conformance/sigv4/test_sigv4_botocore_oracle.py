"""botocore as the oracle: it signs and we verify; we sign and it gets the same signature."""

from __future__ import annotations

import dataclasses
import datetime
import string
from functools import cache
from unittest import mock

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.s3.canonical import encode_path, encode_query
from gateway.dialects.s3.credentials import date_seconds
from gateway.dialects.s3.sigv4 import AccessKey, UnsignedRequest, sign
from gateway.model.object_action import GetObject, ListObjects, PutObject
from gateway.model.problem import Problem
from gateway.ports.dialect import Parsed, RawRequest
from tests.unit.dialects.s3.s3_requests import (
    ACCESS,
    NOW_S,
    REGION,
    SECRET,
    BotoRecorder,
    dialect,
    raw,
    read_all,
)

RUNS = settings(max_examples=150, deadline=None)

# Every byte that some encoder treats apart, beside any text at all.
ODD = " +%/?#&=@:;,~*'()!$[]{}|\\^`<>\"._-"
key_text = st.text(
    st.one_of(
        st.sampled_from(ODD),
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    ),
    min_size=1,
    max_size=40,
).filter(lambda key: len(key.encode()) <= 1024)
tokens = st.text(string.ascii_letters + string.digits + "-_", min_size=1, max_size=12)
values = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30)


@cache
def recorder(scheme: str = "http") -> BotoRecorder:
    return BotoRecorder(f"{scheme}://127.0.0.1:9000")


async def _understood(request: RawRequest) -> Parsed:
    answer = await dialect().parse(request)
    assert isinstance(answer, Parsed), answer
    return answer


@RUNS
@given(
    key=key_text, metadata=st.dictionaries(tokens, values, max_size=3), body=st.binary(max_size=99)
)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_what_boto3_puts_is_verified_and_read_back(
    scheme: str, key: str, metadata: dict[str, str], body: bytes
) -> None:
    """Any key, metadata and body that boto3 sends verifies, and reaches us unchanged.

    Over https boto3 uses aws-chunked with an unsigned trailer, over http a signed hash.
    """
    if any(name.lower() == "fencegate" for name in metadata):
        return
    metadata = {name.lower(): value for name, value in metadata.items()}
    request = recorder(scheme).one(
        "put_object", Bucket="bucket", Key=key, Body=body, Metadata=metadata
    )
    understood = await _understood(request)
    action = understood.operation.action
    assert isinstance(action, PutObject)
    assert (action.key, action.length) == (key, len(body))
    assert await read_all(understood.body) == body
    stored = dict(action.metadata)
    assert {name: " ".join(stored[f"x-amz-meta-{name}"].split()) for name in metadata} == {
        name: " ".join(value.split()) for name, value in metadata.items()
    }


@RUNS
@given(key=key_text)
async def test_what_boto3_reads_and_removes_is_verified(key: str) -> None:
    """GET, HEAD and DELETE of any key verify, and name that key."""
    for operation in ("get_object", "head_object", "delete_object"):
        request = recorder().one(operation, Bucket="bucket", Key=key)
        action = (await _understood(request)).operation.action
        assert getattr(action, "key", None) == key


@RUNS
@given(prefix=key_text, delimiter=key_text, marker=key_text)
async def test_what_boto3_lists_is_verified(prefix: str, delimiter: str, marker: str) -> None:
    """Listing parameters of any text verify, and arrive decoded once."""
    request = recorder().one(
        "list_objects_v2", Bucket="bucket", Prefix=prefix, Delimiter=delimiter, StartAfter=marker
    )
    action = (await _understood(request)).operation.action
    assert isinstance(action, ListObjects)
    expected = {"prefix": prefix, "delimiter": delimiter, "start-after": marker}
    assert dict(action.query) == expected | {"max-keys": "1000"}


@RUNS
@given(key=key_text, method=st.sampled_from(["get_object", "put_object"]))
async def test_what_boto3_presigns_is_verified(key: str, method: str) -> None:
    """A presigned URL of any key verifies, and stops to once its time is over."""
    client = _presigner().client
    url = client.generate_presigned_url(
        method, Params={"Bucket": "bucket", "Key": key}, ExpiresIn=60
    )
    path, _, query = url.removeprefix("http://127.0.0.1:9000").partition("?")
    date = dict(pair.split("=") for pair in query.split("&"))["X-Amz-Date"]
    request = raw(
        "PUT" if method == "put_object" else "GET",
        path.encode(),
        query.encode(),
        [(b"content-length", b"0")],
        arrived_s=date_seconds(date),
    )
    action = (await _understood(request)).operation.action
    assert isinstance(action, GetObject | PutObject)
    assert action.key == key
    late = dataclasses.replace(request, arrived_s=request.arrived_s + 61)
    answer = await dialect().parse(late)
    assert isinstance(answer, Problem)
    assert (answer.native, answer.status) == ("AccessDenied", 403)


@cache
def _presigner() -> BotoRecorder:
    return BotoRecorder(signature_version="s3v4")


@RUNS
@given(
    method=st.sampled_from(["GET", "PUT", "HEAD", "DELETE", "POST"]),
    key=st.binary(min_size=1, max_size=30),
    query=st.lists(st.tuples(st.binary(min_size=1, max_size=8), st.binary(max_size=8)), max_size=4),
    fields=st.dictionaries(
        tokens.map(lambda name: f"x-amz-meta-{name.lower()}"), values, max_size=4
    ),
    unsigned=st.booleans(),
)
def test_our_signature_equals_botocores(
    method: str,
    key: bytes,
    query: list[tuple[bytes, bytes]],
    fields: dict[str, str],
    unsigned: bool,
) -> None:
    """For any request, our signer makes the Authorization field that botocore makes."""
    path = b"/bucket/" + encode_path(key)
    text = b"&".join(encode_query(n) + b"=" + encode_query(v) for n, v in query)
    url = f"http://h:9000{path.decode()}" + (f"?{text.decode()}" if query else "")
    theirs = AWSRequest(method, url, headers={"Host": "h:9000", **fields})
    auth = S3SigV4Auth(Credentials(ACCESS, SECRET), "s3", REGION)
    auth._should_sha256_sign_payload = lambda request: not unsigned
    now = datetime.datetime.fromtimestamp(NOW_S, datetime.UTC)
    with mock.patch("botocore.auth.get_current_datetime", return_value=now):
        auth.add_auth(theirs)
    ours = sign(
        UnsignedRequest(
            method,
            path,
            text,
            [(b"host", b"h:9000"), *((n.encode(), v.encode()) for n, v in fields.items())],
            theirs.headers["X-Amz-Content-SHA256"],
        ),
        AccessKey(ACCESS, SECRET),
        REGION,
        NOW_S,
    )
    assert dict(ours)[b"authorization"].decode() == theirs.headers["Authorization"]


def test_what_hops_may_change_is_not_signed() -> None:
    """Fields that a proxy or the HTTP library rewrites are left out, as botocore leaves them."""
    hops = {
        "Expect": "100-continue",
        "User-Agent": "me/1",
        "Transfer-Encoding": "chunked",
        "X-Amzn-Trace-Id": "Root=1",
    }
    theirs = AWSRequest("GET", "http://h/b/k", headers={"Host": "h", **hops})
    now = datetime.datetime.fromtimestamp(NOW_S, datetime.UTC)
    with mock.patch("botocore.auth.get_current_datetime", return_value=now):
        S3SigV4Auth(Credentials(ACCESS, SECRET), "s3", REGION).add_auth(theirs)
    fields = [(b"host", b"h"), *((n.lower().encode(), v.encode()) for n, v in hops.items())]
    parts = UnsignedRequest("GET", b"/b/k", b"", fields, theirs.headers["X-Amz-Content-SHA256"])
    ours = dict(sign(parts, AccessKey(ACCESS, SECRET), REGION, NOW_S))
    assert ours[b"authorization"].decode() == theirs.headers["Authorization"]


def test_a_session_token_is_signed_as_botocore_signs_it() -> None:
    """A store's temporary credentials put their token under the signature."""
    theirs = AWSRequest("GET", "http://h/b/k", headers={"Host": "h"})
    now = datetime.datetime.fromtimestamp(NOW_S, datetime.UTC)
    with mock.patch("botocore.auth.get_current_datetime", return_value=now):
        S3SigV4Auth(Credentials(ACCESS, SECRET, "tok/en+="), "s3", REGION).add_auth(theirs)
    parts = UnsignedRequest(
        "GET", b"/b/k", b"", [(b"host", b"h")], theirs.headers["X-Amz-Content-SHA256"]
    )
    ours = dict(sign(parts, AccessKey(ACCESS, SECRET, "tok/en+="), REGION, NOW_S))
    assert ours[b"x-amz-security-token"] == b"tok/en+="
    assert ours[b"authorization"].decode() == theirs.headers["Authorization"]


async def test_a_presigned_request_with_a_signed_hash_is_held_to_it() -> None:
    """botocore's query signer over a body hash we do not share is refused, never half believed."""
    request = AWSRequest(
        "GET", "http://127.0.0.1:9000/bucket/k", headers={"Host": "127.0.0.1:9000"}
    )
    S3SigV4QueryAuth(Credentials(ACCESS, SECRET), "s3", REGION, expires=60).add_auth(request)
    path, _, query = request.url.removeprefix("http://127.0.0.1:9000").partition("?")
    date = dict(pair.split("=") for pair in query.split("&"))["X-Amz-Date"]
    arrived_s = date_seconds(date)
    plain = raw("GET", path.encode(), query.encode(), arrived_s=arrived_s)
    assert isinstance(await dialect().parse(plain), Parsed)
    hashed = raw(
        "GET",
        path.encode(),
        query.encode(),
        [(b"x-amz-content-sha256", b"0" * 64)],
        arrived_s=arrived_s,
    )
    answer = await dialect().parse(hashed)
    assert isinstance(answer, Problem)
    assert answer.native == "AccessDenied"
