"""From an outcome to S3's answer.

Source: S3 API reference, "Error responses" and the response syntax of each operation; wire
contract: the fence's own codes are the same in every dialect, S3's stand for all that S3 knows.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, assert_never

from gateway.dialects.s3.answer_fields import (
    encode_fields,
    object_fields,
    relayed_fields,
    vendor_fields,
)
from gateway.dialects.s3.canonical import canonical_path
from gateway.dialects.s3.documents import (
    buckets_document,
    error_document,
    listing_document,
    location_document,
)
from gateway.dialects.s3.listing import ListingQuery
from gateway.dialects.s3.parse import Context
from gateway.model.object_action import GetObject, HeadBucket
from gateway.model.outcome import Applied, Outcome, ReadFailed, ReadOk, Refused, Unknown
from gateway.model.problem import Code, Problem
from gateway.model.reply import (
    BucketFound,
    Buckets,
    Listing,
    NotModified,
    ObjectDeleted,
    ObjectFound,
    ObjectPut,
    ReadReply,
    Relay,
    Rows,
    WriteReply,
)
from gateway.ports.dialect import Parsed, RawFields, RawRequest, Reply

_S3_CODE: Final = MappingProxyType(
    {
        Code.ACCESS_DENIED: "AccessDenied",
        Code.BODY_TOO_LARGE: "EntityTooLarge",
        Code.CONDITION_UNSUPPORTED: "NotImplemented",
        Code.CONFLICT: "OperationAborted",
        Code.INTERNAL: "InternalError",
        Code.METHOD_NOT_ALLOWED: "MethodNotAllowed",
        Code.NOT_SATISFIABLE: "InvalidRange",
        Code.PRECONDITION_FAILED: "PreconditionFailed",
        Code.REQUEST_MALFORMED: "InvalidRequest",
        Code.REQUEST_TIMEOUT: "RequestTimeout",
        Code.UNAUTHENTICATED: "AccessDenied",
    }
)
"""Catalogue codes that S3 has a code of its own for; every other one keeps its name."""


def render_outcome(
    request: RawRequest, parsed: Parsed | None, outcome: Outcome, region: str
) -> Reply:
    """Give an outcome its wire form."""
    match outcome:
        case Applied(reply=reply) | ReadOk(reply=reply):
            return _reply(request, parsed, reply, region)
        case Refused(problem=problem) | Unknown(problem=problem) | ReadFailed(problem=problem):
            return _error(request, parsed, problem, region)
        case _:
            assert_never(outcome)


def error_code(problem: Problem, parsed: Parsed | None) -> str:
    """Name a problem as S3 does, where S3 has a name for it."""
    if problem.native is not None:
        return problem.native
    if problem.code is Code.NOT_FOUND:
        of_object = parsed is not None and isinstance(parsed.operation.action, GetObject)
        return "NoSuchKey" if of_object else "NoSuchBucket"
    return _S3_CODE.get(problem.code, problem.code.value)


def _error(request: RawRequest, parsed: Parsed | None, problem: Problem, region: str) -> Reply:
    code = error_code(problem, parsed)
    elements = {"Code": code, "Message": problem.message}
    if problem.details is not None:
        elements["Details"] = problem.details
    if problem.hint is not None:
        elements["Hint"] = problem.hint
    if code == "AuthorizationHeaderMalformed":
        elements["Region"] = region
    elements["Resource"] = canonical_path(request.path).decode("ascii")
    elements["RequestId"] = request.request_id
    fields: list[tuple[str, str]] = []
    if problem.retry_after_s is not None:
        fields.append(("retry-after", str(problem.retry_after_s)))
    if problem.allow is not None:
        fields.append(("allow", problem.allow))
    body = error_document(elements)
    return _with_body(request, problem.status, encode_fields(fields), body, close=problem.close)


def _reply(
    request: RawRequest, parsed: Parsed | None, reply: ReadReply | WriteReply, region: str
) -> Reply:
    match reply:
        case ObjectFound():
            return _object(request, reply, _context(parsed))
        case NotModified(etag=etag):
            return _bare(request, 304, encode_fields([("etag", etag)]))
        case ObjectPut(etag=etag, extra=extra):
            fields = (
                *encode_fields([("etag", etag), ("content-length", "0")]),
                *vendor_fields(extra),
            )
            return _bare(request, 200, fields)
        case ObjectDeleted(extra=extra):
            return _bare(request, 204, vendor_fields(extra))
        case Listing():
            asked = _context(parsed).listing or ListingQuery(2, {}, 1000)
            return _with_body(request, 200, (), listing_document(reply, asked))
        case Buckets():
            return _with_body(request, 200, (), buckets_document(reply))
        case BucketFound():
            return _bucket(request, parsed, reply)
        case Relay(status=status, fields=fields, body=body):
            return _relay(request, status, relayed_fields(fields), body)
        case Rows():
            problem = Problem(Code.INTERNAL, "the store answered rows to an s3 operation")
            return _error(request, parsed, problem, region)
        case _:
            assert_never(reply)


def _context(parsed: Parsed | None) -> Context:
    if parsed is not None and isinstance(parsed.context, Context):
        return parsed.context
    return Context()


def _object(request: RawRequest, found: ObjectFound, context: Context) -> Reply:
    fields = object_fields(found, context.overrides) + _identification(request)
    status = 200 if found.span is None else 206
    return Reply(status, fields, found.chunks if found.chunks is not None else b"")


def _bucket(request: RawRequest, parsed: Parsed | None, found: BucketFound) -> Reply:
    action = parsed.operation.action if parsed is not None else None
    if isinstance(action, HeadBucket) and action.location:
        return _with_body(request, 200, (), location_document(found.region))
    fields = [("x-amz-bucket-region", found.region), ("content-length", "0")]
    return _bare(request, 200, encode_fields(fields))


def _relay(request: RawRequest, status: int, fields: RawFields, body: bytes) -> Reply:
    if request.method == "HEAD" or status in (204, 304):
        return _bare(request, status, fields)
    length = (b"content-length", str(len(body)).encode())
    return Reply(status, (*fields, length, *_identification(request)), body)


def _with_body(
    request: RawRequest, status: int, fields: RawFields, body: bytes, *, close: bool = False
) -> Reply:
    """Answer with a document; HEAD gets the status and the fields alone."""
    if request.method == "HEAD":
        return Reply(status, fields + _identification(request), close=close)
    described = (
        (b"content-type", b"application/xml"),
        (b"content-length", str(len(body)).encode()),
    )
    return Reply(status, described + fields + _identification(request), body, close)


def _bare(request: RawRequest, status: int, fields: RawFields) -> Reply:
    return Reply(status, fields + _identification(request))


def _identification(request: RawRequest) -> RawFields:
    return ((b"x-amz-request-id", request.request_id.encode("latin-1")),)
