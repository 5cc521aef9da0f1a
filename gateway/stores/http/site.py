"""One origin with all that is needed to speak to it, and how requests to it are written."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from gateway.machines.condition import Guard
from gateway.model.origin_request import OriginRequest, RawFields
from gateway.upstream.exchange import Client, Message
from gateway.upstream.pool import Endpoint

# What describes a body that a look does not have, and what only the write itself asks for.
_NOT_LOOKED_WITH: Final = frozenset(
    {
        b"destination",
        b"digest",
        b"idempotency-key",
        b"if",
        b"if-modified-since",
        b"if-range",
        b"lock-token",
        b"prefer",
        b"range",
        b"repr-digest",
        b"transfer-encoding",
    }
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where an origin serves: its endpoint, and the path below which it does, without slash."""

    endpoint: Endpoint
    base: bytes

    @classmethod
    def parse(cls, text: str, tls: ssl.SSLContext | None = None) -> Address:
        """Understand "http://host:port/base". Raises `ValueError` with what to change."""
        parts = urlsplit(text)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f'endpoint {text!r} must look like "http://host:port"')
        if parts.query or parts.fragment or parts.username:
            raise ValueError(f"endpoint {text!r} must have no query, fragment or user")
        base = parts.path.rstrip("/").encode("ascii")
        if parts.scheme == "http":
            return cls(Endpoint(parts.hostname, parts.port or 80, parts.netloc), base)
        context = tls or ssl.create_default_context()
        return cls(Endpoint(parts.hostname, parts.port or 443, parts.netloc, context), base)


@dataclass(frozen=True, slots=True)
class RequestWriter:
    """Writes requests: the worker's fields in their order, then ours."""

    authority: str
    base: bytes
    authorization: str | None = field(default=None, repr=False)

    def read(self, action: OriginRequest) -> Message:
        """A request without effect, its body in one piece with its head."""
        length = len(action.content) or None
        head = self._head(action.method, action, action.fields, (), length)
        return Message(action.method, head + action.content)

    def look(self, action: OriginRequest) -> Message:
        """HEAD of the same target, with the fields that choose among representations."""
        chosen = tuple(
            f
            for f in action.fields
            if f[0] not in _NOT_LOOKED_WITH and not f[0].startswith(b"content-")
        )
        return Message("HEAD", self._head("HEAD", action, chosen, (), None))

    def write(self, action: OriginRequest, guard: Guard, length: int | None) -> Message:
        """A mutation of `length` body bytes, None when that is not known before its end."""
        chunked = length is None
        said = None if action.method == "DELETE" and length == 0 else length
        head = self._head(action.method, action, action.fields, fields_of(guard), said, chunked)
        return Message(action.method, head, chunked)

    def _head(
        self,
        method: str,
        action: OriginRequest,
        fields: RawFields,
        more: Iterable[tuple[bytes, bytes]],
        length: int | None,
        chunked: bool = False,
    ) -> bytes:
        target = self.base + action.path or b"/"
        if action.query:
            target += b"?" + action.query
        lines = [method.encode("ascii") + b" " + target + b" HTTP/1.1"]
        lines.append(b"host: " + self.authority.encode("ascii"))
        lines.extend(name + b": " + value for name, value in fields)
        lines.extend(name + b": " + value for name, value in more)
        if self.authorization is not None:
            lines.append(b"authorization: " + self.authorization.encode("ascii"))
        lines.append(b"via: 1.1 fencegate")  # RFC 9110, section 7.6.3
        if chunked:
            lines.append(b"transfer-encoding: chunked")
        elif length is not None:
            lines.append(b"content-length: %d" % length)
        return b"\r\n".join(lines) + b"\r\n\r\n"


def fields_of(guard: Guard) -> tuple[tuple[bytes, bytes], ...]:
    """The condition of a write as fields."""
    if guard.if_none_match:
        return ((b"if-none-match", b"*"),)
    if guard.if_match is not None:
        return ((b"if-match", guard.if_match.encode("latin-1")),)
    return ()


@dataclass(frozen=True, slots=True)
class Site:
    """`store` is the name of the policy; `mount` is where workers see it."""

    store: str
    mount: str
    client: Client
    requests: RequestWriter
    origin: str
    conditions: bool
    hold_back_bytes: int
    spool_bytes: int
    max_spool_bytes: int
