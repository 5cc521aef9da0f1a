"""The `s3` store: an S3 server as the place where writes land (ARCHITECTURE.md, "Flow").

It implements the port: what is under a key (`look`), fenced writes with conditions, hold-back and
gate (`write`), reads, and the start-up probe. The rules are in gateway.machines.condition.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from gateway.dialects.s3.sigv4 import AccessKey
from gateway.engine.holdback import HOLD_BACK_BYTES, SPOOL_BYTES
from gateway.model.mark import Era, Mark, Scope
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
from gateway.model.version import Look, NotLooked
from gateway.ports.body import Body, BodyError
from gateway.ports.store import (
    Capabilities,
    NotWritten,
    ProbeFailed,
    ReadRefused,
    ReadResult,
    WriteFence,
    WriteResult,
)
from gateway.stores.s3 import answers, lost
from gateway.stores.s3.deletes import delete_object
from gateway.stores.s3.looks import Stamper
from gateway.stores.s3.probe import check, probe_conditions, probe_plain
from gateway.stores.s3.profile import WEAK, ConditionMode, Profile, guarantee
from gateway.stores.s3.puts import put_object
from gateway.stores.s3.reads import read as read_action
from gateway.stores.s3.site import Site
from gateway.stores.s3.wire import RequestWriter, too_long
from gateway.upstream.exchange import Client
from gateway.upstream.pool import Endpoint, Pool, Timeouts

# Signatures carry the wall clock, and nothing is compared with it.
wall_clock_s: Final[Callable[[], float]] = time.time  # noqa: TID251
MAX_SPOOL_BYTES: Final = 16_777_216
_DEFAULT_TIMEOUTS: Final = Timeouts()


def parse_endpoint(text: str, tls: ssl.SSLContext | None = None) -> Endpoint:
    """Understand "https://host" or "http://host:port". Raises `ValueError` with what to change.

    `tls` replaces the system's trust store, for servers with a private authority.
    """
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f'endpoint {text!r} must look like "https://host" or "http://host:port"')
    if parts.path not in {"", "/"} or parts.query or parts.fragment or parts.username:
        raise ValueError(f"endpoint {text!r} must have no path, query or user")
    if parts.scheme == "http":
        return Endpoint(parts.hostname, parts.port or 80, parts.netloc)
    context = tls or ssl.create_default_context()
    return Endpoint(parts.hostname, parts.port or 443, parts.netloc, context)


class S3Store:
    """An S3 server. `capabilities` are those of the configuration until `probe` has looked.

    `conditions`: "etag" demands conditional writes; "none" sends none and refuses the client's.
    `stamp_secret` must be the same for all replicas, and stay the same. `bucket` is where the
    probe writes; only "none" can do without. `connections` bounds those to the server.
    `max_spool_bytes` bounds bodies of a server that acts on half an upload.
    """

    def __init__(
        self,
        name: str,
        endpoint: str,
        region: str,
        access_key_id: str,
        secret_access_key: str,
        *,
        stamp_secret: bytes,
        session_token: str | None = None,
        conditions: ConditionMode = "etag",
        settle_ms: int = 10_000,
        bucket: str | None = None,
        timeouts: Timeouts = _DEFAULT_TIMEOUTS,
        connections: int = 256,
        hold_back_bytes: int = HOLD_BACK_BYTES,
        max_spool_bytes: int = MAX_SPOOL_BYTES,
        tls: ssl.SSLContext | None = None,
        wall_s: Callable[[], float] = wall_clock_s,
    ) -> None:
        place = parse_endpoint(endpoint, tls)
        key = AccessKey(access_key_id, secret_access_key, session_token)
        self.name = name
        self._mode = conditions
        self._settle_ms = settle_ms
        self._bucket = bucket
        self._pool = Pool(place, timeouts, connections)
        self._site = Site(
            name,
            Client(self._pool),
            RequestWriter(place.authority, key, region, wall_s),
            Stamper(stamp_secret),
            Profile() if conditions == "etag" else WEAK,
            hold_back_bytes,
            SPOOL_BYTES,
            max_spool_bytes,
        )
        self.capabilities = self._describe()

    @property
    def profile(self) -> Profile:
        """What the server can do, as far as is known."""
        return self._site.profile

    def _describe(self) -> Capabilities:
        profile = self._site.profile
        return Capabilities(
            conditions=profile.conditions,
            exact=False,
            settle_ms=self._settle_ms,
            guarantee=guarantee(profile, self._settle_ms),
        )

    async def look(self, operation: Operation, scope: Scope) -> Look | ReadRefused:
        """Version and stamp of the object (rule 12)."""
        match operation.action:
            case PutObject(bucket, key) | DeleteObject(bucket, key) | GetObject(bucket, key):
                seen = await self._site.looker.look(bucket, key, scope)
                return ReadRefused(seen) if isinstance(seen, Problem) else seen
            case _:
                return NotLooked()

    async def write(self, operation: Operation, body: Body, fence: WriteFence) -> WriteResult:
        """Carry out a PUT or DELETE (rules 5 and 12)."""
        client = operation.conditions
        try:
            match operation.action:
                case PutObject(key=key) | DeleteObject(key=key) if too_long(key):
                    return NotWritten(answers.KEY_TOO_LONG)
                case PutObject() as action:
                    return await put_object(self._site, action, client, body, fence)
                case DeleteObject() as action:
                    return await delete_object(self._site, action, client, fence)
                case _:
                    return NotWritten(_not_ours(self.name))
        except BodyError as error:
            return NotWritten(error.problem)

    async def find_out(self, operation: Operation, fence: WriteFence, age_s: float) -> WriteResult:
        """See `FindsOut`: the stamp tells, or that nothing has changed after `settle_ms`."""
        return await lost.find_out(self._site, operation, fence, age_s, self._settle_ms / 1000)

    async def recall(
        self, operation: Operation, scope: Scope, era: Era | None
    ) -> WriteResult | None:
        """See `Recalls`."""
        return await lost.recall(self._site, operation, scope, era)

    async def read(self, operation: Operation) -> ReadResult:
        """Answer a read of objects, listings or buckets."""
        match operation.action:
            case GetObject() | ListObjects() | ListBuckets() | HeadBucket() as action:
                return await read_action(self._site, action, operation.conditions)
            case _:
                return ReadRefused(_not_ours(self.name))

    async def carry(self, scope: Scope, mark: Mark) -> Mark | None:
        """An S3 server has no fence of its own."""
        return None

    async def probe(self) -> Capabilities:
        """Learn what the server can do (rule 12). Raises `ProbeFailed`."""
        if self._mode == "none":
            profile = await probe_plain(self._site, self._bucket)
        elif self._bucket is None:
            raise ProbeFailed(
                f"Store {self.name!r}: name the bucket that the start-up probe may write to, with "
                'buckets = ["…"].'
            )
        else:
            profile = await probe_conditions(self._site, self._bucket)
        self._site = replace(self._site, profile=profile)
        self.capabilities = self._describe()
        return self.capabilities

    async def check(self) -> str | None:
        """See `Store.check`: the server answers and takes our signature; the bucket is there."""
        return await check(self._site, self._bucket)

    async def aclose(self) -> None:
        """Close every connection."""
        self._pool.close()


def _not_ours(store: str) -> Problem:
    return Problem(Code.NOT_FENCED, f"The store {store!r} holds objects: this is none of its work.")
