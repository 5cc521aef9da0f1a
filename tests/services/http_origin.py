"""HTTP origins for tests: one that numbers every effect, and one with the manners of CouchDB.

They keep things by path in memory and speak HTTP/1.1 over their own sockets, so that a test can
stall, cut or falsify anything. `effects` is the journal, in the order in which writes took effect.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar
from urllib.parse import parse_qs

_RANGE = re.compile(r"bytes=([0-9]*)-([0-9]*)")
_KEPT = ("content-type", "cache-control", "content-disposition", "x-amz-meta-colour")
_READ_BYTES = 65_536


class Landed(NamedTuple):
    """One write that took effect; `head` is the first line of its body."""

    seq: int
    method: str
    path: str
    head: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it arrived; the body is empty until it has arrived whole."""

    method: str
    target: str
    fields: tuple[tuple[str, str], ...]
    body: bytes = b""

    def get(self, name: str) -> str | None:
        """The first value of a field; `name` in lower case."""
        return next((value for key, value in self.fields if key == name), None)

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]


class Said(NamedTuple):
    """An answer. `length` says something else than is true, `chunked` says nothing."""

    status: int
    fields: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    chunked: bool = False


class Kept(NamedTuple):
    """A thing as kept."""

    data: bytes
    etag: str
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Faults:
    """What goes wrong. Counters say how many requests are still to be hit.

    `before_check` and `before_effect` are awaited with each write that has arrived whole: before
    its condition is looked at, and between that and its effect. `answer`: what is said instead,
    after the effect. `refuse`: what is said without one. `early`: what is said as soon
    as the head is there, and the connection closed.
    """

    before_check: Callable[[Asked], Awaitable[None]] | None = None
    before_effect: Callable[[Asked], Awaitable[None]] | None = None
    ignore_conditions: bool = False
    swallow_answers: int = 0
    answer: Said | None = None
    early: Said | None = None
    refuse: Said | None = None
    no_etags: bool = False
    weak_etags: bool = False
    no_head: bool = False


O = TypeVar("O", bound="HttpOrigin")  # noqa: E741


