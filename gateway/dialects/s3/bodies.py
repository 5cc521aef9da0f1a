"""The body of an upload: decoded, and verified while it passes.

A body ends (its iteration stops) only when every hash, signature, length and checksum that came
with it holds; otherwise it raises `BodyError` in place of its end, so that nothing is committed.
Source: S3 API reference, PutObject; S3 user guide, "Checking object integrity".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.dialects.checked_body import CheckedBody
from gateway.dialects.s3.checksums import NEW_DIGEST, Digest
from gateway.dialects.s3.chunks import ChunkDecoder, SignatureChain
from gateway.dialects.s3.operations import CHECKSUM_FIELDS
from gateway.dialects.s3.payload import Payload
from gateway.dialects.s3.refused import RefusedError, refused, s3_problem
from gateway.dialects.s3.sigv4 import EMPTY_SHA256
from gateway.dialects.s3.verify import Identity
from gateway.model.object_action import Fields
from gateway.ports.body import Body, BodyError
from gateway.ports.dialect import RawRequest

_LENGTH: Final = re.compile(rb"[0-9]{1,19}")
_CHECKSUM_PREFIX: Final = b"x-amz-checksum-"


@dataclass(frozen=True, slots=True)
class Check:
    """One promise about the body. `expected` is None when it comes in the trailer `name`."""

    name: bytes
    digest: Digest
    expected: bytes | None
    code: str


class VerifiedBody(CheckedBody):
    """A body whose end is withheld until its checks hold."""

    def __init__(
        self,
        source: Body,
        length: int | None,
        checks: Sequence[Check],
        decoder: ChunkDecoder | None = None,
    ) -> None:
        super().__init__(source, length)
        self._checks = checks
        self._decoder = decoder

    async def _pieces(self) -> AsyncIterator[bytes]:
        async for raw in self._source:
            for piece in self._decode(raw):
                for check in self._checks:
                    check.digest.update(piece)
                yield piece
        self._finish()

    def _decode(self, raw: bytes) -> Sequence[bytes]:
        if self._decoder is None:
            return (raw,)
        try:
            return self._decoder.feed(raw)
        except RefusedError as refusal:
            raise BodyError(refusal.problem) from None

    def _finish(self) -> None:
        try:
            trailers = self._decoder.finish() if self._decoder is not None else {}
            expected = [
                _decoded(check.name, trailers[check.name], check.digest)
                if check.expected is None
                else check.expected
                for check in self._checks
            ]
        except RefusedError as refusal:
            raise BodyError(refusal.problem) from None
        for check, value in zip(self._checks, expected, strict=True):
            if not hmac.compare_digest(check.digest.digest(), value):
                what = check.name.decode()
                raise BodyError(
                    s3_problem(check.code, f"the body does not match {what}; send it again")
                )


def open_body(
    request: RawRequest, identity: Identity, form: Payload
) -> tuple[Body, int, str | None]:
    """Prepare the body of an upload: (verified body, decoded length, signed hash).

    Raises `RefusedError` for lengths, digests and trailers that are malformed or contradict each
    other.
    """
    trailer = _announced_trailer(request, form)
    checks = [*_content_md5(request), *_checksum(request, trailer)]
    if form.chunked:
        length = _length(request, b"x-amz-decoded-content-length")
        chain = None
        if form.signed_chunks and identity.seed is not None:
            chain = SignatureChain(identity.seed)
        names = frozenset((trailer,)) if trailer is not None else None
        decoder = ChunkDecoder(length, signed=form.signed_chunks, chain=chain, trailers=names)
        return VerifiedBody(request.body, length, checks, decoder), length, None
    _refuse_framing_without_form(request)
    length = _length(request, b"content-length")
    if form is not Payload.HASHED:
        body = VerifiedBody(request.body, length, checks) if checks else request.body
        return body, length, None
    sha256 = identity.payload or ""
    signed = Check(
        b"x-amz-content-sha256",
        hashlib.sha256(),
        bytes.fromhex(sha256),
        "XAmzContentSHA256Mismatch",
    )
    return VerifiedBody(request.body, length, [signed, *checks]), length, sha256


def sent_digests(request: RawRequest) -> Fields:
    """The digests of an upload that came in its head, for its retries to be compared by."""
    return tuple(
        sorted(
            (name.decode(), value.strip(b" \t").decode("latin-1"))
            for name, value in request.fields
            if name == b"content-md5" or name in CHECKSUM_FIELDS
        )
    )


def check_no_body(request: RawRequest, identity: Identity, form: Payload) -> None:
    """Refuse a body where the operation has none: it would be neither read nor verified."""
    if request.values(b"transfer-encoding") or request.values(b"content-length") not in (
        [],
        [b"0"],
    ):
        raise refused("InvalidRequest", f"{request.method} takes no body here; send none")
    if form is Payload.HASHED and identity.payload != EMPTY_SHA256:
        raise refused("XAmzContentSHA256Mismatch", "the signed hash is not that of the empty body")


def one_value(request: RawRequest, name: bytes) -> bytes | None:
    """Read a field that may be sent once, without blanks around it; None when it was not sent."""
    values = request.values(name)
    if len(values) > 1:
        raise refused("InvalidRequest", f"{name.decode()} was sent more than once; send one")
    return values[0].strip(b" \t") if values else None


def _length(request: RawRequest, name: bytes) -> int:
    text = one_value(request, name)
    if text is None:
        raise refused("MissingContentLength", f"send {name.decode()}: the body's length in bytes")
    if not _LENGTH.fullmatch(text):
        raise refused("InvalidArgument", f"{name.decode()} must be a number of bytes")
    return int(text)


def _refuse_framing_without_form(request: RawRequest) -> None:
    """A framed body that is not announced as one would be stored with its framing."""
    codings = b",".join(request.values(b"content-encoding")).lower().split(b",")
    if b"aws-chunked" in [coding.strip() for coding in codings]:
        raise refused(
            "InvalidRequest",
            "aws-chunked needs one of the STREAMING- forms in x-amz-content-sha256",
        )


def _announced_trailer(request: RawRequest, form: Payload) -> bytes | None:
    name = one_value(request, b"x-amz-trailer")
    if not form.trailer:
        if name is not None:
            raise refused("InvalidRequest", "x-amz-trailer needs a body form that has a trailer")
        return None
    if name is None or name.lower() not in CHECKSUM_FIELDS:
        names = ", ".join(sorted(field.decode() for field in CHECKSUM_FIELDS))
        raise refused("InvalidRequest", f"x-amz-trailer must name one of {names}")
    return name.lower()


def _content_md5(request: RawRequest) -> list[Check]:
    text = one_value(request, b"content-md5")
    if text is None:
        return []
    digest = hashlib.md5(usedforsecurity=False)
    return [Check(b"content-md5", digest, _decoded(b"content-md5", text, digest), "BadDigest")]


def _checksum(request: RawRequest, trailer: bytes | None) -> list[Check]:
    sent = [field for field in request.fields if field[0] in CHECKSUM_FIELDS]
    if len(sent) + (trailer is not None) > 1:
        raise refused("InvalidRequest", "send one x-amz-checksum- field or trailer, not several")
    if sent:
        name, text = sent[0][0], sent[0][1].strip(b" \t")
        digest = _new_digest(name)
        return [Check(name, digest, _decoded(name, text, digest), "BadDigest")]
    return [] if trailer is None else [Check(trailer, _new_digest(trailer), None, "BadDigest")]


def _new_digest(field: bytes) -> Digest:
    return NEW_DIGEST[field.removeprefix(_CHECKSUM_PREFIX).decode()]()


def _decoded(name: bytes, text: bytes, digest: Digest) -> bytes:
    """Decode base64 of the digest's own size; `digest` tells what that is."""
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        value = b""
    if len(value) != len(digest.digest()):
        code = "InvalidDigest" if name == b"content-md5" else "InvalidRequest"
        raise refused(code, f"{name.decode()} must be the base64 of a digest of this kind")
    return value
