"""Bodies are true before they end: hashes, chunk signatures, lengths, checksums, trailers."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.s3.chunks import ChunkDecoder
from gateway.dialects.s3.refused import RefusedError
from gateway.dialects.s3.sigv4 import EMPTY_SHA256, day_key, signature
from gateway.model.object_action import PutObject
from gateway.ports.body import BodyError
from gateway.ports.dialect import Parsed, RawRequest
from tests.unit.dialects.s3.s3_requests import (
    REGION,
    SECRET,
    Pieces,
    parsed,
    problem,
    raw,
    read_all,
    signed,
)

DATA = b"The quick brown fox jumps over the lazy dog" * 5
CRC32 = base64.b64encode(zlib.crc32(DATA).to_bytes(4, "big"))
SHA256 = base64.b64encode(hashlib.sha256(DATA).digest())
MD5 = base64.b64encode(hashlib.md5(DATA).digest())
DATE = "20270115T080000Z"

UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
SIGNED_CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"


def cut(data: bytes, size: int) -> list[bytes]:
    """Cut data into pieces of a size."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def plain_frames(pieces: list[bytes], trailer: bytes = b"") -> bytes:
    """Frame pieces without signatures."""
    frames = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return frames + b"0\r\n" + trailer + b"\r\n"


class Signer:
    """Signs chunks as a client does, written from the specification apart from the verifier."""

    def __init__(self, request: RawRequest) -> None:
        authorization = dict(request.fields)[b"authorization"].decode()
        self.previous = authorization.rpartition("=")[2]
        self.scope = f"{DATE[:8]}/{REGION}/s3/aws4_request"
        self.key = day_key(SECRET, DATE[:8], REGION)

    def chunk(self, data: bytes) -> bytes:
        text = (
            f"AWS4-HMAC-SHA256-PAYLOAD\n{DATE}\n{self.scope}\n{self.previous}\n"
            f"{EMPTY_SHA256}\n{hashlib.sha256(data).hexdigest()}"
        )
        self.previous = signature(self.key, text.encode())
        end = b"\r\n" if data else b""
        return b"%x;chunk-signature=%s\r\n%s%s" % (
            len(data), self.previous.encode(), data, end
        )  # fmt: skip

    def trailer(self, name: bytes, value: bytes) -> bytes:
        line = name + b":" + value
        digest = hashlib.sha256(line + b"\n").hexdigest()
        text = f"AWS4-HMAC-SHA256-TRAILER\n{DATE}\n{self.scope}\n{self.previous}\n{digest}"
        mac = signature(self.key, text.encode())
        return line + b"\r\nx-amz-trailer-signature:" + mac.encode() + b"\r\n\r\n"


def upload(
    payload: str,
    body: bytes = b"",
    *fields: tuple[bytes, bytes],
    length: int | None = len(DATA),
    piece: int = 7,
) -> RawRequest:
    """Make a signed upload in aws-chunked framing."""
    given_fields = list(fields)
    if length is not None:
        given_fields.append((b"x-amz-decoded-content-length", str(length).encode()))
    if payload in (UNSIGNED_TRAILER, SIGNED_TRAILER) and all(
        name != b"x-amz-trailer" for name, _ in fields
    ):
        given_fields.append((b"x-amz-trailer", b"x-amz-checksum-crc32"))
    pieces = Pieces(*cut(body, piece))
    return signed(
        "PUT", b"/bucket/k", fields=given_fields, body=pieces, payload=payload,
        unsigned=[(b"content-length", str(len(body)).encode())],
    )  # fmt: skip


def with_body(request: RawRequest, body: bytes, piece: int = 7) -> RawRequest:
    """Give a signed request its body, which depends on its signature."""
    return raw(
        request.method, request.path, request.query, request.fields, Pieces(*cut(body, piece))
    )


async def refused_body(understood: Parsed) -> tuple[str | None, int, bytes]:
    """Read a body that must not end; returns code, status, and what was given out before."""
    seen = b""
    with pytest.raises(BodyError) as caught:  # noqa: PT012 - the iteration is what raises
        async for piece in understood.body:
            seen += piece
    return caught.value.problem.native, caught.value.problem.status, seen


