"""The `s3` store over the numbering origin: one write at a time, as the engine asks for it."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.mark import Era, Mark, Scope
from gateway.model.object_action import DeleteObject, Fields, ObjectRead, PutObject
from gateway.model.operation import Action, Kind, Operation
from gateway.model.problem import Problem
from gateway.model.resource import Resource
from gateway.model.token import Token
from gateway.model.version import Look
from gateway.ports.body import Body
from gateway.ports.store import ReadRefused, ReadResult, WriteFence, WriteResult
from gateway.stores.s3.store import S3Store
from gateway.testing.numbering_origin import Asked, NumberingOrigin, Stored
from gateway.testing.store_subject import Pieces
from tests.services.object_stores import ObjectStore

SCOPE = Scope("lake/scope")
BUCKET = "kit"


def s3_store(at: ObjectStore, bucket: str | None, **more: Any) -> S3Store:
    """The store under test, pointed at a server."""
    return S3Store(
        "lake",
        at.endpoint,
        at.region,
        at.access_key_id,
        at.secret_access_key,
        stamp_secret=b"kit",
        bucket=bucket,
        **more,
    )


@dataclass(slots=True)
class Lake:
    """A store, the origin behind it, and what an engine would do in front of it."""

    store: S3Store
    origin: NumberingOrigin
    gates: list[str] = field(default_factory=list)
    resets: list[Callable[[], None]] = field(default_factory=list)

    def fence(
        self,
        write_id: str,
        looked: Look,
        token: int = 1,
        gate: Callable[[], Problem | None] | None = None,
        previous: str | None = None,
    ) -> WriteFence:
        """A fence that counts how often its gate was asked."""

        def ask() -> Problem | None:
            self.gates.append(write_id)
            return gate() if gate is not None else None

        mark = Mark(Era(1), token)
        return WriteFence(SCOPE, mark, write_id, looked, ask, previous, self.resets.append)

    async def look(self, action: Action) -> Look:
        """Look as the engine does, before admission."""
        seen = await self.store.look(operation(action), SCOPE)
        assert not isinstance(seen, ReadRefused), seen.problem.message
        return seen

    async def look_at(self, key: str) -> Look:
        """Look at a key."""
        return await self.look(PutObject(BUCKET, key, 0))

    def plant(self, key: str, data: bytes) -> None:
        """Somebody writes past the gateway."""
        etag = f'"{hashlib.md5(data).hexdigest()}"'
        self.origin.objects[key] = Stored(data, etag, ())

    def stall_effects(self) -> asyncio.Event:
        """Writes that have arrived wait for this event before they take effect."""
        release = asyncio.Event()

        async def wait(_: Asked) -> None:
            await release.wait()

        self.origin.faults.before_effect = wait
        return release

    async def put(
        self,
        key: str,
        data: bytes | Body,
        write_id: str = "w1",
        *,
        conditions: Conditions = NO_CONDITIONS,
        looked: Look | None = None,
        metadata: Fields = (),
        sha256: str | None = None,
        **fence: Any,
    ) -> WriteResult:
        """Look, unless told what was seen, and put."""
        body = Pieces(data) if isinstance(data, bytes) else data
        action = PutObject(BUCKET, key, body.length, metadata, sha256)
        seen = looked if looked is not None else await self.look(action)
        return await self.store.write(
            operation(action, conditions), body, self.fence(write_id, seen, **fence)
        )

    async def delete(
        self,
        key: str,
        write_id: str = "d1",
        *,
        conditions: Conditions = NO_CONDITIONS,
        looked: Look | None = None,
        **fence: Any,
    ) -> WriteResult:
        """Look, unless told what was seen, and delete."""
        action = DeleteObject(BUCKET, key)
        seen = looked if looked is not None else await self.look(action)
        return await self.store.write(
            operation(action, conditions), Pieces(b""), self.fence(write_id, seen, **fence)
        )

    async def read(self, action: ObjectRead, conditions: Conditions = NO_CONDITIONS) -> ReadResult:
        """Read."""
        return await self.store.read(operation(action, conditions))

    def data(self, key: str) -> bytes | None:
        """What the origin holds now."""
        stored = self.origin.objects.get(key)
        return None if stored is None else stored.data

    def landed(self) -> list[str]:
        """The write ids in the order of their effects."""
        return [effect.write_id for effect in self.origin.effects]


def operation(action: Action, conditions: Conditions = NO_CONDITIONS) -> Operation:
    """The operation that the s3 dialect would make."""
    path = f"{getattr(action, 'bucket', '')}/{getattr(action, 'key', '')}"
    mutates = isinstance(action, PutObject | DeleteObject)
    return Operation(
        resource=Resource("lake", path),
        route=f"/{path}",
        kind=Kind.WRITE if mutates else Kind.READ,
        method="PUT" if isinstance(action, PutObject) else "GET",
        action=action,
        token=Token(1) if mutates else None,
        conditions=conditions,
    )


@asynccontextmanager
async def open_lake(
    *, probe: bool = False, server_tls: ssl.SSLContext | None = None, **more: Any
) -> AsyncIterator[Lake]:
    """An origin and a store of its own; `probe` runs the start-up probe first."""
    origin = NumberingOrigin(tls=server_tls)
    await origin.start()
    at = ObjectStore(origin.url, "key", "secret")
    store = s3_store(at, BUCKET, **more)
    try:
        if probe:
            await store.probe()
        yield Lake(store, origin)
    finally:
        await store.aclose()
        await origin.aclose()
