"""The target of a request: bucket and key, with the one canonical name they have.

Decisions, "Canonical resources": the key is the path percent-decoded once; `//`, `.`, `..`, `%2F`
and a final `/` are legal and mean themselves. Source: S3 user guide, "Object key naming" and
"General purpose bucket naming rules".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gateway.dialects.s3.canonical import decode_path, encode_path, has_bad_escape
from gateway.dialects.s3.refused import refused

MAX_KEY_BYTES: Final = 1024

_BUCKET: Final = re.compile(rb"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names. `bucket` is empty for the service itself, `key` for a bucket.

    `canonical` is `bucket/key` with all but `A-Za-z0-9._~/-` escaped, hex in upper case.
    """

    bucket: str
    key: str
    canonical: str


def read_target(path: bytes) -> Target:
    """Read a raw path-style path. Raises `RefusedError`."""
    if has_bad_escape(path):
        raise refused("InvalidURI", "a percent sign in the path must start an escape (%25)")
    raw_bucket, slash, raw_key = path.removeprefix(b"/").partition(b"/")
    if not raw_bucket and not slash:
        return Target("", "", "")
    bucket = decode_path(raw_bucket)
    if not _BUCKET.fullmatch(bucket):
        raise refused(
            "InvalidBucketName", "a bucket name is 3 to 63 lower-case letters, digits, '.' and '-'"
        )
    name = bucket.decode("ascii")
    key = decode_path(raw_key)
    if not key:
        return Target(name, "", name)
    return Target(name, _key_text(key), f"{name}/{encode_path(key).decode('ascii')}")


def _key_text(key: bytes) -> str:
    if len(key) > MAX_KEY_BYTES:
        raise refused("KeyTooLongError", f"a key has at most {MAX_KEY_BYTES} bytes")
    if b"\0" in key:
        raise refused("InvalidURI", "a key must not contain a NUL byte")
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        raise refused("InvalidURI", "a key must be valid UTF-8 once percent-decoded") from None