# --- plain bodies ---------------------------------------------------------------------------------
async def test_a_signed_hash_is_verified_in_flight() -> None:
    """The body's own hash lets it end, and is handed on for the store to verify again."""
    understood = await parsed(signed("PUT", b"/bucket/k", body=DATA))
    action = understood.operation.action
    assert isinstance(action, PutObject)
    assert (action.length, action.sha256) == (len(DATA), hashlib.sha256(DATA).hexdigest())
    assert understood.body.length == len(DATA)
    assert await read_all(understood.body) == DATA


async def test_a_wrong_hash_stops_the_body_before_its_end() -> None:
    """Other bytes than were signed: the iteration raises where it would have ended."""
    request = signed("PUT", b"/bucket/k", payload=hashlib.sha256(b"other").hexdigest(), body=DATA)
    answer = await refused_body(await parsed(request))
    assert answer == ("XAmzContentSHA256Mismatch", 400, DATA)


async def test_an_unsigned_body_passes_untouched() -> None:
    """UNSIGNED-PAYLOAD without checksums costs nothing: the edge's own body is used."""
    request = signed("PUT", b"/bucket/k", payload="UNSIGNED-PAYLOAD", body=DATA)
    understood = await parsed(request)
    assert understood.body is request.body
    assert isinstance(understood.operation.action, PutObject)
    assert understood.operation.action.sha256 is None


CHECKSUMS = {
    b"x-amz-checksum-crc32": CRC32,
    b"x-amz-checksum-sha256": SHA256,
    b"x-amz-checksum-sha1": base64.b64encode(hashlib.sha1(DATA).digest()),
    b"content-md5": MD5,
}


@pytest.mark.parametrize("name", CHECKSUMS)
@pytest.mark.parametrize("payload", ["UNSIGNED-PAYLOAD", None], ids=["unsigned", "hashed"])
async def test_checksums_beside_the_body_are_verified(name: bytes, payload: str | None) -> None:
    """A right one lets the body end, another one is BadDigest, one that is none is 400."""
    value = CHECKSUMS[name]
    right = signed("PUT", b"/bucket/k", fields=[(name, value)], body=DATA, payload=payload)
    assert await read_all((await parsed(right)).body) == DATA
    other = base64.b64encode(bytes(len(base64.b64decode(value))))
    wrong = signed("PUT", b"/bucket/k", fields=[(name, other)], body=DATA, payload=payload)
    assert await refused_body(await parsed(wrong)) == ("BadDigest", 400, DATA)
    malformed = "InvalidDigest" if name == b"content-md5" else "InvalidRequest"
    for text in (b"", b"AAA", b"!" + value[1:], value + b"AAAA", value[4:]):
        request = signed("PUT", b"/bucket/k", fields=[(name, text)], body=DATA, payload=payload)
        assert ((await problem(request)).native, text) == (malformed, text)


async def test_one_checksum_at_most() -> None:
    """Two algorithms at once are refused, as S3 does; a Content-MD5 beside one is fine."""
    two = [(b"x-amz-checksum-crc32", CRC32), (b"x-amz-checksum-sha256", SHA256)]
    assert (await problem(signed("PUT", b"/bucket/k", fields=two, body=DATA))).native == (
        "InvalidRequest"
    )
    both = [(b"x-amz-checksum-crc32", CRC32), (b"content-md5", MD5)]
    assert await read_all((await parsed(signed("PUT", b"/bucket/k", fields=both, body=DATA))).body)


async def test_a_body_without_a_length_is_refused() -> None:
    """S3 stores nothing of unknown length: 411."""
    request = signed(
        "PUT", b"/bucket/k", body=Pieces(DATA), payload="UNSIGNED-PAYLOAD",
        unsigned=[(b"transfer-encoding", b"chunked")],
    )  # fmt: skip
    answer = await problem(request)
    assert (answer.native, answer.status) == ("MissingContentLength", 411)


