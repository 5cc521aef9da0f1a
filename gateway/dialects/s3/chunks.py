"""The aws-chunked framing of a body: a decoder that is fed bytes and does no I/O.

Grammar (S3 API reference, "Transferring payload in multiple chunks" and "... with trailing
headers")::

    chunk   = hex-size [";chunk-signature=" 64hex] CRLF data CRLF     repeated, the last of size 0
    trailer = *(name ":" value CRLF) ["x-amz-trailer-signature:" 64hex CRLF] CRLF

Strict: a line ends with CRLF, nothing follows the end, the sizes add up to what was announced.
Data is given out as it comes; a wrong signature shows at the end of its chunk, and only `finish`
says that the whole body is true.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from enum import Enum, auto
from typing import Final

from gateway.dialects.s3.refused import RefusedError, refused
from gateway.dialects.s3.sigv4 import EMPTY_SHA256, signature
from gateway.dialects.s3.verify import ChunkSeed

_MAX_LINE_BYTES: Final = 256
_SIZE: Final = re.compile(rb"([0-9a-fA-F]{1,16})\r\n")
_SIGNED_SIZE: Final = re.compile(rb"([0-9a-fA-F]{1,16});chunk-signature=([0-9a-f]{64})\r\n")
_TRAILER: Final = re.compile(rb"([a-z0-9-]+):[ \t]*([\x21-\x7e]+)[ \t]*\r\n")
_SIGNATURE: Final = re.compile(rb"[0-9a-f]{64}")
_TRAILER_SIGNATURE: Final = b"x-amz-trailer-signature"


class SignatureChain:
    """Each chunk's signature covers the one before; the first covers the request's own."""

    def __init__(self, seed: ChunkSeed) -> None:
        self._seed = seed
        self._previous = seed.signature

    def check_chunk(self, data_sha256: str, given: bytes) -> bool:
        """Verify a chunk against the chain, and move on to it."""
        return self._check("AWS4-HMAC-SHA256-PAYLOAD", f"{EMPTY_SHA256}\n{data_sha256}", given)

    def check_trailer(self, trailer_sha256: str, given: bytes) -> bool:
        """Verify the trailer's signature, the last of the chain."""
        return self._check("AWS4-HMAC-SHA256-TRAILER", trailer_sha256, given)

    def _check(self, algorithm: str, hashes: str, given: bytes) -> bool:
        seed = self._seed
        text = f"{algorithm}\n{seed.date}\n{seed.scope}\n{self._previous}\n{hashes}"
        expected = signature(seed.key, text.encode())
        self._previous = expected
        return hmac.compare_digest(expected.encode(), given)


class _State(Enum):
    SIZE = auto()
    DATA = auto()
    DATA_END = auto()
    TRAILER = auto()
    END = auto()


class ChunkDecoder:
    """Decodes one body. `length` is the decoded length that the client announced.

    `signed`: chunks carry signatures; `chain` verifies them (None: authentication is off).
    `trailers` are the names announced in x-amz-trailer, None where the form has no trailer.
    """

    def __init__(
        self,
        length: int,
        *,
        signed: bool,
        chain: SignatureChain | None = None,
        trailers: frozenset[bytes] | None = None,
    ) -> None:
        self._left = length
        self._signed = signed
        self._chain = chain
        self._expected = trailers
        self._state = _State.SIZE
        self._line = bytearray()
        self._chunk_left = 0
        self._chunk_signature = b""
        self._sha256 = hashlib.sha256()
        self._trailers: dict[bytes, bytes] = {}

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes off the wire; returns the body's pieces in them. Raises `RefusedError`."""
        pieces = []
        at = 0
        while at < len(data):
            if self._state is _State.DATA:
                piece = data[at : at + self._chunk_left]
                at += len(piece)
                self._take_data(piece)
                pieces.append(piece)
            elif self._state is _State.END:
                raise refused("InvalidRequest", "bytes follow the end of the aws-chunked body")
            else:
                at = self._take_line(data, at)
        return pieces

    def finish(self) -> dict[bytes, bytes]:
        """Hear that the body has ended; returns its trailer.

        Raises `RefusedError` if it ended early.
        """
        if self._state is not _State.END:
            raise refused("IncompleteBody", "the aws-chunked body ended before its last chunk")
        return self._trailers

    def _take_data(self, piece: bytes) -> None:
        if self._chain is not None:
            self._sha256.update(piece)
        self._chunk_left -= len(piece)
        if not self._chunk_left:
            self._state = _State.DATA_END

    def _take_line(self, data: bytes, at: int) -> int:
        end = data.find(b"\n", at) + 1
        self._line += data[at : end or len(data)]
        if len(self._line) > _MAX_LINE_BYTES:
            raise refused("InvalidRequest", "a line of the aws-chunked framing is too long")
        if not end:
            return len(data)
        line = bytes(self._line)
        self._line.clear()
        match self._state:
            case _State.SIZE:
                self._start_chunk(line)
            case _State.DATA_END:
                self._end_chunk(line)
            case _:
                self._take_trailer(line)
        return end

    def _start_chunk(self, line: bytes) -> None:
        found = (_SIGNED_SIZE if self._signed else _SIZE).fullmatch(line)
        if found is None:
            raise refused("InvalidRequest", "a chunk's size line is malformed")
        self._chunk_left = int(found[1], 16)
        if self._chunk_left > self._left:
            raise refused(
                "IncompleteBody", "the chunks hold more than x-amz-decoded-content-length"
            )
        self._left -= self._chunk_left
        if self._signed:
            self._chunk_signature = found[2]
        if self._chunk_left:
            self._state = _State.DATA
        else:
            self._end_data()

    def _end_chunk(self, line: bytes) -> None:
        if line != b"\r\n":
            raise refused("InvalidRequest", "a chunk's data is not followed by CRLF")
        self._check_signature()
        self._state = _State.SIZE

    def _end_data(self) -> None:
        if self._left:
            raise refused(
                "IncompleteBody", "the chunks hold less than x-amz-decoded-content-length"
            )
        self._check_signature()
        self._state = _State.TRAILER

    def _check_signature(self) -> None:
        if self._chain is None:
            return
        if not self._chain.check_chunk(self._sha256.hexdigest(), self._chunk_signature):
            raise refused("SignatureDoesNotMatch", "a chunk's signature does not match its data")
        self._sha256 = hashlib.sha256()

    def _take_trailer(self, line: bytes) -> None:
        if line == b"\r\n":
            self._end_trailer()
            self._state = _State.END
            return
        found = _TRAILER.fullmatch(line)
        if found is None or found[1] in self._trailers or _TRAILER_SIGNATURE in self._trailers:
            raise _malformed_trailer("is not a list of distinct fields with the signature last")
        self._trailers[found[1]] = found[2]

    def _end_trailer(self) -> None:
        given = self._trailers.pop(_TRAILER_SIGNATURE, None)
        if self._trailers.keys() != (self._expected or frozenset()):
            raise _malformed_trailer("does not hold exactly the fields named in x-amz-trailer")
        if (given is not None) != (self._signed and self._expected is not None):
            raise _malformed_trailer("must have a signature exactly when the chunks have one")
        if given is not None and self._chain is not None:
            lines = (name + b":" + value + b"\n" for name, value in sorted(self._trailers.items()))
            digest = hashlib.sha256(b"".join(lines)).hexdigest()
            if not _SIGNATURE.fullmatch(given) or not self._chain.check_trailer(digest, given):
                raise refused("SignatureDoesNotMatch", "the trailer's signature does not match")


def _malformed_trailer(what: str) -> RefusedError:
    return refused("MalformedTrailerError", f"the trailer {what}")
