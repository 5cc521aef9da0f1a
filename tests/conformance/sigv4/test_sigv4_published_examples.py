"""The worked examples that AWS publishes for Signature Version 4 on S3, chunked uploads included.

Source: S3 API reference, "Authenticating Requests (AWS Signature Version 4)", example signatures.
"""

from __future__ import annotations

import hashlib

import pytest

from gateway.dialects.s3.canonical import parse_query
from gateway.dialects.s3.chunks import ChunkDecoder, SignatureChain
from gateway.dialects.s3.credentials import date_seconds
from gateway.dialects.s3.refused import RefusedError
from gateway.dialects.s3.sigv4 import EMPTY_SHA256, AccessKey, UnsignedRequest, sign
from gateway.dialects.s3.verify import Identity, verify
from gateway.model.worker import WorkerKey
from gateway.ports.dialect import RawRequest
from tests.unit.dialects.s3.s3_requests import Pieces

EXAMPLE = AccessKey("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
EXAMPLE_KEYS = {EXAMPLE.id: WorkerKey(EXAMPLE.id, EXAMPLE.secret)}
EXAMPLE_DATE = "20130524T000000Z"
EXAMPLE_S = date_seconds(EXAMPLE_DATE)
EXAMPLE_HOST = (b"host", b"examplebucket.s3.amazonaws.com")

EXAMPLES = {
    "GET with a range": (
        UnsignedRequest(
            "GET", b"/test.txt", b"", [EXAMPLE_HOST, (b"range", b"bytes=0-9")], EMPTY_SHA256
        ),
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
    "PUT": (
        UnsignedRequest(
            "PUT",
            b"/test%24file.text",
            b"",
            [
                EXAMPLE_HOST,
                (b"date", b"Fri, 24 May 2013 00:00:00 GMT"),
                (b"x-amz-storage-class", b"REDUCED_REDUNDANCY"),
            ],
            hashlib.sha256(b"Welcome to Amazon S3.").hexdigest(),
        ),
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    ),
    "a bare query key": (
        UnsignedRequest("GET", b"/", b"lifecycle", [EXAMPLE_HOST], EMPTY_SHA256),
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    ),
    "a query to sort": (
        UnsignedRequest("GET", b"/", b"prefix=J&max-keys=2", [EXAMPLE_HOST], EMPTY_SHA256),
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    ),
}


def _request(
    method: str, path: bytes, query: bytes, fields: list[tuple[bytes, bytes]]
) -> RawRequest:
    return RawRequest(
        method, path, query, tuple(fields), "r", "h", False, EXAMPLE_S + 60, Pieces(b"")
    )


def _verify(request: RawRequest) -> Identity:
    return verify(
        request, parse_query(request.query), keys=EXAMPLE_KEYS, store="s", region="us-east-1"
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_signer_reproduces_the_published_signature(name: str) -> None:
    """Signing the published request gives the published signature, and it verifies."""
    example, expected = EXAMPLES[name]
    added = sign(example, EXAMPLE, "us-east-1", EXAMPLE_S)
    assert dict(added)[b"authorization"].decode().endswith(f"Signature={expected}")
    request = _request(example.method, example.path, example.query, [*example.fields, *added])
    assert _verify(request).grant == EXAMPLE_KEYS[EXAMPLE.id].grant


PRESIGNED = (
    b"X-Amz-Algorithm=AWS4-HMAC-SHA256"
    b"&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
    b"&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    b"&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
)


def test_the_published_presigned_url_verifies() -> None:
    """The presigned example is accepted as it stands, and refused once a byte of it differs."""
    found = _verify(_request("GET", b"/test.txt", PRESIGNED, [EXAMPLE_HOST]))
    assert found.grant == EXAMPLE_KEYS[EXAMPLE.id].grant
    with pytest.raises(RefusedError, match="does not match"):
        _verify(_request("GET", b"/test.txu", PRESIGNED, [EXAMPLE_HOST]))


CHUNK_FIELDS = [
    (b"host", b"s3.amazonaws.com"),
    (b"content-encoding", b"aws-chunked"),
    (b"content-length", b"66824"),
    (b"x-amz-decoded-content-length", b"66560"),
    (b"x-amz-storage-class", b"REDUCED_REDUNDANCY"),
]
CHUNK_SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
CHUNKS = (
    (65536, b"ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
    (1024, b"0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
    (0, b"b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
)


def _chunk_seed(payload: str, fields: list[tuple[bytes, bytes]], expected: str) -> SignatureChain:
    path = b"/examplebucket/chunkObject.txt"
    parts = UnsignedRequest("PUT", path, b"", fields, payload)
    added = sign(parts, EXAMPLE, "us-east-1", EXAMPLE_S)
    assert dict(added)[b"authorization"].decode().endswith(f"Signature={expected}")
    identity = _verify(_request("PUT", path, b"", [*fields, *added]))
    assert identity.seed is not None
    return SignatureChain(identity.seed)


def _framed(chunks: tuple[tuple[int, bytes], ...]) -> bytes:
    return b"".join(
        b"%x;chunk-signature=%s\r\n%s%s" % (size, mac, b"a" * size, b"\r\n" if size else b"")
        for size, mac in chunks
    )


def test_the_published_chunk_signatures_verify() -> None:
    """The chunked example's seed and its three chunk signatures are what the chain computes."""
    chain = _chunk_seed("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", CHUNK_FIELDS, CHUNK_SEED)
    decoder = ChunkDecoder(66560, signed=True, chain=chain)
    body = b"".join(decoder.feed(_framed(CHUNKS) + b"\r\n"))
    assert decoder.finish() == {}
    assert body == b"a" * 66560


TRAILER_FIELDS = [
    (b"host", b"s3.amazonaws.com"),
    (b"content-encoding", b"aws-chunked"),
    (b"x-amz-decoded-content-length", b"66560"),
    (b"x-amz-storage-class", b"REDUCED_REDUNDANCY"),
    (b"x-amz-trailer", b"x-amz-checksum-crc32c"),
]
TRAILER_SEED = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
TRAILER_CHUNKS = (
    (65536, b"b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2"),
    (1024, b"1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7"),
    (0, b"2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992"),
)
TRAILER = (
    b"x-amz-checksum-crc32c:sOO8/Q==\r\n"
    b"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n"
    b"\r\n"
)


def test_the_published_trailer_signature_verifies() -> None:
    """The trailing-checksum example verifies down to the trailer's own signature."""
    form = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
    chain = _chunk_seed(form, TRAILER_FIELDS, TRAILER_SEED)
    names = frozenset({b"x-amz-checksum-crc32c"})
    decoder = ChunkDecoder(66560, signed=True, chain=chain, trailers=names)
    decoder.feed(_framed(TRAILER_CHUNKS) + TRAILER)
    assert decoder.finish() == {b"x-amz-checksum-crc32c": b"sOO8/Q=="}
