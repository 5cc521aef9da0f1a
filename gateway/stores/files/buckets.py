"""The bucket layout: S3 keys of any shape, as files with hashed names and an index of them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final

from gateway.model.object_action import (
    DeleteObject,
    GetObject,
    HeadBucket,
    ListBuckets,
    ListObjects,
    PutObject,
)
from gateway.model.operation import Operation
from gateway.model.problem import Code, Problem
from gateway.model.reply import BucketFound, Buckets, Listing
from gateway.ports.body import Body
from gateway.ports.store import (
    MaybeWritten,
    NotWritten,
    ReadDone,
    ReadResult,
    WriteFence,
    WriteResult,
)
from gateway.stores.files.answers import answer, drop_answer, no_such_object
from gateway.stores.files.blobs import PLACED_SUFFIX, Address, Blobs, Placed, noted
from gateway.stores.files.bucket_changes import Removal, Replacement, Shelf, Terms
from gateway.stores.files.changes import settle, stage
from gateway.stores.files.faults import Refusal, busy
from gateway.stores.files.incoming import Upload, receive
from gateway.stores.files.index import Index
from gateway.stores.files.listing import page, query_of
from gateway.stores.files.locked_store import LockedStore
from gateway.stores.files.record import Record

MAX_KEY_BYTES: Final = 1024
_TRIES: Final = 16
_CHECKPOINT_COMMITS: Final = 1000


class BucketStore(LockedStore):
    """A `files` store for the s3 dialect. Keys are text of up to 1024 bytes in UTF-8.

    `root` is a directory of its own on one local file system; several processes of one host may
    share it. `buckets` are created with the first start that names them.
    """

    format = "buckets 1"

    def __init__(
        self,
        name: str,
        root: Path,
        buckets: Iterable[str],
        *,
        region: str = "us-east-1",
        lock_timeout_ms: int = 2000,
    ) -> None:
        super().__init__(name, root, root, lock_timeout_ms)
        self._buckets = frozenset(buckets)
        self._region = region
        self._index = Index(root / "index.sqlite", self._timeout_s)
        self._shelf = Shelf(self._index, Blobs(root / "blobs"))
        self._writer = asyncio.Lock()
        self._commits = 0
        self._checkpoint: asyncio.Task[None] | None = None

    def _open(self) -> None:
        self._index.open(sorted(self._buckets))
        self._shelf.sweep()

    def _close(self) -> None:
        super()._close()
        self._index.close()

    async def aclose(self) -> None:
        """See `Store.aclose`."""
        if self._checkpoint is not None:
            await asyncio.wait({self._checkpoint})
        await super().aclose()

    def _sweep(self, left: Path) -> None:
        """A note tells of a file that may have no key: then it goes."""
        if left.suffix != PLACED_SUFFIX:
            return
        blob, address = noted(left)
        entry = self._index.find(*address) if address is not None else None
        kept = entry is not None and entry.blob == blob
        if not kept and (address is not None or not self._index.holds(blob)):
            self._shelf.blobs.remove(blob)

    def _address(self, bucket: str, key: str) -> Address:
        self._known(bucket)
        try:
            raw = key.encode()
        except UnicodeEncodeError:
            raise Refusal(_malformed("the key is not UTF-8", "InvalidURI")) from None
        if len(raw) > MAX_KEY_BYTES:
            message = f"the key has {len(raw)} bytes, at most {MAX_KEY_BYTES} are allowed"
            raise Refusal(_malformed(message, "KeyTooLongError"))
        if not raw:
            raise Refusal(_malformed("the key is empty", "InvalidArgument"))
        return Address(bucket, raw)

    def _known(self, bucket: str) -> None:
        if bucket not in self._buckets:
            message = f"there is no bucket {bucket!r}: add it to `buckets` of store {self.name!r}"
            raise Refusal(Problem(Code.NOT_FOUND, message, native="NoSuchBucket"))

    # --- writes ---------------------------------------------------------------------------------
    async def _write(self, operation: Operation, body: Body, fence: WriteFence) -> WriteResult:
        match operation.action:
            case PutObject() as action if (asked := _cannot_honour(action)) is not None:
                text = f"store {self.name!r} keeps no {asked}: leave the field out"
                return NotWritten(Problem(Code.NOT_FENCED, text, native="NotImplemented"))
            case PutObject() as action:
                return await self._put(operation, action, body, fence)
            case DeleteObject() as action:
                address = self._address(action.bucket, action.key)
                async with self._scopes.shared(fence.scope) as stored:
                    terms = Terms(operation.conditions, fence, stored)
                    removal = Removal(self._shelf, address, terms)
                    ended = await self._stage(removal, fence)
                    return ended or await settle(removal, self._threads, self.name)
            case _:
                raise Refusal(_unknown(operation))

    async def _put(
        self, operation: Operation, action: PutObject, body: Body, fence: WriteFence
    ) -> WriteResult:
        address = self._address(action.bucket, action.key)
        upload = self._incoming.upload(fence.write_id)
        unused: Placed | None = None
        try:
            await receive(body, action.length, upload, self._threads)
            placed = unused = await self._threads.run(
                self._shelf.blobs.place, upload, address, lost=Placed.remove
            )
            async with self._scopes.shared(fence.scope) as stored:
                terms = Terms(operation.conditions, fence, stored)
                change = Replacement(self._shelf, address, terms, action, placed)
                ended = await self._stage(change, fence)
                if ended is None or isinstance(ended, MaybeWritten):
                    unused = None
                return ended or await settle(change, self._threads, self.name)
        finally:
            await self._threads.run(_clear, upload, unused)

    async def _stage(self, change: Replacement | Removal, fence: WriteFence) -> WriteResult | None:
        async with self._writing():
            ended = await stage(change, fence, self._threads, self.name)
        self._commits += 1
        if self._commits >= _CHECKPOINT_COMMITS and self._checkpoint is None:
            self._commits = 0
            self._checkpoint = asyncio.create_task(self._check_point())
        return ended

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[None]:
        """Be the one writer of this process; SQLite sees to the others."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._writer.acquire()
        except TimeoutError:
            raise Refusal(busy("other writes to this store take too long; try again")) from None
        try:
            yield
        finally:
            self._writer.release()

    async def _check_point(self) -> None:
        try:
            with suppress(sqlite3.Error):  # the log only grows on until the next one
                await self._threads.run(self._index.checkpoint)
        finally:
            self._checkpoint = None

    def _version(self, action: PutObject) -> Record | None:
        entry = self._index.find(*self._address(action.bucket, action.key))
        if entry is None:
            return None
        self._index.flush()
        return entry.record

    # --- reads ----------------------------------------------------------------------------------
    async def _read(self, operation: Operation) -> ReadResult:
        match operation.action:
            case GetObject() as action:
                return await self._threads.run(self._get, operation, action, lost=drop_answer)
            case ListObjects() as action:
                return ReadDone(await self._threads.run(self._list, action))
            case ListBuckets():
                created = await self._threads.run(self._index.buckets)
                names = sorted(self._buckets)
                return ReadDone(Buckets(tuple((name, created[name]) for name in names)))
            case HeadBucket(bucket=bucket):
                self._known(bucket)
                return ReadDone(BucketFound(self._region))
            case _:
                raise Refusal(_unknown(operation))

    def _get(self, operation: Operation, action: GetObject) -> ReadResult:
        address = self._address(action.bucket, action.key)
        for _ in range(_TRIES):
            entry = self._index.find(*address)
            if entry is None:
                raise Refusal(no_such_object(f"there is no object with the key {action.key!r}"))
            try:
                file = FileIO(self._shelf.blobs.path(entry.blob))
            except FileNotFoundError:
                continue  # replaced since we looked: the index has a newer one
            return answer(file, entry.record, action, operation.conditions, self._threads)
        raise Refusal(
            Problem(
                Code.UPSTREAM_FAILED,
                f"the file of {action.key!r} is missing: restore `blobs` and the index together",
                native="InternalError",
            )
        )

    def _list(self, action: ListObjects) -> Listing:
        self._known(action.bucket)
        query = query_of(action)
        with self._index.listing(action.bucket) as listed:
            return page(action, query, listed.rows)


def _clear(upload: Upload, unused: Placed | None) -> None:
    """One call, so that a cancellation cannot come between."""
    upload.discard()
    if unused is not None:
        with suppress(OSError):  # the note leads a later start to it
            unused.remove()


def _malformed(message: str, native: str) -> Problem:
    return Problem(Code.REQUEST_MALFORMED, message, native=native)


def _unknown(operation: Operation) -> Problem:
    return Problem(
        Code.NOT_FENCED,
        f"a bucket of files knows objects and listings, not this {operation.method}",
        native="NotImplemented",
    )


# What is asked for and holds anyway.
_HARMLESS = {"x-amz-acl": "private", "x-amz-storage-class": "STANDARD"}


def _cannot_honour(action: PutObject) -> str | None:
    """The field that asks for something a directory cannot give; refused, never skipped."""
    for name, value in action.metadata:
        ours = name.startswith("x-amz-") and not name.startswith("x-amz-meta-")
        if ours and _HARMLESS.get(name) != value:
            return name
    return None
