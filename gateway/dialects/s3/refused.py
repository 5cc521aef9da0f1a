"""S3's own error codes that the dialect answers with, and how a step of it refuses a request.

Source: S3 API reference, "Error responses", list of error codes.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from gateway.model.problem import Code, Problem

_NATIVE: Final = MappingProxyType(
    {
        "AccessDenied": (403, Code.UNAUTHENTICATED),
        "AuthorizationHeaderMalformed": (400, Code.UNAUTHENTICATED),
        "AuthorizationQueryParametersError": (400, Code.UNAUTHENTICATED),
        "BadDigest": (400, Code.REQUEST_MALFORMED),
        "IncompleteBody": (400, Code.REQUEST_MALFORMED),
        "InvalidAccessKeyId": (403, Code.UNAUTHENTICATED),
        "InvalidArgument": (400, Code.REQUEST_MALFORMED),
        "InvalidBucketName": (400, Code.REQUEST_MALFORMED),
        "InvalidDigest": (400, Code.REQUEST_MALFORMED),
        "InvalidRequest": (400, Code.REQUEST_MALFORMED),
        "InvalidToken": (400, Code.UNAUTHENTICATED),
        "InvalidURI": (400, Code.REQUEST_MALFORMED),
        "KeyTooLongError": (400, Code.REQUEST_MALFORMED),
        "MalformedTrailerError": (400, Code.REQUEST_MALFORMED),
        "MetadataTooLarge": (400, Code.REQUEST_MALFORMED),
        "MissingContentLength": (411, Code.REQUEST_MALFORMED),
        "NotImplemented": (501, Code.CONDITION_UNSUPPORTED),
        "RequestTimeTooSkewed": (403, Code.UNAUTHENTICATED),
        "SignatureDoesNotMatch": (403, Code.UNAUTHENTICATED),
        "XAmzContentSHA256Mismatch": (400, Code.REQUEST_MALFORMED),
    }
)


class RefusedError(Exception):
    """A step of parsing found something wrong; `problem` is the answer."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def s3_problem(native: str, message: str) -> Problem:
    """Make a problem with S3's code, and with the status that S3 gives it."""
    status, code = _NATIVE[native]
    return Problem(code, message, native=native, status_override=status)


def refused(native: str, message: str) -> RefusedError:
    """Make the refusal of a request under one of S3's own codes."""
    return RefusedError(s3_problem(native, message))


def not_fenced(what: str) -> RefusedError:
    """Refuse what the dialect does not know: it is never passed through (deny by default)."""
    message = f"{what} is not an operation that this gateway fences; nothing was changed"
    return RefusedError(Problem(Code.NOT_FENCED, message))
