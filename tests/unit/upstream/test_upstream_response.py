"""The strict reader of answers: exact where the answer is plain, refusing where it is doubtful."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.response import MAX_HEAD_BYTES, BadResponse, ResponseReader


def read(raw: bytes, method: str = "GET", *, piece: int = 0, eof: bool = False) -> ResponseReader:
    """Feed an answer, in pieces of that many bytes; `body` collects on the way."""
    reader = ResponseReader(method)
    for at in range(0, len(raw), piece or len(raw)):
        reader.feed(raw[at : at + (piece or len(raw))])
    if eof:
        reader.feed_eof()
    return reader


PLAIN = b'HTTP/1.1 200 OK\r\nETag: "a"\r\nX-Two: 1\r\nx-two:\t2 \r\nContent-Length: 5\r\n\r\nhello'
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
    b"5\r\nhello\r\n1;ext=1\r\n \r\n006\r\nworld!\r\n0\r\nX-Sum: 1\r\n\r\n"
)


def test_plain() -> None:
    """Status, fields in order with lower-case names and trimmed values, body, reuse."""
    reader = read(PLAIN)
    assert reader.head is not None
    assert reader.head.status == 200
    assert reader.head.get("etag") == '"a"'
    assert reader.head.all("x-two") == ["1", "2"]
    assert reader.take() == b"hello"
    assert reader.take() == b""
    assert reader.done
    assert reader.reusable


@given(st.integers(1, 40))
def test_cuts_do_not_matter(piece: int) -> None:
    """However the network cuts it, the same answer is read."""
    for raw, body in ((PLAIN, b"hello"), (CHUNKED, b"hello world!")):
        reader = read(raw, piece=piece)
        assert reader.take() == body
        assert reader.done
        assert reader.reusable


@pytest.mark.parametrize(
    "method,raw",
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 -\r\nContent-Length: 5000\r\n\r\n"),
        ("DELETE", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("PUT", b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"),
        ("PUT", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    ],
)
def test_answers_without_a_body(method: str, raw: bytes) -> None:
    """HEAD, 204 and 304 have none whatever they announce; interim answers are passed over."""
    reader = read(raw, method)
    assert reader.done
    assert reader.reusable
    assert reader.take() == b""


@pytest.mark.parametrize(
    "raw",
    [
        PLAIN + b"X",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ids=["surplus", "close", "1.0", "204-length", "204-chunked"],
)
def test_not_used_again(raw: bytes) -> None:
    """Complete, but the connection must not carry another request."""
    reader = read(raw)
    assert reader.done
    assert not reader.reusable


def test_until_close() -> None:
    """Without a length the answer ends with the connection, and only then."""
    reader = read(b"HTTP/1.1 500 -\r\n\r\nsome")
    reader.feed(b" more")
    assert reader.take() == b"some more"
    assert reader.until_close
    assert not reader.done
    reader.feed_eof()
    assert reader.done
    assert not reader.reusable


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1  200 OK\r\n\r\n",
        b"http/1.1 200 OK\r\n\r\n",
        b"\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\nB: c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\x00\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n1",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n1",
        b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n1",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n\r\n1",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 102 -\r\n\r\n" * 20,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabX\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nno field\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 300,
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * (MAX_HEAD_BYTES + 1),
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * MAX_HEAD_BYTES + b"\r\n\r\n",
    ],
)
def test_doubtful_answers_are_refused(raw: bytes) -> None:
    """Nothing about framing is repaired or guessed."""
    with pytest.raises(BadResponse):
        read(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        PLAIN[:-1],
        CHUNKED[:-1],
        CHUNKED[:-14],
    ],
)
def test_a_cut_answer_is_never_complete(raw: bytes) -> None:
    """The end of the connection does not end an answer that said how long it is."""
    reader = ResponseReader("GET")
    reader.feed(raw)
    with pytest.raises(BadResponse):
        reader.feed_eof()
