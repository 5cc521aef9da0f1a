"""What a request claims about its signature: the parsed credential, not yet verified.

Source: S3 API reference, "Authenticating Requests: Using the Authorization Header" and "... Using
Query Parameters". Everything that is not exactly of that form is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from gateway.dialects.s3.canonical import Pair
from gateway.dialects.s3.refused import RefusedError, refused
from gateway.dialects.s3.sigv4 import ALGORITHM, UNSIGNED_PAYLOAD
from gateway.ports.dialect import RawRequest

MAX_EXPIRES_S: Final = 604_800

SIGNATURE_PARAMETER: Final = b"X-Amz-Signature"
_HASH_PARAMETERS: Final = (b"X-Amz-Content-Sha256", b"X-Amz-Content-SHA256")
PRESIGN_PARAMETERS: Final = frozenset(
    {
        b"X-Amz-Algorithm",
        b"X-Amz-Credential",
        b"X-Amz-Date",
        b"X-Amz-Expires",
        b"X-Amz-SignedHeaders",
        SIGNATURE_PARAMETER,
        *_HASH_PARAMETERS,
    }
)

_DATE: Final = re.compile(rb"[0-9]{8}T[0-9]{6}Z")
_EXPIRES: Final = re.compile(rb"[0-9]{1,6}")
_SIGNATURE: Final = re.compile(rb"[0-9a-f]{64}")
_SIGNED_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_SIGV2_HINT: Final = (
    "Signature Version 2 is not accepted; use AWS4-HMAC-SHA256 (signature_version='s3v4')"
)


class Auth(StrEnum):
    """How a request is authenticated."""

    HEADER = "header"
    PRESIGNED = "presigned"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Presented:
    """A credential as presented. `expires_s` is set for presigned requests only.

    `payload` stands for the body in the canonical request: a hash or one of the fixed words.
    """

    auth: Auth
    key_id: str
    day: str
    region: str
    service: str
    signed: tuple[bytes, ...]
    signature: bytes
    date: str
    payload: str
    expires_s: int | None = None


def read_credentials(request: RawRequest, query: Sequence[Pair]) -> Presented:
    """Find the one way in which the request is signed. Raises `RefusedError`."""
    headers = request.values(b"authorization")
    names = {name for name, _ in query}
    _refuse_session_token(request, names)
    presigned = not names.isdisjoint(PRESIGN_PARAMETERS)
    if b"Signature" in names and b"AWSAccessKeyId" in names:
        raise refused("InvalidRequest", _SIGV2_HINT)
    if (headers and presigned) or len(headers) > 1:
        raise refused(
            "InvalidArgument",
            "sign a request once: by one Authorization field or by X-Amz-* query parameters",
        )
    if headers:
        return _from_header(request, headers[0])
    if presigned:
        return _from_query(request, query)
    raise refused("AccessDenied", "the request is not signed; use a key of this gateway")


def date_seconds(date: str) -> float:
    """Turn 20150830T123600Z into Unix seconds. Raises ValueError for no such time."""
    year, month, day = int(date[:4]), int(date[4:6]), int(date[6:8])
    hour, minute, second = int(date[9:11]), int(date[11:13]), int(date[13:15])
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()


def _refuse_session_token(request: RawRequest, names: set[bytes]) -> None:
    if request.values(b"x-amz-security-token") or b"X-Amz-Security-Token" in names:
        raise refused(
            "InvalidToken", "session tokens are not accepted; use a static key of this gateway"
        )


def _malformed(auth: Auth, message: str) -> RefusedError:
    if auth is Auth.HEADER:
        return refused("AuthorizationHeaderMalformed", f"the Authorization field {message}")
    return refused("AuthorizationQueryParametersError", f"the query {message}")


def _from_header(request: RawRequest, value: bytes) -> Presented:
    scheme, _, rest = value.strip(b" \t").partition(b" ")
    if scheme == b"AWS":
        raise refused("InvalidRequest", _SIGV2_HINT)
    if scheme != ALGORITHM:
        raise refused("InvalidArgument", "the Authorization scheme must be AWS4-HMAC-SHA256")
    parts = _components(rest)
    dates = request.values(b"x-amz-date")
    if len(dates) != 1:
        raise refused("AccessDenied", "send exactly one x-amz-date field with the signature")
    hashes = request.values(b"x-amz-content-sha256")
    if len(hashes) != 1:
        raise refused("InvalidRequest", "send exactly one x-amz-content-sha256 field")
    return _presented(
        Auth.HEADER,
        credential=parts[b"Credential"],
        signed=parts[b"SignedHeaders"],
        mac=parts[b"Signature"],
        date=dates[0].strip(b" \t"),
        payload=hashes[0].strip(b" \t"),
    )


def _components(text: bytes) -> dict[bytes, bytes]:
    """Split `Credential=…, SignedHeaders=…, Signature=…`: each exactly once, nothing else."""
    found: dict[bytes, bytes] = {}
    for part in text.split(b","):
        name, equals, value = part.strip(b" \t").partition(b"=")
        if not equals or name in found:
            raise _malformed(Auth.HEADER, "must list Credential, SignedHeaders and Signature once")
        found[name] = value
    if found.keys() != {b"Credential", b"SignedHeaders", b"Signature"}:
        raise _malformed(Auth.HEADER, "must hold Credential, SignedHeaders and Signature alone")
    return found


def _from_query(request: RawRequest, query: Sequence[Pair]) -> Presented:
    found: dict[bytes, bytes] = {}
    for name, value in query:
        if name in PRESIGN_PARAMETERS:
            if name in found:
                raise _malformed(Auth.PRESIGNED, f"holds {name.decode()} more than once")
            found[name] = value
    missing = PRESIGN_PARAMETERS - found.keys() - set(_HASH_PARAMETERS)
    if missing:
        raise _malformed(Auth.PRESIGNED, f"lacks {b', '.join(sorted(missing)).decode()}")
    if found[b"X-Amz-Algorithm"] != ALGORITHM:
        raise _malformed(Auth.PRESIGNED, "must have X-Amz-Algorithm=AWS4-HMAC-SHA256")
    return _presented(
        Auth.PRESIGNED,
        credential=found[b"X-Amz-Credential"],
        signed=found[b"X-Amz-SignedHeaders"],
        mac=found[SIGNATURE_PARAMETER],
        date=found[b"X-Amz-Date"],
        payload=_presigned_payload(request, found),
        expires_s=_expires_s(found[b"X-Amz-Expires"]),
    )


def _presigned_payload(request: RawRequest, found: dict[bytes, bytes]) -> bytes:
    """Read the body's hash from where it was signed; a presigned body is unsigned by default."""
    given = {found[name] for name in _HASH_PARAMETERS if name in found}
    given.update(value.strip(b" \t") for value in request.values(b"x-amz-content-sha256"))
    if len(given) > 1:
        raise _malformed(Auth.PRESIGNED, "and the fields name different values of the body's hash")
    return given.pop() if given else UNSIGNED_PAYLOAD.encode()