@dataclass(slots=True)
class HttpOrigin:
    """Start it with `serving`; it listens on a free port of 127.0.0.1."""

    faults: Faults = field(default_factory=Faults)
    effects: list[Landed] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    things: dict[str, Kept] = field(default_factory=dict)
    arrived: dict[str, int] = field(default_factory=dict)
    connections: int = 0
    port: int = 0
    _seq: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _moved: asyncio.Condition = field(default_factory=asyncio.Condition)
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    async def until(self, holds: Callable[[], bool], within_s: float = 10.0) -> None:
        """Wait for something about the origin to become true. Raises `TimeoutError`."""
        async with asyncio.timeout(within_s), self._moved:
            await self._moved.wait_for(holds)

    async def _note(self) -> None:
        async with self._moved:
            self._moved.notify_all()

    # --- connections ----------------------------------------------------------------------------
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection's requests."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        try:
            with suppress(OSError, asyncio.IncompleteReadError, EOFError):
                while await self._one_request(reader, writer):
                    pass
        except asyncio.CancelledError:
            pass  # the test is over; asyncio's streams log a task that ends as cancelled
        finally:
            self._open.discard(task)
            writer.close()

    async def _one_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        asked = _parse(await reader.readuntil(b"\r\n\r\n"))
        if asked.method not in {"GET", "HEAD"} and self.faults.early is not None:
            await _send(writer, asked, self.faults.early)
            return False
        body = b"".join([piece async for piece in self._pieces(asked, reader)])
        asked = Asked(asked.method, asked.target, asked.fields, body)
        self.asked.append(asked)
        await self._note()
        said = await self._answered(asked)
        await self._note()
        if said is None:
            return False
        await _send(writer, asked, said)
        return True

    async def _pieces(self, asked: Asked, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        if asked.get("transfer-encoding") == "chunked":
            while size := int(await reader.readline(), 16):
                yield await self._arrives(asked, await reader.readexactly(size))
                await reader.readexactly(2)
            await reader.readexactly(2)
            return
        left = int(asked.get("content-length") or 0)
        while left:
            piece = await reader.read(min(left, _READ_BYTES))
            if not piece:
                raise EOFError
            left -= len(piece)
            yield await self._arrives(asked, piece)

    async def _arrives(self, asked: Asked, piece: bytes) -> bytes:
        self.arrived[asked.path] = self.arrived.get(asked.path, 0) + len(piece)
        await self._note()
        return piece

    # --- answers --------------------------------------------------------------------------------
    async def _answered(self, asked: Asked) -> Said | None:
        faults = self.faults
        if asked.method in {"GET", "HEAD", "OPTIONS", "PROPFIND"}:
            return self._read(asked)
        if faults.before_check is not None:
            await faults.before_check(asked)
        refused = self.refusal(asked) or faults.refuse
        if refused is not None:
            return refused
        if faults.before_effect is not None:
            await faults.before_effect(asked)
            refused = self.refusal(asked)  # the check and the effect are one step
            if refused is not None:
                return refused
        seq = next(self._seq)
        line = asked.body.partition(b"\n")[0].decode("latin-1")
        self.effects.append(Landed(seq, asked.method, asked.path, line))
        said = self.effect(asked, seq)
        if faults.swallow_answers:
            faults.swallow_answers -= 1
            return None
        return said if faults.answer is None else faults.answer

    def refusal(self, asked: Asked) -> Said | None:
        """What speaks against a write: its condition, or that there is nothing to remove."""
        now = self.things.get(asked.path)
        if not self.faults.ignore_conditions:
            match, none_match = asked.get("if-match"), asked.get("if-none-match")
            if match is not None and (now is None or now.etag not in match):
                return Said(412, (), b"the version differs")
            if none_match is not None and now is not None:
                return Said(412, (), b"it is there already")
        if asked.method == "DELETE" and now is None:
            return Said(404, (), b"there is no such thing")
        return None

    def effect(self, asked: Asked, seq: int) -> Said:
        """Carry a write out."""
        if asked.method == "DELETE":
            del self.things[asked.path]
            return Said(204)
        created = asked.path not in self.things
        kept = tuple((name, value) for name, value in asked.fields if name in _KEPT)
        etag = f'"v{seq}"'
        if asked.method != "POST":
            self.things[asked.path] = Kept(asked.body, etag, kept)
        return Said(201 if created else 200, (("etag", etag),), b"done")

    def _read(self, asked: Asked) -> Said:
        if asked.method == "HEAD" and self.faults.no_head:
            return Said(405)
        kept = self.things.get(asked.path)
        if asked.method in {"OPTIONS", "PROPFIND"}:
            return Said(200, (("allow", "GET, PUT"),), asked.body)
        if kept is None:
            return Said(404, (("content-type", "text/plain"),), b"there is no such thing")
        fields = (*kept.fields, ("last-modified", "Sun, 15 Jun 2025 15:06:40 GMT"))
        if not self.faults.no_etags:
            weak = "W/" if self.faults.weak_etags else ""
            fields = (("etag", weak + kept.etag), *fields)
        wanted, unwanted = asked.get("if-match"), asked.get("if-none-match")
        if wanted is not None and kept.etag not in wanted:
            return Said(412)
        if unwanted is not None and (unwanted == "*" or kept.etag in unwanted):
            return Said(304, fields)
        return _part(asked.get("range"), kept.data, fields)


def _part(asked: str | None, data: bytes, fields: tuple[tuple[str, str], ...]) -> Said:
    found = _RANGE.fullmatch(asked or "")
    if found is None:
        return Said(200, fields, data)
    if not found[1]:
        first, last = max(len(data) - int(found[2]), 0), len(data) - 1
    else:
        first, last = int(found[1]), min(int(found[2] or len(data)), len(data) - 1)
        if found[2] and int(found[2]) < first:
            return Said(200, fields, data)
    if first > last:
        return Said(416, (("content-range", f"bytes */{len(data)}"),))
    shown = ("content-range", f"bytes {first}-{last}/{len(data)}")
    return Said(206, (*fields, shown), data[first : last + 1])


class CouchLike(HttpOrigin):
    """Documents with revisions: a write must name the current one, as If-Match, ?rev= or _rev.

    Source: CouchDB documentation, "/db/doc". 409 for a wrong or missing revision; If-None-Match is
    not looked at; what was deleted is 404; POST to the database creates under an id of its own.
    """

    def _rev(self, asked: Asked) -> str | None:
        query = parse_qs(asked.target.partition("?")[2])
        if asked.get("if-match") is not None:
            return (asked.get("if-match") or "").strip('"')
        if "rev" in query:
            return query["rev"][0]
        rev: str | None = json.loads(asked.body or b"{}").get("_rev")
        return rev

    def refusal(self, asked: Asked) -> Said | None:
        """A wrong or missing revision."""
        if asked.method == "POST":
            return None
        now, rev = self.things.get(asked.path), self._rev(asked)
        if now is None and asked.method == "DELETE":
            return _couch(404, error="not_found", reason="missing")
        if rev != (now.etag.strip('"') if now is not None else None):
            return _couch(409, error="conflict", reason="Document update conflict.")
        return None

    def effect(self, asked: Asked, seq: int) -> Said:
        """A new revision."""
        path = asked.path if asked.method != "POST" else f"{asked.path}/{seq:032x}"
        before = self.things.get(path)
        number = 1 if before is None else int(before.etag.strip('"').partition("-")[0]) + 1
        rev = f"{number}-{seq:032x}"
        if asked.method == "DELETE":
            del self.things[path]
            return _couch(200, ok=True, rev=rev)
        self.things[path] = Kept(asked.body, f'"{rev}"', (("content-type", "application/json"),))
        fields = (("etag", f'"{rev}"'), ("location", f"{self.url}{path}"))
        return _couch(201, *fields, ok=True, rev=rev)


def _couch(status: int, *fields: tuple[str, str], **members: object) -> Said:
    body = json.dumps(members).encode()
    return Said(status, (("content-type", "application/json"), *fields), body)


def _parse(raw: bytes) -> Asked:
    start, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = start.split(" ")
    pairs = (line.partition(":") for line in lines)
    return Asked(method, target, tuple((name.lower(), value.strip()) for name, _, value in pairs))


async def _send(writer: asyncio.StreamWriter, asked: Asked, said: Said) -> None:
    lines = [f"HTTP/1.1 {said.status} -"]
    lines.extend(f"{name}: {value}" for name, value in said.fields)
    if said.chunked:
        lines.append("transfer-encoding: chunked")
    elif said.status not in {204, 304}:
        lines.append(f"content-length: {len(said.body)}")
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    if asked.method != "HEAD" and said.status not in {204, 304}:
        body = said.body
        if said.chunked:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        writer.write(body)
    await writer.drain()


@asynccontextmanager
async def serving(origin: O) -> AsyncIterator[O]:
    """Let an origin listen, and break off what is open at the end."""
    server = await asyncio.start_server(origin.serve, "127.0.0.1", origin.port)
    origin.port = server.sockets[0].getsockname()[1]
    try:
        yield origin
    finally:
        server.close()
        for task in tuple(origin._open):
            task.cancel()
        await asyncio.gather(*origin._open, return_exceptions=True)