async def test_framing_that_is_not_announced_is_refused() -> None:
    """aws-chunked under a plain hash would be stored with its framing."""
    fields = [(b"content-encoding", b"gzip, AWS-chunked")]
    assert (await problem(signed("PUT", b"/bucket/k", fields=fields, body=DATA))).native == (
        "InvalidRequest"
    )


async def test_a_broken_connection_is_passed_on() -> None:
    """What the edge raises goes through unchanged."""

    class Broken(Pieces):
        async def _each(self):
            yield DATA[:9]
            raise ConnectionError("gone")

    request = signed(
        "PUT", b"/bucket/k", body=Broken(DATA), payload=hashlib.sha256(DATA).hexdigest(),
        unsigned=[(b"content-length", b"215")],
    )  # fmt: skip
    with pytest.raises(ConnectionError):
        await read_all((await parsed(request)).body)


# --- aws-chunked ----------------------------------------------------------------------------------
@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 300), piece=st.integers(1, 400))
async def test_chunks_of_any_size_cut_anywhere(size: int, piece: int) -> None:
    """The decoded body does not depend on how it was framed, or on how it arrived."""
    trailer = b"x-amz-checksum-crc32:" + CRC32 + b"\r\n"
    body = plain_frames(cut(DATA, size), trailer)
    understood = await parsed(upload(UNSIGNED_TRAILER, body, piece=piece))
    assert understood.body.length == len(DATA)
    assert await read_all(understood.body) == DATA

    request = upload(SIGNED_TRAILER)
    signer = Signer(request)
    chunks = b"".join(signer.chunk(part) for part in [*cut(DATA, size), b""])
    body = chunks + signer.trailer(b"x-amz-checksum-crc32", CRC32)
    assert await read_all((await parsed(with_body(request, body, piece))).body) == DATA

    request = upload(SIGNED_CHUNKS)
    signer = Signer(request)
    body = b"".join(signer.chunk(part) for part in [*cut(DATA, size), b""]) + b"\r\n"
    assert await read_all((await parsed(with_body(request, body, piece))).body) == DATA


async def test_an_empty_object_in_chunks() -> None:
    """Zero bytes are a last chunk alone."""
    empty = base64.b64encode(bytes(4))
    body = plain_frames([], b"x-amz-checksum-crc32:" + empty + b"\r\n")
    assert await read_all((await parsed(upload(UNSIGNED_TRAILER, body, length=0))).body) == b""


def signed_body(edit: Callable[[list[bytes]], list[bytes]]) -> RawRequest:
    """Make a signed chunked upload whose frames were changed after signing."""
    request = upload(SIGNED_CHUNKS)
    signer = Signer(request)
    frames = [signer.chunk(part) for part in [*cut(DATA, 100), b""]]
    return with_body(request, b"".join(edit(frames)) + b"\r\n")


@pytest.mark.parametrize(
    "edit",
    [
        lambda frames: [frames[0].replace(b"quick", b"quack"), *frames[1:]],
        lambda frames: [frames[1], frames[0], *frames[2:]],
        lambda frames: [frames[0], frames[0], *frames[2:]],
        lambda frames: [*frames[:-1], frames[-1][:-66] + b"0" * 64 + b"\r\n"],
    ],
    ids=["data", "order", "repeated", "last"],
)
async def test_a_broken_chain_is_refused(edit: Callable[[list[bytes]], list[bytes]]) -> None:
    """A chunk changed, moved, repeated, or a wrong signature of the last: never ends."""
    native, status, _ = await refused_body(await parsed(signed_body(edit)))
    assert (native, status) == ("SignatureDoesNotMatch", 403)


async def test_the_unbroken_chain_is_accepted() -> None:
    """The control of the test above."""
    assert await read_all((await parsed(signed_body(lambda frames: frames))).body) == DATA


async def test_a_wrong_trailer_signature_is_refused() -> None:
    """A trailer replaced on the way does not match the chain."""
    request = upload(SIGNED_TRAILER)
    signer = Signer(request)
    chunks = signer.chunk(DATA) + signer.chunk(b"")
    trailer = signer.trailer(b"x-amz-checksum-crc32", CRC32)
    for broken in (
        trailer.replace(CRC32, b"AAAAAA=="),
        trailer.replace(b"signature:", b"signature:0", 1),
    ):
        answer = await refused_body(await parsed(with_body(request, chunks + broken)))
        assert answer[:2] == ("SignatureDoesNotMatch", 403)
    missing = b"x-amz-checksum-crc32:" + CRC32 + b"\r\n\r\n"
    answer = await refused_body(await parsed(with_body(request, chunks + missing)))
    assert answer[:2] == ("MalformedTrailerError", 400)


