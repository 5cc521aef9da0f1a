"""The header fields in which a client tells a digest of its body, whoever verifies it.

RFC 1864 (Content-MD5), RFC 9530 (Content-Digest, Repr-Digest; Digest before it), and what object
stores and artifact servers have of their own.
"""

from __future__ import annotations

from typing import Final

_NAMES: Final = frozenset(
    {
        b"content-digest",
        b"content-md5",
        b"digest",
        b"oc-checksum",
        b"repr-digest",
        b"x-amz-content-sha256",
        b"x-goog-hash",
    }
)
_PREFIXES: Final = (b"x-amz-checksum-", b"x-checksum-")


def is_digest_field(name: bytes) -> bool:
    """True for a field, in lower case, that tells what the body is."""
    return name in _NAMES or name.startswith(_PREFIXES)
