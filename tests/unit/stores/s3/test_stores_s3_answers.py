"""Refusals of the store as tables: what SDKs know passes, what is the gateway's own does not."""

from __future__ import annotations

import pytest

from gateway.machines.condition import NO_GUARD, Guard
from gateway.model.problem import Code
from gateway.stores.s3.answers import (
    error_code,
    error_message,
    is_embedded_error,
    refusal,
    sheds_load,
    store_fields,
)
from gateway.stores.s3.profile import WEAK, Profile, guarantee
from gateway.stores.s3.store import parse_endpoint
from gateway.stores.s3.verdict import condition_failed, is_unclear
from gateway.upstream.response import Head

CREATE, REPLACE = Guard(if_none_match=True), Guard(if_match='"e"')


def said(code: str, message: str = "as it is &amp; was") -> bytes:
    """An error document."""
    return f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


@pytest.mark.parametrize(
    "status,code,expected,shown",
    [
        (404, "NoSuchKey", Code.NOT_FOUND, 404),
        (404, "NoSuchBucket", Code.NOT_FOUND, 404),
        (403, "AccessDenied", Code.ACCESS_DENIED, 403),
        (400, "EntityTooSmall", Code.REQUEST_MALFORMED, 400),
        (400, "BadDigest", Code.REQUEST_MALFORMED, 400),
        (409, "OperationAborted", Code.CONFLICT, 409),
        (412, "PreconditionFailed", Code.PRECONDITION_FAILED, 412),
        (416, "InvalidRange", Code.NOT_SATISFIABLE, 416),
        (501, "NotImplemented", Code.UPSTREAM_FAILED, 501),
        (503, "SlowDown", Code.BUSY, 503),
        (500, "InternalError", Code.UPSTREAM_FAILED, 502),
        (418, "Teapot", Code.UPSTREAM_FAILED, 502),
    ],
)
def test_native_codes(status: int, code: str, expected: Code, shown: int) -> None:
    """The store's own code and text stay, under the catalogue's code."""
    problem = refusal("lake", status, said(code))
    assert (problem.code, problem.status, problem.native) == (expected, shown, code)
    assert problem.message == "as it is & was"
    assert (problem.retry_after_s is not None) is (status == 503)


@pytest.mark.parametrize("status,code", [(403, "SignatureDoesNotMatch"), (400, "ExpiredToken")])
def test_own_credentials(status: int, code: str) -> None:
    """What is wrong with the gateway's key is told as such: a worker cannot change it."""
    problem = refusal("lake", status, said(code))
    assert (problem.code, problem.status, problem.native) == (Code.UPSTREAM_FAILED, 502, None)
    assert "'lake'" in problem.message
    assert "secret_access_key" in problem.message


@pytest.mark.parametrize("status", [301, 307, 308])
def test_redirects(status: int) -> None:
    """A redirect is an error of configuration, and its address goes to nobody."""
    problem = refusal("lake", status, said("PermanentRedirect", "http://elsewhere"))
    assert problem.code is Code.UPSTREAM_FAILED
    assert "elsewhere" not in problem.message
    assert "endpoint" in problem.message


def test_bodies_that_say_nothing() -> None:
    """HEAD answers and strange bodies give no code; the status is told."""
    assert error_code(b"") == error_message(b"") == error_code(b"<Code></Code>") == ""
    assert refusal("lake", 404, b"", native="NoSuchKey").native == "NoSuchKey"
    assert "answered 403" in refusal("lake", 403, b"<html>").message
    assert is_embedded_error(b"   <?xml?><Error><Code>X</Code></Error>")
    assert not is_embedded_error(b"<CopyObjectResult/>")


@pytest.mark.parametrize(
    "status,code,guard,failed",
    [
        (412, "PreconditionFailed", CREATE, True),
        (412, "", REPLACE, True),
        (404, "NoSuchKey", REPLACE, True),
        (404, "", REPLACE, True),
        (404, "NoSuchBucket", REPLACE, False),
        (404, "NoSuchKey", CREATE, False),
        (409, "ConditionalRequestConflict", REPLACE, True),
        (409, "OperationAborted", REPLACE, True),
        (409, "ObjectLocked", REPLACE, False),
        (409, "AnythingElse", CREATE, True),
        (403, "AccessDenied", CREATE, False),
        (500, "UnknownError", REPLACE, False),
        (404, "NoSuchKey", NO_GUARD, False),
    ],
)
def test_failed_conditions(status: int, code: str, guard: Guard, failed: bool) -> None:
    """Which answers say that our condition did not hold, and that nothing landed."""
    assert condition_failed(status, code, guard) is failed


@pytest.mark.parametrize(
    "status,code,unclear",
    [
        (500, "InternalError", True),
        (502, "", True),
        (503, "", True),
        (504, "", True),
        (503, "SlowDown", False),
        (503, "ServiceUnavailable", False),
        (429, "", False),
        (501, "NotImplemented", False),
        (404, "NoSuchKey", False),
    ],
)
def test_unclear_errors(status: int, code: str, unclear: bool) -> None:
    """An error is unclear unless the store itself says that it did nothing."""
    assert is_unclear(status, code) is unclear
    assert not (unclear and sheds_load(status, code))


def test_passed_fields() -> None:
    """Versions and checksums pass; metadata and ids of the exchange do not."""
    head = Head(
        200,
        (
            ("etag", '"e"'),
            ("x-amz-version-id", "v"),
            ("x-amz-request-id", "r"),
            ("x-amz-id-2", "i"),
            ("x-amz-meta-fencegate", "s"),
            ("x-amz-checksum-crc32", "c"),
        ),
    )
    assert store_fields(head) == (("x-amz-version-id", "v"), ("x-amz-checksum-crc32", "c"))


def test_conditions_as_the_store_wants_them() -> None:
    """Quoted or bare, create or replace, or none at all."""
    assert Profile().fields(REPLACE) == [(b"if-match", b'"e"')]
    assert Profile(quoted=False).fields(REPLACE) == [(b"if-match", b"e")]
    assert Profile().fields(CREATE) == [(b"if-none-match", b"*")]
    assert Profile().fields(NO_GUARD) == []
    assert WEAK.fields(REPLACE) == WEAK.fields(CREATE) == []


def test_guarantees() -> None:
    """The promise names the settle time, and what is weaker about this very store."""
    assert "settle_ms = 10000" in guarantee(Profile(), 10_000)
    assert "with different bytes" in guarantee(Profile(), 1)
    assert "with different bytes" not in guarantee(Profile(unique_etags=True), 1)
    assert "DELETE takes no condition" in guarantee(Profile(delete_if_match=False), 1)
    assert "WEAKER" in guarantee(WEAK, 1)
    assert "held whole" in guarantee(Profile(keeps_half=True), 1)


def test_endpoints() -> None:
    """The address of the store, and what is wrong with one."""
    plain = parse_endpoint("http://127.0.0.1:9000/")
    assert (plain.host, plain.port, plain.authority) == ("127.0.0.1", 9000, "127.0.0.1:9000")
    assert plain.tls is None
    secure = parse_endpoint("https://s3.example.org")
    assert (secure.host, secure.port, secure.authority) == (
        "s3.example.org",
        443,
        "s3.example.org",
    )
    assert secure.tls is not None
    for wrong in (
        "s3.example.org",
        "ftp://x",
        "http://",
        "http://x/path",
        "http://u@x",
        "http://x?q",
    ):
        with pytest.raises(ValueError, match="endpoint"):
            parse_endpoint(wrong)
