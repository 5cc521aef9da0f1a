"""What the store's refusals mean, as tables: its status and code in, our problem out.

Source: S3 API reference, "Error responses". The store's own code stays the native one, so that an
SDK sees what it would see without a gateway; codes about the gateway's own credentials do not.
"""

from __future__ import annotations

import re
from html import unescape
from types import MappingProxyType
from typing import Final

from gateway.machines.condition import Mismatch
from gateway.model.problem import Code, Problem
from gateway.upstream.response import Head

_CODE: Final = re.compile(rb"<Code>([A-Za-z0-9.]{1,128})</Code>")
_MESSAGE: Final = re.compile(rb"<Message>([^<]{1,1024})</Message>")

# These speak of the key the gateway signs with, which a worker neither knows nor can change.
_OUR_CREDENTIALS: Final = frozenset(
    {
        "AuthorizationHeaderMalformed",
        "AuthorizationQueryParametersError",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidSecurity",
        "InvalidToken",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "UnauthorizedAccess",
    }
)
_BY_STATUS: Final = MappingProxyType(
    {
        400: Code.REQUEST_MALFORMED,
        403: Code.ACCESS_DENIED,
        404: Code.NOT_FOUND,
        405: Code.METHOD_NOT_ALLOWED,
        409: Code.CONFLICT,
        412: Code.PRECONDITION_FAILED,
        413: Code.BODY_TOO_LARGE,
        416: Code.NOT_SATISFIABLE,
        429: Code.BUSY,
        503: Code.BUSY,
    }
)
_OF_THE_REQUEST: Final = frozenset(
    {"x-amz-content-sha256", "x-amz-date", "x-amz-id-2", "x-amz-request-id"}
)
_SHED: Final = frozenset({"SlowDown", "ServiceUnavailable", "Throttling", "ThrottlingException"})
CONFLICTS: Final = frozenset({"ConditionalRequestConflict", "OperationAborted"})


def error_code(body: bytes) -> str:
    """The `<Code>` of an error body, or "" (HEAD answers have no body)."""
    found = _CODE.search(body, 0, 8192)
    return found[1].decode() if found else ""


def error_message(body: bytes) -> str:
    """The `<Message>` of an error body, or ""."""
    found = _MESSAGE.search(body, 0, 8192)
    return unescape(found[1].decode("utf-8", "replace")) if found else ""


def is_embedded_error(body: bytes) -> bool:
    """A 200 that carries an error (S3 API reference, CopyObject and CompleteMultipartUpload)."""
    return b"<Error>" in body[:8192]


def sheds_load(status: int, code: str) -> bool:
    """The store refused before it did anything, and says so by its own code."""
    return status in {429, 503} and code in _SHED


def refusal(store: str, status: int, body: bytes, *, native: str = "") -> Problem:
    """The problem for a refusal of the store. `native` stands in where there is no body (HEAD)."""
    code = error_code(body) or native
    said = error_message(body)
    if 300 <= status < 400:
        return Problem(
            Code.UPSTREAM_FAILED,
            f"The store {store!r} redirects to another address ({code or status}), which the "
            "gateway never follows. Set its endpoint and region to the bucket's own.",
        )
    if code in _OUR_CREDENTIALS or status == 401:
        return Problem(
            Code.UPSTREAM_FAILED,
            f"The store {store!r} refused the gateway's own credentials ({code or status}). Check "
            "its access_key_id, secret_access_key, region and the gateway's clock.",
        )
    known = _BY_STATUS.get(status)
    if known is None:
        return Problem(
            Code.UPSTREAM_FAILED,
            said or f"The store {store!r} answered {status}.",
            native=code or None,
            status_override=status if status in {411, 501} else None,
        )
    return Problem(
        known,
        said or f"The store {store!r} answered {status} {code}".rstrip() + ".",
        native=code or None,
        status_override=status,
        retry_after_s=1 if known is Code.BUSY else None,
    )


def mismatch(kind: Mismatch) -> Problem:
    """The answer to a client's own condition that cannot be carried."""
    return _MISMATCHES[kind]


NO_SUCH_KEY: Final = Problem(
    Code.NOT_FOUND,
    "If-Match was sent, and there is no object under this key.",
    native="NoSuchKey",
)
CLIENT_FAILED: Final = Problem(
    Code.PRECONDITION_FAILED,
    "At least one of the preconditions you specified did not hold: read the object again and "
    "repeat the change with its ETag.",
    native="PreconditionFailed",
)
_MISMATCHES: Final = MappingProxyType(
    {
        Mismatch.DIFFERENT: CLIENT_FAILED,
        Mismatch.EXISTS: CLIENT_FAILED,
        Mismatch.ABSENT: NO_SUCH_KEY,
        Mismatch.UNSUPPORTED: Problem(
            Code.CONDITION_UNSUPPORTED,
            "A write can carry one condition: If-Match with one ETag, or If-None-Match: *.",
            native="NotImplemented",
        ),
    }
)
CHANGED: Final = Problem(
    Code.CHANGED_UNDERNEATH,
    "Somebody who is not this token's holder changed the object since the request was admitted. "
    "Nothing was written; read the object again before you repeat the change.",
)
BUSY_WRITERS: Final = Problem(
    Code.BUSY,
    "Other writes of the same holder changed the object meanwhile. Nothing was written; repeat "
    "the request.",
    retry_after_s=1,
)
KEY_TOO_LONG: Final = Problem(
    Code.REQUEST_MALFORMED,
    "Your key is too long: at most 1024 bytes of UTF-8.",
    native="KeyTooLongError",
)
LENGTH_NEEDED: Final = Problem(
    Code.REQUEST_MALFORMED,
    "Send Content-Length: a body of unknown length can be at most 1 MiB.",
    native="MissingContentLength",
    status_override=411,
    close=True,
)


def too_large(limit_bytes: int) -> Problem:
    """A body that must be held whole, and is too large for that."""
    return Problem(
        Code.BODY_TOO_LARGE,
        f"This store acts on an upload before it is complete, so a body must be held until its end "
        f"and can have at most {limit_bytes} bytes. Send less, or use another store.",
        native="EntityTooLarge",
        close=True,
    )


def conditions_refused(store: str, what: str) -> Problem:
    """The client sent a condition that this store does not honour."""
    return Problem(
        Code.CONDITION_UNSUPPORTED,
        f"The store {store!r} does not honour {what}, so the gateway does not pass it on. Leave "
        "the condition out, or use a store with conditional writes.",
        native="NotImplemented",
    )


def not_sent(store: str, why: str, *, busy: bool) -> Problem:
    """The write failed before its last bytes were sent."""
    return Problem(
        Code.BUSY if busy else Code.UPSTREAM_FAILED,
        f"The store {store!r} did not take the write ({why}). Nothing was written.",
        retry_after_s=1 if busy else None,
    )


def unknown(store: str, why: str) -> Problem:
    """The write may or may not have been applied."""
    return Problem(
        Code.OUTCOME_UNKNOWN,
        f"The store {store!r} did not tell whether the write was applied ({why}). Read the object "
        "to find out, or repeat the request with the same token.",
    )


def store_fields(head: Head) -> tuple[tuple[str, str], ...]:
    """The store's own x-amz-* fields that are passed on: versions, checksums, encryption."""
    return tuple(
        (name, value)
        for name, value in head.fields
        if name.startswith("x-amz-")
        and not name.startswith("x-amz-meta-")
        and name not in _OF_THE_REQUEST
    )
