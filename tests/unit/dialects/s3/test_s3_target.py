"""Bucket and key of a path, and their one canonical name."""

from __future__ import annotations

from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.s3.refused import RefusedError
from gateway.dialects.s3.target import Target, read_target

keys = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1
).filter(lambda key: len(key.encode()) <= 1024)


def spelled(data: st.DataObject, text: bytes) -> bytes:
    """Spell bytes for a path in any legal way: each byte bare where it may be, or escaped."""
    out = b""
    for byte in text:
        escape = f"%{byte:02X}" if data.draw(st.booleans()) else f"%{byte:02x}"
        bare = byte < 0x80 and chr(byte) not in "%?#" and chr(byte).isprintable() and byte != 0x20
        out += bytes([byte]) if bare and data.draw(st.booleans()) else escape.encode()
    return out


@settings(max_examples=200, deadline=None)
@given(key=keys, data=st.data())
def test_two_spellings_of_one_key_have_one_name(key: str, data: st.DataObject) -> None:
    """However a key is escaped, it is the same key under the same canonical path."""
    plain = read_target(b"/bucket/" + quote_from_bytes(key.encode(), safe="").encode())
    other = read_target(b"/" + spelled(data, b"bucket") + b"/" + spelled(data, key.encode()))
    assert plain == other
    assert plain.key == key


@settings(max_examples=200, deadline=None)
@given(one=keys, other=keys)
def test_different_keys_have_different_names(one: str, other: str) -> None:
    """The canonical path never folds two keys into one."""
    names = {
        read_target(b"/bucket/" + quote_from_bytes(key.encode(), safe="").encode()).canonical
        for key in (one, other)
    }
    assert len(names) == len({one, other})


@pytest.mark.parametrize(
    "path, key, canonical",
    [
        (b"/bucket/a", "a", "bucket/a"),
        (b"/bucket/a+b", "a+b", "bucket/a%2Bb"),
        (b"/bucket/a%2Bb", "a+b", "bucket/a%2Bb"),
        (b"/bucket/a%20b", "a b", "bucket/a%20b"),
        (b"/bucket/a%252Fb", "a%2Fb", "bucket/a%252Fb"),
        (b"/bucket/a%2Fb", "a/b", "bucket/a/b"),
        (b"/bucket/a%2fb", "a/b", "bucket/a/b"),
        (b"/bucket//a//b/", "/a//b/", "bucket//a//b/"),
        (b"/bucket/../x", "../x", "bucket/../x"),
        (b"/bucket/.", ".", "bucket/."),
        (b"/bucket/\xc3\xbc", "ü", "bucket/%C3%BC"),
        (b"/bucket/%c3%bc", "ü", "bucket/%C3%BC"),
        (b"/bucket/~*'()!", "~*'()!", "bucket/~%2A%27%28%29%21"),
        (b"/bucket/" + b"k" * 1024, "k" * 1024, "bucket/" + "k" * 1024),
    ],
)
def test_a_key_is_the_path_decoded_once(path: bytes, key: str, canonical: str) -> None:
    """Slashes, dots and plus signs mean themselves; nothing is normalised."""
    assert read_target(path) == Target("bucket", key, canonical)


@pytest.mark.parametrize(
    "path, expected",
    [
        (b"/", Target("", "", "")),
        (b"/bucket", Target("bucket", "", "bucket")),
        (b"/bucket/", Target("bucket", "", "bucket")),
        (b"/b%75cket/", Target("bucket", "", "bucket")),
        (b"/my.bucket-1/", Target("my.bucket-1", "", "my.bucket-1")),
    ],
)
def test_a_path_without_a_key_names_a_bucket_or_the_service(path: bytes, expected: Target) -> None:
    """A final slash makes no key."""
    assert read_target(path) == expected


@pytest.mark.parametrize(
    "path, native",
    [
        (b"//", "InvalidBucketName"),
        (b"//key", "InvalidBucketName"),
        (b"/ab", "InvalidBucketName"),
        (b"/" + b"a" * 64, "InvalidBucketName"),
        (b"/Bucket/k", "InvalidBucketName"),
        (b"/under_score/k", "InvalidBucketName"),
        (b"/-bucket/k", "InvalidBucketName"),
        (b"/bucket%2Fkey", "InvalidBucketName"),
        (b"/../bucket/key", "InvalidBucketName"),
        (b"*", "InvalidBucketName"),
        (b"/bucket/%", "InvalidURI"),
        (b"/bucket/%zz", "InvalidURI"),
        (b"/bucket/%C3", "InvalidURI"),
        (b"/bucket/\xff", "InvalidURI"),
        (b"/bucket/%ED%A0%80", "InvalidURI"),
        (b"/bucket/a%00b", "InvalidURI"),
        (b"/bucket/" + b"k" * 1025, "KeyTooLongError"),
        (b"/bucket/" + b"%C3%BC" * 513, "KeyTooLongError"),
    ],
)
def test_a_path_that_names_nothing_is_refused(path: bytes, native: str) -> None:
    """No such bucket name, no such escape, no such text, a key too long: 400 with the code."""
    with pytest.raises(RefusedError) as caught:
        read_target(path)
    assert (caught.value.problem.native, caught.value.problem.status) == (native, 400)
