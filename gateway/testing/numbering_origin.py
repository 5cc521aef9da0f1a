"""An S3 server for tests that numbers every effect: the real order of writes, with faults to order.

It keeps objects in memory, honours If-Match and If-None-Match at the moment of the effect, and
knows no signatures. `effects` is the journal in the order in which writes took effect, each with
the token and write id of its stamp. Faults are knobs on `faults`, so that a test states the one
thing that goes wrong.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import re
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Final, NamedTuple
from urllib.parse import unquote

from gateway.model.stamp import METADATA_NAME

_STAMP: Final = f"x-amz-meta-{METADATA_NAME}"
_KEPT: Final = ("content-type", "content-encoding", "cache-control", "content-disposition")
_RANGE: Final = re.compile(r"bytes=([0-9]*)-([0-9]*)")
_READ_BYTES: Final = 65_536
_FIXED_TIME_S: Final = 1_750_000_000


class Landed(NamedTuple):
    """One write that took effect. `token` and `write_id` are those of its stamp, 0 and "" without.

    A DELETE carries no stamp.
    """

    seq: int
    method: str
    key: str
    token: int
    write_id: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it arrived."""

    method: str
    target: str
    fields: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str | None:
        """The first value of a field; `name` in lower case."""
        return next((value for key, value in self.fields if key == name), None)


@dataclass(slots=True)
class Faults:
    """What goes wrong. Counters say how many writes (or requests) are still to be hit.

    `before_effect` is awaited with each write that has arrived whole, before conditions are looked
    at and the effect happens: a test delays there. `slow_reading` is awaited before each read of a
    body. `ignore_conditions`: like servers that answer 200 to everything.
    `race_winners`: a version that was current once still matches, as without an atomic check.
    `unquoted_only`: If-Match with quotes never matches (Ceph). `race_status`: If-Match with the tag
    of a version that was replaced gets this status and UnknownError. `unique_etags`: equal bytes
    get different tags.
    `keeps_half_bodies`: an upload that ends early becomes an object.
    """

    before_effect: Callable[[Asked], Awaitable[None]] | None = None
    slow_reading: Callable[[Asked], Awaitable[None]] | None = None
    ignore_conditions: bool = False
    ignore_match: bool = False
    ignore_delete_conditions: bool = False
    race_winners: bool = False
    keeps_half_bodies: bool = False
    unquoted_only: bool = False
    unique_etags: bool = False
    omit_etag: bool = False
    race_status: int | None = None
    swallow_replies: int = 0
    fail_after_commit: int = 0
    fail_before_commit: int = 0
    conflicts: int = 0
    refuse_early: int = 0
    truncate_answers: int = 0
    drop_requests: int = 0


class Stored(NamedTuple):
    """An object as kept."""

    data: bytes
    etag: str
    fields: tuple[tuple[str, str], ...]


class _Answer(NamedTuple):
    status: int
    fields: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


def _error(status: int, code: str) -> _Answer:
    body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
    return _Answer(status, (("content-type", "application/xml"),), body)


