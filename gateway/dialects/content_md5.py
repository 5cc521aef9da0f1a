"""Content-MD5: the client's digest of its body, checked while the body passes (RFC 1864).

The base64 of 16 bytes. A body that does not match raises in place of its end, so that nothing of
it is committed. It finds damage on the way; it is no protection against anybody.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

from gateway.dialects.checked_body import CheckedBody
from gateway.model.problem import Code, Problem
from gateway.ports.body import Body, BodyError

_SIZE_BYTES: Final = 16


class DigestedBody(CheckedBody):
    """A body whose end is withheld until its digest is the one that was announced."""

    def __init__(self, source: Body, expected: bytes) -> None:
        super().__init__(source, source.length)
        self._expected = expected

    async def _pieces(self) -> AsyncIterator[bytes]:
        digest = hashlib.md5(usedforsecurity=False)
        async for piece in self._source:
            digest.update(piece)
            yield piece
        if digest.digest() != self._expected:
            text = "the body does not match Content-MD5; nothing was written, send it again"
            raise BodyError(Problem(Code.REQUEST_MALFORMED, text))


def digested(body: Body, values: Sequence[bytes]) -> Body | Problem:
    """The body, held to the values of its Content-MD5 field if there are any."""
    if not values:
        return body
    try:
        expected = base64.b64decode(values[0], validate=True)
    except (binascii.Error, ValueError):
        expected = b""
    if len(values) > 1 or len(expected) != _SIZE_BYTES:
        text = "send one Content-MD5: the base64 of the body's MD5 digest, which is 16 bytes"
        return Problem(Code.REQUEST_MALFORMED, text)
    return DigestedBody(body, expected)
