"""The upstream's answer, read strictly: bytes in, head and body pieces out, no I/O.

Source: RFC 9112 sections 2.2, 4, 5, 6.3 and 7.1. A connection that is used again turns a doubt
about framing into somebody else's answer, so that everything doubtful is refused, not repaired.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

MAX_HEAD_BYTES: Final = 65_536
_MAX_INTERIM: Final = 8
_MAX_CHUNK_LINE: Final = 256

_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n\x00]*)?")
_FIELD_LINES: Final = re.compile(
    rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*", re.ASCII
)
_BARE_LF: Final = re.compile(rb"(?<!\r)\n")
_DIGITS: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[\t ]*(?:;[\t\x20-\x7e\x80-\xff]*)?")


class BadResponse(Exception):
    """The answer is not one that can be trusted. The text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Head:
    """Status and fields of an answer; names in lower case, values as latin-1 text."""

    status: int
    fields: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str | None:
        """The first value of a field; `name` in lower case."""
        for key, value in self.fields:
            if key == name:
                return value
        return None

    def all(self, name: str) -> list[str]:
        """All values of a field, in order."""
        return [value for key, value in self.fields if key == name]


class _At(Enum):
    HEAD = auto()
    LENGTH = auto()
    UNTIL_CLOSE = auto()
    CHUNK_SIZE = auto()
    CHUNK_DATA = auto()
    CHUNK_END = auto()
    TRAILER = auto()
    DONE = auto()


class ResponseReader:
    """Reads one answer to a request of `method`; a reader is used once.

    After each `feed`, `head` is there once it is complete, and `take()` gives the body bytes that
    have arrived. `done`: the answer is complete. `reusable`: it ended exactly, and the peer keeps
    the connection open. `until_close`: the answer told no length, and ends with the connection.
    """

    __slots__ = (
        "_at",
        "_body",
        "_buffer",
        "_interim",
        "_keep_alive",
        "_left",
        "_method",
        "head",
        "until_close",
    )

    def __init__(self, method: str) -> None:
        self.head: Head | None = None
        self._method = method
        self._at = _At.HEAD
        self._buffer = bytearray()
        self._body: list[bytes] = []
        self._left = 0
        self._keep_alive = False
        self.until_close = False
        self._interim = 0

    @property
    def done(self) -> bool:
        """The whole answer has arrived."""
        return self._at is _At.DONE

    @property
    def reusable(self) -> bool:
        """The connection can carry another request."""
        return self._at is _At.DONE and self._keep_alive and not self._buffer

    def take(self) -> bytes:
        """The body bytes that have arrived since the last call."""
        if not self._body:
            return b""
        taken = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body.clear()
        return taken

    def feed(self, data: bytes) -> None:
        """Take bytes from the connection. Raises `BadResponse`."""
        if self._at is _At.LENGTH and not self._buffer and len(data) <= self._left:
            self._take_length(data)
            return
        if self._at is _At.UNTIL_CLOSE:
            self._body.append(data)
            return
        self._buffer += data
        while self._advance():
            pass

    def feed_eof(self) -> None:
        """The peer closed. Raises `BadResponse` unless the answer is complete with that."""
        if self._at is _At.UNTIL_CLOSE:
            self._at = _At.DONE
        elif self._at is not _At.DONE:
            raise BadResponse("the connection was closed in the middle of the answer")

    def _advance(self) -> bool:
        """Make one step; False when more bytes are needed."""
        match self._at:
            case _At.HEAD:
                return self._read_head()
            case _At.LENGTH:
                return self._take_length(self._cut(min(self._left, len(self._buffer))))
            case _At.CHUNK_SIZE:
                return self._read_chunk_size()
            case _At.CHUNK_DATA:
                return self._read_chunk_data()
            case _At.CHUNK_END:
                return self._read_chunk_end()
            case _At.TRAILER:
                return self._read_trailer()
            case _At.UNTIL_CLOSE:
                if self._buffer:
                    self._body.append(self._cut(len(self._buffer)))
                return False
            case _At.DONE:
                return False

    def _cut(self, count: int) -> bytes:
        piece = bytes(self._buffer[:count])
        del self._buffer[:count]
        return piece

    def _line(self, limit: int) -> bytes | None:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > limit:
                raise BadResponse("a line of the answer's framing is too long")
            return None
        line = self._cut(end)
        del self._buffer[:2]
        return line

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if (end if end >= 0 else len(self._buffer)) > MAX_HEAD_BYTES:
            raise BadResponse(f"the head is larger than {MAX_HEAD_BYTES} bytes")
        if end < 0:
            if _BARE_LF.search(self._buffer):
                raise BadResponse("a line of the head does not end in CR LF")
            return False
        version, head = parse_head(self._cut(end + 4))
        if head.status < 200:
            self._interim += 1
            if head.status == 101 or self._interim > _MAX_INTERIM:
                raise BadResponse(f"an unexpected interim answer {head.status}")
            return True
        self._start_body(version, head)
        self.head = head
        return True

    def _start_body(self, version: int, head: Head) -> None:
        length, chunked = framing(version, head)
        hops = ",".join(head.all("connection")).lower()
        self._keep_alive = version == 1 and "close" not in hops
        if self._method == "HEAD" or head.status in {204, 304}:
            self._at = _At.DONE
            if head.status == 204 and (chunked or length):
                self._keep_alive = False  # a body may follow that must not be there (RFC 9110, 8.6)
        elif chunked:
            self._at = _At.CHUNK_SIZE
        elif length is not None:
            self._left = length
            self._at = _At.LENGTH if length else _At.DONE
        else:
            self._keep_alive = False
            self.until_close = True
            self._at = _At.UNTIL_CLOSE

    def _take_length(self, data: bytes) -> bool:
        if data:
            self._body.append(data)
        self._left -= len(data)
        if self._left == 0:
            self._at = _At.DONE
        return False

    def _read_chunk_size(self) -> bool:
        line = self._line(_MAX_CHUNK_LINE)
        if line is None:
            return False
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            raise BadResponse("a chunk size is not a hexadecimal number")
        self._left = int(match[1], 16)
        self._at = _At.CHUNK_DATA if self._left else _At.TRAILER
        return True

    def _read_chunk_data(self) -> bool:
        if not self._buffer:
            return False
        piece = self._cut(min(self._left, len(self._buffer)))
        self._body.append(piece)
        self._left -= len(piece)
        if self._left == 0:
            self._at = _At.CHUNK_END
        return True

    def _read_chunk_end(self) -> bool:
        if len(self._buffer) < 2:
            return False
        if self._cut(2) != b"\r\n":
            raise BadResponse("a chunk is longer than it said")
        self._at = _At.CHUNK_SIZE
        return True

    def _read_trailer(self) -> bool:
        line = self._line(MAX_HEAD_BYTES)
        if line is None:
            return False
        if not line:
            self._at = _At.DONE
            return False
        if not _FIELD_LINES.fullmatch(line + b"\r\n"):
            raise BadResponse("a trailer line is not a field")
        return True


