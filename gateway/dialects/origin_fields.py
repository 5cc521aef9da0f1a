"""The fields of a request that may go on to an HTTP origin (decisions, "Headers upstream").

Every end-to-end field goes on, values and order untouched, except the fence's, the gateway's own
Authorization, and those that the gateway writes anew. Refused are fields with which some servers
take another path than that of the request line: the path is what was compared.
"""

from __future__ import annotations

from typing import Final

from gateway.model.problem import Code, Problem
from gateway.ports.dialect import RawFields

# RFC 9110, section 7.6.1, and what is written anew for the origin's connection.
_NOT_FORWARDED: Final = frozenset(
    {
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_PATH_OVERRIDES: Final = frozenset({b"x-original-url", b"x-rewrite-url"})
_CONDITIONS: Final = frozenset({b"if-match", b"if-none-match"})
_FENCE: Final = b"x-fence-"
_SINGLE: Final = frozenset({b"idempotency-key", b"content-type", b"content-range"})


def forwarded(fields: RawFields, *, mutates: bool, own_authorization: bool) -> RawFields:
    """The fields that go on. With `own_authorization` it was meant for the gateway, and stays.

    The conditions of a mutation become the gateway's to combine with its own.
    """
    gone = _NOT_FORWARDED | _CONDITIONS if mutates else _NOT_FORWARDED
    return tuple(
        field
        for field in fields
        if field[0] not in gone
        and not field[0].startswith(_FENCE)
        and not (own_authorization and field[0] == b"authorization")
    )


def complaint(fields: RawFields, *, mutates: bool) -> Problem | None:
    """What is ambiguous in a request's fields, or would be checked by nobody."""
    seen: set[bytes] = set()
    for name, _ in fields:
        if name in _PATH_OVERRIDES:
            text = f"{name.decode('ascii')} must not be sent: the path stands in the request line"
            return Problem(Code.REQUEST_MALFORMED, text)
        if name in _SINGLE and name in seen:
            return Problem(Code.REQUEST_MALFORMED, f"send {name.decode('ascii')} at most once")
        seen.add(name)
    if mutates and b"if-unmodified-since" in seen:
        text = "If-Unmodified-Since is not checked on writes; send If-Match with the entity tag"
        return Problem(Code.CONDITION_UNSUPPORTED, text)
    return None
