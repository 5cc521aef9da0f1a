"""Laws of request heads: what the edge lets through, another parser reads as the same request."""

from __future__ import annotations

import re
import zlib

from gateway.model.token import Malformed, SignedToken, parse_token
from tests.fuzz import second_opinion, strict_edge
from tests.fuzz.second_opinion import Reading
from tests.fuzz.strict_edge import EdgeConnection, Message

_DIGITS = b"0123456789"
_BASE64URL = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_WIDE_LINE = re.compile(rb"(?:^|\n)\r+[A-Z]|(?:^|\n)\r{2,}\n|[A-Z] {2,}/|\S {2,}HTTP/")
_HOPS = (b"close", b"keep-alive", b"upgrade", b"http2-settings", b"te")


def check_head(data: bytes) -> None:
    """Raises AssertionError when the edge breaks a law on these bytes."""
    whole = strict_edge.read([data])
    readings, stopped = second_opinion.read(data)
    for index, message in enumerate(whole.messages):
        reading = readings[index] if index < len(readings) else None
        if reading is None and h11_is_stricter(stopped, data):
            break
        assert reading is not None, f"let through, and h11 refuses it: {stopped}: {message}"
        check_same(message, reading)
        check_meaning(message)
    chance = zlib.crc32(data)
    if whole.messages or chance % 8 == 0:
        check_segments(data, whole, 1 + chance % 7 if len(data) < 4096 else 1000)


def h11_is_stricter(stopped: str | None, data: bytes) -> bool:
    """Where RFC 9112 lets a server choose, and no choice makes it another request.

    Section 2.2: empty lines, or the CR of one, before a request line. Section 3: several blanks.
    """
    if stopped == "no request line received":
        return b"\r\n\r\n" in data or data.startswith(b"\r\n")
    return stopped is not None and _WIDE_LINE.search(data) is not None


def check_same(message: Message, reading: Reading) -> None:
    """Both understand the same request."""
    assert message.method == reading.method
    assert message.target == reading.target.removesuffix(b"?") or message.target == reading.target
    assert message.version == reading.version
    assert normal(message.fields) == normal(reading.fields)
    if message.complete:
        assert reading.complete, f"h11 waits for more: {reading}"
        assert message.body == reading.body
    else:
        assert reading.body.startswith(message.body) or message.body.startswith(reading.body)


def normal(fields: tuple[tuple[bytes, bytes], ...]) -> list[tuple[bytes, bytes]]:
    """Fields in one form: h11 writes transfer codings in lower case and trims all blanks."""
    return [
        (name, value.strip(b" \t").lower() if name == b"transfer-encoding" else value.strip(b" \t"))
        for name, value in fields
    ]


def check_meaning(message: Message) -> None:
    """What the gateway acts on has one meaning; counted anew, without its own functions."""
    names = [name for name, _ in message.fields]
    values = {name: [v for n, v in message.fields if n == name] for name in names}
    folded = [name.lower().replace(b"_", b"-") for name in names]
    for single in (b"host", b"content-length", b"transfer-encoding", b"x-fence-token"):
        assert folded.count(single) <= 1, f"{single!r} more than once"
    assert not (b"content-length" in names and b"transfer-encoding" in names)
    for value in values.get(b"x-fence-token", ()):
        text = value.strip(b" \t")
        assert text, "an empty token"
        assert all(byte in _DIGITS for byte in text)
        assert not text.startswith(b"0")
        assert int(text) < 2**63
    for value in values.get(b"connection", ()):
        for option in value.lower().split(b","):
            plain = option.strip(b" \t").replace(b"_", b"-")
            assert plain in _HOPS or not plain.startswith((b"x-fence-", b"if-", b"x-amz-"))
            assert plain not in (b"authorization", b"host", b"content-length")
    assert all(0x21 <= byte <= 0x7E for byte in message.target)
    assert message.target.startswith(b"/")
    assert b"#" not in message.target
    for escape in message.target.split(b"%")[1:]:
        digits = escape[:2].lower()
        assert len(digits) == 2
        assert set(digits) <= set(b"0123456789abcdef"), "a percent sign that starts no escape"
    assert b"%00" not in message.target.partition(b"?")[0]
    lengths = values.get(b"content-length")
    if message.complete and lengths:
        assert len(message.body) == int(lengths[0])
    if not lengths and b"transfer-encoding" not in values:
        assert message.body == b""


def check_segments(data: bytes, whole: EdgeConnection, size: int) -> None:
    """How the bytes are cut into segments changes no complete request."""
    pieces = strict_edge.read(strict_edge.cut(data, size))
    first = [m for m in whole.messages if m.complete]
    second = [m for m in pieces.messages if m.complete]
    assert [_plain(m) for m in first] == [_plain(m) for m in second], f"cut by {size}"


def _plain(message: Message) -> tuple[object, ...]:
    return (message.method, message.target, message.version, message.fields, message.body)


def check_token(data: bytes) -> None:
    """A token field is read as a slow and simple reading says, and only one field is."""
    digits, dot, proof = data.decode("latin-1").partition(".")
    well_formed = (
        0 < len(digits) <= 19
        and digits.isascii()
        and digits.isdigit()
        and digits == str(int(digits))
    )
    expected = well_formed and 1 <= int(digits) <= 2**63 - 1
    if dot:
        expected = expected and 22 <= len(proof) <= 256 and set(proof) <= _BASE64URL
    token = parse_token([data])
    assert expected != isinstance(token, Malformed)
    if not isinstance(token, Malformed):
        assert token == int(digits)
        assert isinstance(token, SignedToken) == bool(dot)
        assert not isinstance(token, SignedToken) or token.proof == proof.encode()
    assert isinstance(parse_token([data, data]), Malformed)
    assert isinstance(parse_token([data, b"5"]), Malformed)
    assert isinstance(parse_token([data + b", " + data]), Malformed)