def parse_head(raw: bytes) -> tuple[int, Head]:
    """Take a head apart, blank line included: minor version and head. Raises `BadResponse`."""
    start = raw.index(b"\r\n")
    status = _STATUS_LINE.fullmatch(raw, 0, start)
    if status is None:
        raise BadResponse("the answer does not start with an HTTP/1 status line")
    if _FIELD_LINES.fullmatch(raw, start + 2, len(raw) - 2) is None:
        raise BadResponse("a line of the head is not a field")
    fields = []
    for line in raw[start + 2 : -4].decode("latin-1").split("\r\n"):
        if line:
            name, _, value = line.partition(":")
            fields.append((name.lower(), value.strip("\t ")))
    return int(status[1]), Head(int(status[2]), tuple(fields))


def framing(version: int, head: Head) -> tuple[int | None, bool]:
    """How long the body is: (Content-Length or None, chunked). Raises `BadResponse`."""
    lengths = head.all("content-length")
    codings = head.all("transfer-encoding")
    if codings:
        if lengths:
            raise BadResponse("the answer has Content-Length and Transfer-Encoding")
        if version == 0 or [coding.lower() for coding in codings] != ["chunked"]:
            raise BadResponse("the answer has a Transfer-Encoding other than chunked")
        return None, True
    if not lengths:
        return None, False
    if len(lengths) > 1 or not _DIGITS.fullmatch(lengths[0]):
        raise BadResponse("the answer's Content-Length is not one number")
    return int(lengths[0]), False