def _expires_s(text: bytes) -> int:
    if not _EXPIRES.fullmatch(text) or not 1 <= int(text) <= MAX_EXPIRES_S:
        raise _malformed(Auth.PRESIGNED, f"must have X-Amz-Expires from 1 to {MAX_EXPIRES_S}")
    return int(text)


def _presented(
    auth: Auth,
    *,
    credential: bytes,
    signed: bytes,
    mac: bytes,
    date: bytes,
    payload: bytes,
    expires_s: int | None = None,
) -> Presented:
    parts = credential.rsplit(b"/", 4)
    if len(parts) != 5 or not parts[0] or parts[4] != b"aws4_request" or not credential.isascii():
        raise _malformed(auth, "must have a credential <key id>/<day>/<region>/s3/aws4_request")
    if not _DATE.fullmatch(date):
        raise _malformed(auth, "comes with a date that is not of the form 20150830T123600Z")
    if parts[1] != date[:8]:
        raise _malformed(auth, "has a credential of another day than the request's date")
    if not _SIGNATURE.fullmatch(mac):
        raise _malformed(auth, "must have a signature of 64 lower-case hex digits")
    return Presented(
        auth=auth,
        key_id=parts[0].decode(),
        day=parts[1].decode(),
        region=parts[2].decode(),
        service=parts[3].decode(),
        signed=_signed_names(auth, signed),
        signature=mac,
        date=date.decode(),
        payload=payload.decode("latin-1"),
        expires_s=expires_s,
    )


def _signed_names(auth: Auth, text: bytes) -> tuple[bytes, ...]:
    names = text.split(b";")
    if not all(_SIGNED_NAME.fullmatch(name) for name in names):
        raise _malformed(auth, "must list SignedHeaders in lower case, joined with ';'")
    if len(set(names)) != len(names):
        raise _malformed(auth, "lists one of the SignedHeaders twice")
    return tuple(sorted(names))