GOOD = b"x-amz-checksum-crc32:" + CRC32 + b"\r\n"
FRAMES = plain_frames([DATA], GOOD)

BAD_FRAMES = {
    "nothing": (b"", "IncompleteBody"),
    "cut in a size": (FRAMES[:1], "IncompleteBody"),
    "cut in the data": (FRAMES[:50], "IncompleteBody"),
    "cut after the data": (FRAMES[: FRAMES.index(b"\r\n0\r\n")], "IncompleteBody"),
    "cut before the last chunk": (FRAMES[: FRAMES.index(b"0\r\nx-amz")], "IncompleteBody"),
    "cut before the trailer": (FRAMES[: FRAMES.index(b"x-amz")], "IncompleteBody"),
    "cut before the end": (FRAMES[:-2], "IncompleteBody"),
    "bytes after the end": (FRAMES + b"x", "InvalidRequest"),
    "a second message": (FRAMES + FRAMES, "InvalidRequest"),
    "less than announced": (plain_frames([DATA[:-1]], GOOD), "IncompleteBody"),
    "more than announced": (plain_frames([DATA + b"x"], GOOD), "IncompleteBody"),
    "more in a second chunk": (plain_frames([DATA, b"x"], GOOD), "IncompleteBody"),
    "a huge size": (b"f" * 16 + b"\r\n" + DATA, "IncompleteBody"),
    "a size too long": (b"0" * 17 + b"\r\n" + DATA, "InvalidRequest"),
    "a size with a sign": (FRAMES.replace(b"d7", b"+d7", 1), "InvalidRequest"),
    "a size with 0x": (FRAMES.replace(b"d7", b"0xd7", 1), "InvalidRequest"),
    "a size with an underscore": (FRAMES.replace(b"d7", b"d_7", 1), "InvalidRequest"),
    "a blank before the size": (b" " + FRAMES, "InvalidRequest"),
    "an extension": (FRAMES.replace(b"d7", b"d7;a=b", 1), "InvalidRequest"),
    "a signature that was not announced": (
        FRAMES.replace(b"d7", b"d7;chunk-signature=" + b"0" * 64, 1),
        "InvalidRequest",
    ),
    "a bare line feed": (FRAMES.replace(b"\r\n", b"\n", 1), "InvalidRequest"),
    "a bare carriage return": (FRAMES.replace(b"\r\n", b"\r\r\n", 1), "InvalidRequest"),
    "data with more than CRLF behind it": (
        FRAMES.replace(b"dog\r\n0", b"dogxx\r\n0"),
        "InvalidRequest",
    ),
    "data without CRLF": (FRAMES.replace(b"dog\r\n0", b"dog0"), "InvalidRequest"),
    "a line without end": (b"a" * 300, "InvalidRequest"),
    "no trailer": (plain_frames([DATA]), "MalformedTrailerError"),
    "another trailer": (
        plain_frames([DATA], b"x-amz-checksum-sha256:" + SHA256 + b"\r\n"),
        "MalformedTrailerError",
    ),
    "a trailer too many": (
        plain_frames([DATA], GOOD + b"x-fence-token:7\r\n"),
        "MalformedTrailerError",
    ),
    "a trailer twice": (plain_frames([DATA], GOOD + GOOD), "MalformedTrailerError"),
    "a folded trailer": (plain_frames([DATA], GOOD + b" more\r\n"), "MalformedTrailerError"),
    "a trailer without colon": (plain_frames([DATA], b"x\r\n"), "MalformedTrailerError"),
    "a signature without need": (
        plain_frames([DATA], GOOD + b"x-amz-trailer-signature:" + b"0" * 64 + b"\r\n"),
        "MalformedTrailerError",
    ),
    "a wrong checksum": (
        plain_frames([DATA], b"x-amz-checksum-crc32:AAAAAA==\r\n"),
        "BadDigest",
    ),
    "a checksum that is none": (
        plain_frames([DATA], b"x-amz-checksum-crc32:zzz\r\n"),
        "InvalidRequest",
    ),
}


