"""A request that asks for an upgrade, served in HTTP/1.1 all the same (RFC 9110, section 7.8).

Java's client offers `Upgrade: h2c` with its first request by default. The parser takes what follows
such a head for another protocol, so its body is parsed by a fresh parser that was told the same
framing. That one knows no further request: the connection ends behind this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import httptools

from gateway.edge.refusals import Refusal, malformed

_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})


def body_parser(
    fields: Sequence[tuple[bytes, bytes]],
    on_body: Callable[[bytes], None],
    on_complete: Callable[[], None],
) -> Any:
    """A parser that stands at the begin of the body; None when the message has no body."""
    framing = [field for field in fields if field[0] in _FRAMING]
    if not framing:
        return None
    parser = httptools.HttpRequestParser(_BodyOnly(on_body, on_complete))
    lines = b"".join(b"%b: %b\r\n" % field for field in framing)
    parser.feed_data(b"PUT / HTTP/1.1\r\n" + lines + b"\r\n")
    return parser


class _BodyOnly:
    """The parser's callbacks: the body alone, neither trailers nor a second message."""

    def __init__(self, on_body: Callable[[bytes], None], on_complete: Callable[[], None]) -> None:
        self.on_body = on_body
        self.on_message_complete = on_complete
        self._primed = False

    def on_headers_complete(self) -> None:
        self._primed = True

    def on_message_begin(self) -> None:
        if self._primed:
            raise Refusal(malformed("nothing may follow a request that asks for an upgrade"))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._primed:
            raise Refusal(malformed("trailer fields are not accepted: send them in the head"))
