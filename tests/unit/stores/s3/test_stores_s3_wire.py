"""Requests to the store: exact bytes, an allow-list of fields, a signature over what is sent."""

from __future__ import annotations

import pytest

from gateway.dialects.s3.sigv4 import EMPTY_SHA256, AccessKey, UnsignedRequest, sign
from gateway.stores.s3.wire import RequestWriter, allowed, object_path, too_long

KEY = AccessKey("AKID", "very-secret")
WRITER = RequestWriter("store:9000", KEY, "eu-west-1", lambda: 1_750_000_000.0)


@pytest.mark.parametrize(
    "key,path",
    [
        ("a/b.txt", b"/bkt/a/b.txt"),
        ("a//b/", b"/bkt/a//b/"),
        ("/lead", b"/bkt//lead"),
        ("..", b"/bkt/.."),
        ("a/../b", b"/bkt/a/../b"),
        ("a b+c%25", b"/bkt/a%20b%2Bc%2525"),
        ("ü?#&=;'\"", b"/bkt/%C3%BC%3F%23%26%3D%3B%27%22"),
        ("", b"/bkt"),
    ],
)
def test_paths(key: str, path: bytes) -> None:
    """A key is encoded once, and nothing in it is resolved or collapsed."""
    assert object_path("bkt", key) == path


def test_allow_list() -> None:
    """Metadata and S3's own fields pass, in order; all that is ours or a hop's is left out."""
    fields = (
        ("content-type", "text/plain"),
        ("x-amz-meta-a", "é"),
        ("x-amz-storage-class", "COLD"),
        ("x-amz-checksum-crc32", "AAAA"),
        ("x-amz-meta-fencegate", "forged"),
        ("x-amz-date", "now"),
        ("x-amz-security-token", "t"),
        ("x-amz-content-sha256", "0"),
        ("authorization", "x"),
        ("host", "x"),
        ("content-length", "5"),
        ("transfer-encoding", "chunked"),
        ("x-fence-token", "7"),
        ("if-match", '"a"'),
        ("expires", "0"),
    )
    assert allowed(fields) == [
        (b"content-type", b"text/plain"),
        (b"x-amz-meta-a", b"\xe9"),
        (b"x-amz-storage-class", b"COLD"),
        (b"x-amz-checksum-crc32", b"AAAA"),
        (b"expires", b"0"),
    ]


@pytest.mark.parametrize("value", ["a\r\nb", "a\nb", "a\x00", "€"])
def test_values_that_break_a_head(value: str) -> None:
    """A value that would end a line is refused, and not repeated in the text."""
    with pytest.raises(ValueError, match="x-amz-meta-a"):
        allowed((("x-amz-meta-a", value),))


def test_head() -> None:
    """The head holds the target as signed, the length, and a signature over every field."""
    message = WRITER.write(
        "PUT",
        object_path("bkt", "a b"),
        query=[("list-type", "2"), ("prefix", "x y/")],
        fields=[(b"if-match", b'"e"')],
        length=5,
    )
    lines = message.head.split(b"\r\n")
    assert lines[0] == b"PUT /bkt/a%20b?list-type=2&prefix=x%20y%2F HTTP/1.1"
    assert lines[-2:] == [b"", b""]
    fields = dict(line.split(b": ", 1) for line in lines[1:-2])
    assert fields[b"host"] == b"store:9000"
    assert fields[b"content-length"] == b"5"
    assert fields[b"if-match"] == b'"e"'
    expected = sign(
        UnsignedRequest(
            "PUT",
            b"/bkt/a%20b",
            b"list-type=2&prefix=x%20y%2F",
            [(b"host", b"store:9000"), (b"if-match", b'"e"'), (b"content-length", b"5")],
            EMPTY_SHA256,
        ),
        KEY,
        "eu-west-1",
        1_750_000_000.0,
    )
    assert dict(expected).items() <= fields.items()


def test_no_secret_in_a_representation() -> None:
    """Neither the key nor a signature shows in what a log might print."""
    message = WRITER.write("GET", b"/bkt/k")
    for text in (repr(WRITER), repr(message), repr(KEY)):
        assert "very-secret" not in text
        assert "Signature" not in text


def test_key_length() -> None:
    """1024 bytes of UTF-8, not characters, are the limit."""
    assert not too_long("x" * 1024)
    assert too_long("x" * 1025)
    assert too_long("ü" * 513)