@pytest.mark.parametrize("case", BAD_FRAMES)
async def test_bad_framing_never_ends(case: str) -> None:
    """Each fault of the framing or the trailer is refused with its code, as 400."""
    frames, native = BAD_FRAMES[case]
    answer = await refused_body(await parsed(upload(UNSIGNED_TRAILER, frames)))
    assert answer[:2] == (native, 400)


@pytest.mark.parametrize("frames", [[DATA + b"x"], [DATA, b"x"]], ids=["one", "two"])
async def test_no_more_is_given_out_than_was_announced(frames: list[bytes]) -> None:
    """A store that was told a length never gets a byte beyond it."""
    _, _, seen = await refused_body(await parsed(upload(UNSIGNED_TRAILER, plain_frames(frames))))
    assert len(seen) <= len(DATA)


@settings(max_examples=150, deadline=None)
@given(end=st.integers(0, len(FRAMES) - 1))
async def test_a_body_cut_anywhere_never_ends(end: int) -> None:
    """No prefix of a framed body passes for the body."""
    answer = await refused_body(await parsed(upload(UNSIGNED_TRAILER, FRAMES[:end])))
    assert answer[0] == "IncompleteBody"


@settings(max_examples=300, deadline=None)
@given(noise=st.binary(max_size=200), piece=st.integers(1, 50))
def test_noise_is_refused_and_nothing_else_is_raised(noise: bytes, piece: int) -> None:
    """Whatever arrives, the decoder answers with a refusal or with bytes."""
    decoder = ChunkDecoder(100, signed=False)
    try:
        got = [part for data in cut(noise, piece) for part in decoder.feed(data)]
        decoder.finish()
    except RefusedError:
        return
    assert len(b"".join(got)) == 100


async def test_the_announcements_of_a_chunked_body() -> None:
    """Length and trailer must be announced, once, in a form that can be held to."""
    assert (await problem(upload(UNSIGNED_TRAILER, FRAMES, length=None))).native == (
        "MissingContentLength"
    )
    for text in (b"-1", b"1e3", b"0x10", b"", b"9" * 20):
        fields = [
            (b"x-amz-decoded-content-length", text),
            (b"x-amz-trailer", b"x-amz-checksum-crc32"),
        ]
        request = signed("PUT", b"/bucket/k", fields=fields, body=b"", payload=UNSIGNED_TRAILER)
        assert (await problem(request)).native == "InvalidArgument"
    for name in (b"x-fence-token", b"x-amz-checksum-crc32,x-amz-checksum-sha1", b""):
        request = upload(UNSIGNED_TRAILER, FRAMES, (b"x-amz-trailer", name))
        assert (await problem(request)).native == "InvalidRequest"
    both = upload(UNSIGNED_TRAILER, FRAMES, (b"x-amz-checksum-crc32", CRC32))
    assert (await problem(both)).native == "InvalidRequest"
    plain = signed(
        "PUT", b"/bucket/k", fields=[(b"x-amz-trailer", b"x-amz-checksum-crc32")], body=b""
    )
    assert (await problem(plain)).native == "InvalidRequest"


async def test_without_authentication_framing_is_still_strict() -> None:
    """With authentication off signatures cannot be verified; sizes and checksums are."""
    request = upload(SIGNED_CHUNKS)
    signer = Signer(request)
    signer.key = b"another key"
    body = signer.chunk(DATA) + signer.chunk(b"") + b"\r\n"
    assert await read_all((await parsed(with_body(request, body), keys=None)).body) == DATA
    answer = await refused_body(await parsed(with_body(request, body[:-2]), keys=None))
    assert answer[0] == "IncompleteBody"
    answer = await refused_body(await parsed(with_body(request, body)))
    assert answer[0] == "SignatureDoesNotMatch"