@dataclass(slots=True)
class NumberingOrigin:
    """Start it with `start()`; it listens on a free port of 127.0.0.1."""

    buckets: frozenset[str] = frozenset({"kit"})
    faults: Faults = field(default_factory=Faults)
    effects: list[Landed] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    objects: dict[str, Stored] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    discard_bodies: bool = False
    tls: ssl.SSLContext | None = None
    port: int = 0
    _seq: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _replaced: set[str] = field(default_factory=set)
    _moved: asyncio.Condition = field(default_factory=asyncio.Condition)
    _server: asyncio.Server | None = None
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Stop listening and break off what is open."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def until(self, holds: Callable[[], bool], within_s: float = 10.0) -> None:
        """Wait for something about the origin to become true. Raises `TimeoutError`."""
        async with asyncio.timeout(within_s), self._moved:
            await self._moved.wait_for(holds)

    async def _note(self) -> None:
        async with self._moved:
            self._moved.notify_all()

    # --- connections --------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, EOFError):
                while await self._one_request(reader, writer):
                    pass
        except asyncio.CancelledError:
            pass  # `aclose` breaks us off; asyncio's streams log a task that ends as cancelled
        finally:
            self._open.discard(task)
            writer.close()

    async def _one_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        asked = _parse(await reader.readuntil(b"\r\n\r\n"))
        self.asked.append(asked)
        await self._note()
        if self._hit("drop_requests"):
            return False
        if asked.method == "PUT" and self._hit("refuse_early"):
            await _send(writer, asked, _error(403, "AccessDenied"))
            return False
        body = await self._read_body(asked, reader)
        if asked.method in {"PUT", "DELETE"} and self.faults.before_effect is not None:
            await self.faults.before_effect(asked)
        answer = self._answer(asked, body)
        await self._note()
        if answer is None:
            return False
        if self._hit("truncate_answers"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Le")
            await writer.drain()
            return False
        await _send(writer, asked, answer)
        return True

    async def _read_body(self, asked: Asked, reader: asyncio.StreamReader) -> bytes:
        left = int(asked.get("content-length") or 0)
        key = _key(asked)
        pieces = []
        while left:
            if self.faults.slow_reading is not None:
                await self.faults.slow_reading(asked)
            try:
                piece = await reader.read(min(left, _READ_BYTES))
            except ConnectionError:
                piece = b""
            if not piece:
                if self.faults.keeps_half_bodies:
                    break
                raise EOFError
            left -= len(piece)
            self.received[key] += len(piece)
            if not self.discard_bodies:
                pieces.append(piece)
            await self._note()
        return b"".join(pieces)

    def _hit(self, knob: str) -> bool:
        left: int = getattr(self.faults, knob)
        if left > 0:
            setattr(self.faults, knob, left - 1)
        return left > 0

    # --- answers ------------------------------------------------------------------------------

    def _answer(self, asked: Asked, body: bytes) -> _Answer | None:
        bucket, _, rest = asked.target.lstrip("/").partition("/")
        if bucket not in self.buckets:
            return _error(404, "NoSuchBucket")
        key = unquote(rest.partition("?")[0])
        match asked.method:
            case "PUT" | "DELETE":
                return self._mutate(asked, key, body)
            case "GET" | "HEAD":
                return self._read(asked, key)
            case _:
                return _error(405, "MethodNotAllowed")

    def _mutate(self, asked: Asked, key: str, body: bytes) -> _Answer | None:
        if self._hit("fail_before_commit"):
            return _error(500, "InternalError")
        if self._hit("conflicts"):
            return _error(409, "ConditionalRequestConflict")
        failed = self._condition_failed(asked, self.objects.get(key))
        if failed is not None:
            return failed
        seq = next(self._seq)
        token, write_id = _stamp(asked.get(_STAMP))
        self.effects.append(Landed(seq, asked.method, key, token, write_id))
        if asked.method == "DELETE":
            self.objects.pop(key, None)
            answer = _Answer(204)
        else:
            stored = Stored(body, self._etag(body, seq), _kept(asked))
            if key in self.objects:
                self._replaced.add(self.objects[key].etag)
            self.objects[key] = stored
            answer = _Answer(200, () if self.faults.omit_etag else (("etag", stored.etag),))
        if self._hit("swallow_replies"):
            return None
        return _error(500, "InternalError") if self._hit("fail_after_commit") else answer

    def _condition_failed(self, asked: Asked, now: Stored | None) -> _Answer | None:
        ignored = self.faults.ignore_conditions or (
            asked.method == "DELETE" and self.faults.ignore_delete_conditions
        )
        match, none_match = asked.get("if-match"), asked.get("if-none-match")
        if ignored or (match is None and none_match is None):
            return None
        if none_match is not None:
            return _error(412, "PreconditionFailed") if now is not None else None
        if now is None:
            return _error(404, "NoSuchKey")
        expected = {now.etag.strip('"')} if self.faults.unquoted_only else {now.etag}
        replaced = '"' + (match or "").strip('"') + '"' in self._replaced
        if self.faults.ignore_match or (self.faults.race_winners and replaced):
            return None
        if match in expected | ({"*"} if asked.method == "DELETE" else set()):
            return None
        if self.faults.race_status is not None and replaced:
            return _error(self.faults.race_status, "UnknownError")
        return _error(412, "PreconditionFailed")

    def _etag(self, data: bytes, seq: int) -> str:
        salt = str(seq).encode() if self.faults.unique_etags else b""
        return f'"{hashlib.md5(data + salt, usedforsecurity=False).hexdigest()}"'

    def _read(self, asked: Asked, key: str) -> _Answer:
        stored = self.objects.get(key)
        if stored is None:
            return _error(404, "NoSuchKey")
        fields = (
            ("etag", stored.etag),
            ("last-modified", formatdate(_FIXED_TIME_S, usegmt=True)),
            *stored.fields,
        )
        wanted, unwanted = asked.get("if-match"), asked.get("if-none-match")
        if wanted is not None and stored.etag not in wanted and wanted != "*":
            return _error(412, "PreconditionFailed")
        if unwanted is not None and (unwanted == "*" or stored.etag in unwanted):
            return _Answer(304, fields)
        span = _span(asked.get("range"), len(stored.data))
        if span is None:
            return _Answer(200, fields, stored.data)
        first, last = span
        if first > last:
            return _error(416, "InvalidRange")
        shown = ("content-range", f"bytes {first}-{last}/{len(stored.data)}")
        return _Answer(206, (*fields, shown), stored.data[first : last + 1])


def _span(asked: str | None, size: int) -> tuple[int, int] | None:
    ranged = _RANGE.fullmatch(asked or "")
    if ranged is None:
        return None
    if not ranged[1]:
        return max(size - int(ranged[2]), 0), size - 1
    return int(ranged[1]), min(int(ranged[2] or size), size - 1)


def _parse(raw: bytes) -> Asked:
    start, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = start.split(" ")
    pairs = (line.partition(":") for line in lines)
    return Asked(method, target, tuple((name.lower(), value.strip()) for name, _, value in pairs))


def _key(asked: Asked) -> str:
    return unquote(asked.target.partition("?")[0].lstrip("/").partition("/")[2])


def _kept(asked: Asked) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, value)
        for name, value in asked.fields
        if name in _KEPT or name.startswith("x-amz-meta-")
    )


def _stamp(text: str | None) -> tuple[int, str]:
    parts = (text or "").split(".")
    return (int(parts[4]), parts[5]) if len(parts) == 7 else (0, "")


async def _send(writer: asyncio.StreamWriter, asked: Asked, answer: _Answer) -> None:
    lines = [f"HTTP/1.1 {answer.status} -"]
    lines.extend(f"{name}: {value}" for name, value in answer.fields)
    if answer.status != 204:
        lines.append(f"content-length: {len(answer.body)}")
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    if asked.method != "HEAD" and answer.status != 304:
        writer.write(answer.body)
    await writer.drain()
