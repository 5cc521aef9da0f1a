"""A store in memory that keeps every law, and can be told to break one: the kit's own test object.

`breaks` names single faults; each stands for a way in which real stores have gone wrong.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from gateway.machines.witness import carried
from gateway.model.conditions import Conditions
from gateway.model.mark import Mark, Scope
from gateway.model.object_action import (
    DeleteObject,
    Fields,
    GetObject,
    HeadBucket,
    ListBuckets,
    ListObjects,
    PutObject,
)
from gateway.model.operation import Operation
from gateway.model.problem import Code, Problem
from gateway.model.reply import (
    BucketFound,
    Buckets,
    ListedObject,
    Listing,
    NotModified,
    ObjectDeleted,
    ObjectFound,
    ObjectMeta,
    ObjectPut,
)
from gateway.model.version import NotLooked
from gateway.ports.body import Body, BodyError
from gateway.ports.store import (
    BehindRegistry,
    Capabilities,
    FencedByStore,
    NotWritten,
    ReadDone,
    ReadRefused,
    ReadResult,
    WriteFence,
    WriteResult,
    Written,
)
from gateway.testing.store_contract import Effect, OpenSubject, Subject, Traits

REFERENCE = Traits(bucketed=True, numbered=True)


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    etag: str
    metadata: Fields
    write_id: str


def _refused(code: Code, native: str | None = None) -> NotWritten:
    return NotWritten(Problem(code, f"refused: {code}", native=native))


class ReferenceStore:
    """Everything happens in one step without an await, after the body has come."""

    def __init__(self, breaks: frozenset[str]) -> None:
        self.name = "reference"
        self.capabilities = Capabilities(True, True, 0, "exact: in memory")
        self.effects: list[Effect] = []
        self._breaks = breaks
        self._objects: dict[str, _Object] = {}
        self._removed: dict[str, str] = {}
        self._marks: dict[Scope, Mark] = {}
        self._numbers = itertools.count(1)

    # --- fence ----------------------------------------------------------------------------------
    async def look(self, operation: Operation, scope: Scope) -> NotLooked:
        return NotLooked()

    async def carry(self, scope: Scope, mark: Mark) -> Mark | None:
        stored = self._marks.get(scope)
        if "lowers_marks" not in self._breaks and stored is not None and stored.rank > mark.rank:
            return stored
        if "lowers_marks" in self._breaks or "trusts_every_holder" in self._breaks:
            self._marks[scope] = mark
            return None
        after = self._marks[scope] = carried(stored, mark)
        return after if after.rank > mark.rank else None

    def _standing(self, fence: WriteFence) -> WriteResult | None:
        stored = self._marks.get(fence.scope)
        if "no_behind" not in self._breaks and (stored is None or stored.rank < fence.mark.rank):
            return BehindRegistry(stored)
        if stored is not None and stored.rank > fence.mark.rank:
            return FencedByStore(stored)
        return None

    # --- writes ---------------------------------------------------------------------------------
    async def write(self, operation: Operation, body: Body, fence: WriteFence) -> WriteResult:
        action = operation.action
        assert isinstance(action, PutObject | DeleteObject)
        if action.bucket != "kit":
            return _refused(Code.NOT_FOUND, "NoSuchBucket")
        if len(action.key.encode()) > 1024 and "long_keys" not in self._breaks:
            return _refused(Code.REQUEST_MALFORMED, "KeyTooLongError")
        early = self._standing(fence)
        if early is not None and fence.previous_write_id is None:
            return early
        if "check_then_write" in self._breaks:
            refused = self._precondition(operation, action.key)
            data = await self._receive(body, action)
        else:
            data = await self._receive(body, action)
            refused = self._replay(action, fence) or self._standing(fence)
            refused = refused or self._precondition(operation, action.key)
        if isinstance(data, NotWritten):
            return data
        return refused or self._apply(action, data, fence)

    async def _receive(self, body: Body, action: PutObject | DeleteObject) -> bytes | NotWritten:
        data = b""
        try:
            async for piece in body:
                data += piece
                if "early_effect" in self._breaks and isinstance(action, PutObject):
                    self._objects[action.key] = _Object(data, '"early"', (), "early")
        except BodyError as broken:
            if "keeps_broken_bodies" not in self._breaks:
                return NotWritten(broken.problem)
        length = action.length if isinstance(action, PutObject) else None
        if length is not None and length != len(data) and "any_length" not in self._breaks:
            return _refused(Code.REQUEST_MALFORMED)
        return data

    def _replay(self, action: PutObject | DeleteObject, fence: WriteFence) -> WriteResult | None:
        previous, found = fence.previous_write_id, self._objects.get(action.key)
        if previous is None or "no_replays" in self._breaks:
            return None
        if isinstance(action, PutObject) and found is not None and found.write_id == previous:
            return Written(ObjectPut(found.etag))
        if isinstance(action, DeleteObject) and self._removed.get(action.key) == previous:
            return Written(ObjectDeleted())
        return None

    def _precondition(self, operation: Operation, key: str) -> WriteResult | None:
        if "no_conditions" in self._breaks:
            return None
        found = self._objects.get(key)
        wanted: Conditions = operation.conditions
        etag = found.etag if found is not None else None
        if wanted.if_match is not None and not _matches(wanted.if_match, etag):
            return _refused(Code.PRECONDITION_FAILED)
        if wanted.if_none_match is not None and _matches(wanted.if_none_match, etag):
            return _refused(Code.PRECONDITION_FAILED)
        return None

    def _apply(
        self, action: PutObject | DeleteObject, data: bytes, fence: WriteFence
    ) -> WriteResult:
        shut = fence.gate() if "no_gate" not in self._breaks else None
        if "asks_twice" in self._breaks:
            fence.gate()
        if shut is not None and "ignores_gate" not in self._breaks:
            return NotWritten(shut)
        if isinstance(action, DeleteObject):
            self._removed[action.key] = fence.write_id
            return Written(ObjectDeleted(self._objects.pop(action.key, None) is not None))
        self.effects.append(Effect(action.key, fence.write_id))
        etag = f'"r{next(self._numbers)}"' if "same_etags" not in self._breaks else '"same"'
        metadata = action.metadata if "forgets_metadata" not in self._breaks else ()
        if "shows_stamp" in self._breaks:
            metadata = (*metadata, ("x-amz-meta-fencegate", "v1.a.b"))
        self._objects[action.key] = _Object(data, etag, metadata, fence.write_id)
        return Written(ObjectPut(etag))

    # --- reads ----------------------------------------------------------------------------------
    async def read(self, operation: Operation) -> ReadResult:
        match operation.action:
            case GetObject() as action:
                return self._get(operation, action)
            case ListObjects(bucket="kit") as action:
                return self._list(action)
            case ListBuckets():
                return ReadDone(Buckets((("kit", 1),)))
            case HeadBucket(bucket="kit"):
                return ReadDone(BucketFound("here"))
            case _:
                return ReadRefused(_refused(Code.NOT_FOUND, "NoSuchBucket").problem)

    def _get(self, operation: Operation, action: GetObject) -> ReadResult:
        found = self._objects.get(action.key)
        if found is None:
            return ReadRefused(_refused(Code.NOT_FOUND).problem)
        wanted = operation.conditions
        if wanted.if_match is not None and not _matches(wanted.if_match, found.etag):
            return ReadRefused(_refused(Code.PRECONDITION_FAILED).problem)
        if wanted.if_none_match is not None and _matches(wanted.if_none_match, found.etag):
            return ReadDone(NotModified(found.etag))
        meta = ObjectMeta(found.etag, len(found.data), 2_000_000_000, found.metadata)
        span = _span(action.range_, len(found.data))
        if span == "no":
            return ReadRefused(_refused(Code.NOT_SATISFIABLE).problem)
        first, last = span or (0, len(found.data) - 1)
        if "off_by_one" in self._breaks and span:
            last -= 1
        data = found.data[first : last + 1]
        whole = None if span is None else (first, last, len(found.data))
        chunks = None if action.head else _chunks(data)
        return ReadDone(ObjectFound(meta, len(data), whole, chunks))

    def _list(self, action: ListObjects) -> ReadResult:
        query = dict(action.query)
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("marker" if action.version == 1 else "start-after", "")
        if "continuation-token" in query:
            after = base64.b64decode(query["continuation-token"]).decode()
        if query.get("max-keys", "1").strip("0123456789"):
            return ReadRefused(_refused(Code.REQUEST_MALFORMED).problem)
        limit = min(int(query.get("max-keys") or 1000), 1000)
        encoding = "utf-16-be" if "utf_16_order" in self._breaks else "utf-8"
        keys = sorted(self._objects, key=lambda key: key.encode(encoding))
        shown: list[str] = []
        for key in keys:
            at = key.find(delimiter, len(prefix)) if delimiter else -1
            item = key if at < 0 else key[: at + len(delimiter)]
            if key.startswith(prefix) and item.encode() > after.encode() and item not in shown:
                shown.append(item)
        page = shown[:limit]
        more = len(shown) > limit > 0 or (len(page) == limit and "empty_page" in self._breaks)
        last = page[-1] if page else ""
        token = last if action.version == 1 else base64.b64encode(last.encode()).decode()
        listed = [key for key in page if not delimiter or delimiter not in key[len(prefix) :]]
        objects = tuple(
            ListedObject(key, o.etag, len(o.data), 2_000_000_000)
            for key in listed
            for o in (self._objects[key],)
        )
        prefixes = tuple(item for item in page if item not in listed)
        return ReadDone(Listing("kit", objects, prefixes, token if more else None))

    async def probe(self) -> Capabilities:
        return self.capabilities

    async def check(self) -> str | None:
        return None

    async def aclose(self) -> None:
        pass


def _matches(tags: tuple[str, ...], etag: str | None) -> bool:
    return etag is not None and (etag in tags or "*" in tags)


def _span(text: str | None, size: int) -> tuple[int, int] | str | None:
    if text is None:
        return None
    first, _, last = text.removeprefix("bytes=").partition("-")
    if not first:
        return (max(size - int(last), 0), size - 1) if int(last) else "no"
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        return "no"
    return int(first), min(int(last or size), size - 1)


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    yield data


def open_reference(*breaks: str, traits: Traits = REFERENCE) -> OpenSubject:
    """Opens the reference store with these faults."""

    @asynccontextmanager
    async def open_subject() -> AsyncIterator[Subject]:
        store = ReferenceStore(frozenset(breaks))

        async def journal() -> list[Effect]:
            return store.effects

        bucket = "kit" if traits.bucketed else ""
        yield Subject(store, replace(traits), bucket=bucket, journal=journal)

    return open_subject
