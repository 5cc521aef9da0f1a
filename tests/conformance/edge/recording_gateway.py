"""A real server over the edge with a store that records: what reached it, and what was written."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from gateway.dialects.http import HttpDialect
from gateway.edge.asgi import DataPlane
from gateway.edge.asgi_types import App
from gateway.edge.fronts import Front, Listener
from gateway.edge.limits import EdgeLimits
from gateway.edge.request_ids import RequestIds
from gateway.edge.server import EdgeServer, bind, bound_address
from gateway.model.event import Event, Rejected, RequestFinished
from gateway.model.mark import Scope
from gateway.model.object_action import DeleteObject, GetObject, PutObject
from gateway.model.operation import Operation
from gateway.model.outcome import Applied, Outcome, ReadFailed, ReadOk, Refused
from gateway.model.problem import Code, Problem
from gateway.model.reply import ObjectDeleted, ObjectFound, ObjectMeta, ObjectPut
from gateway.policy.decide import Permit
from gateway.policy.document import Mode, Reads
from gateway.ports.dialect import Parsed
from gateway.system_clock import SystemClock
from tests.conformance.edge.raw_http import RawConnection

DEADLINE_S = 10.0


@dataclass
class RecordingStore:
    """A store in a dict. Tokens below `mark` are refused before the body is read."""

    mark: int = 0
    objects: dict[str, bytes] = field(default_factory=dict)
    reached: list[str] = field(default_factory=list)
    writes: list[tuple[str, bytes]] = field(default_factory=list)
    before_write: Callable[[], object] | None = None
    readers: int = 0

    async def _chunks(self, data: bytes, size: int = 65536) -> AsyncIterator[bytes]:
        self.readers += 1
        try:
            for start in range(0, len(data), size):
                yield data[start : start + size]
        finally:
            self.readers -= 1

    async def handle(self, parsed: Parsed, _: Permit | Problem) -> Outcome:
        operation = parsed.operation
        action = operation.action
        self.reached.append(f"{operation.method} {operation.resource.path}")
        if operation.kind.mutates and (operation.token or 0) < self.mark:
            text = "the token is below the mark"
            return Refused(Problem(Code.TOKEN_STALE, text, mark=self.mark))
        if isinstance(action, PutObject):
            data = b"".join([piece async for piece in parsed.body])
            if self.before_write is not None:
                await asyncio.to_thread(self.before_write)
            created = action.key not in self.objects
            self.objects[action.key] = data
            self.writes.append((action.key, data))
            return Applied(ObjectPut('"v1"', created))
        if isinstance(action, DeleteObject):
            return Applied(ObjectDeleted(self.objects.pop(action.key, None) is not None))
        assert isinstance(action, GetObject)
        data_or_none = self.objects.get(action.key)
        if data_or_none is None:
            return ReadFailed(Problem(Code.NOT_FOUND, "there is no such object"))
        meta = ObjectMeta('"v1"', len(data_or_none), 1_700_000_000)
        chunks = None if action.head else self._chunks(data_or_none)
        return ReadOk(ObjectFound(meta, len(data_or_none), None, chunks))


def own_scope(operation: Operation) -> Permit:
    """Decides without a policy: every resource is its own scope."""
    resource = operation.resource
    return Permit(Scope(f"{resource.store}:{resource.path}"), Mode.ENFORCE, Reads.CHECK, None)


class Events:
    """Collects events."""

    def __init__(self) -> None:
        self.all: list[Event] = []

    def emit(self, event: Event) -> None:
        self.all.append(event)

    @property
    def finished(self) -> list[RequestFinished]:
        return [e for e in self.all if isinstance(e, RequestFinished)]

    @property
    def rejected(self) -> list[str]:
        return [e.reason for e in self.all if isinstance(e, Rejected)]


@dataclass
class RecordingGateway:
    """The running server."""

    server: EdgeServer
    store: RecordingStore
    events: Events
    address: tuple[str, int]
    connections: list[RawConnection] = field(default_factory=list)

    async def connect(self) -> RawConnection:
        """Open a connection that is closed with the gateway at the latest."""
        connection = await RawConnection.open(self.address)
        self.connections.append(connection)
        return connection

    def forget(self) -> None:
        """Begin a new record."""
        self.events.all.clear()
        self.store.reached.clear()
        self.store.writes.clear()
        self.store.objects.clear()
        self.store.mark = 0

    @property
    def url(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}"


@contextlib.asynccontextmanager
async def recording_gateway(
    *,
    limits: EdgeLimits | None = None,
    hosts: frozenset[str] | None = None,
    mount: str = "",
    control: App | None = None,
    max_body_bytes: int | None = None,
) -> AsyncIterator[RecordingGateway]:
    """Serve a recording store on a free port of loopback."""
    limits = limits or EdgeLimits()
    store, events, ids = RecordingStore(), Events(), RequestIds()
    front = Front(
        "files",
        HttpDialect("files", mount, None),
        mount.encode(),
        own_scope,
        store.handle,
        max_body_bytes,
    )
    taken = bind("127.0.0.1", 0)
    address = bound_address(taken)
    plane = DataPlane(
        (Listener(address, (front,), control),),
        clock=SystemClock(),
        wall_s=time.time,
        observer=events,
        ids=ids,
        limits=limits,
        hosts=hosts,
    )
    server = EdgeServer(plane, [taken], limits=limits, ids=ids, observer=events, grace_s=5)
    started = asyncio.Event()
    running = asyncio.create_task(server.run(on_started=started.set, handle_signals=False))
    waiting = asyncio.create_task(started.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    gateway = RecordingGateway(server, store, events, address)
    try:
        yield gateway
    finally:
        for connection in gateway.connections:
            await connection.close()
        server.stop()
        server.stop()
        await asyncio.wait_for(running, DEADLINE_S)
