"""The composition root: from a policy to a gateway that serves it.

Reads like the product's sentence: workers speak a dialect at a front, the pipeline decides, the
fences admit over a registry, the stores write, and whoever observes is told.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import metadata
from typing import Final, Protocol, assert_never, cast

import uvloop

from gateway.access import Access
from gateway.edge.announcement import announce
from gateway.edge.asgi import DataPlane
from gateway.edge.asgi_types import App
from gateway.edge.audit_log import AuditFailed, AuditLog
from gateway.edge.control import control_app
from gateway.edge.fronts import Front, Listener
from gateway.edge.limits import EdgeLimits
from gateway.edge.place import Place
from gateway.edge.reloads import Reloads
from gateway.edge.request_ids import RequestIds
from gateway.edge.server import CannotListen, EdgeServer, Sockets, bound_address
from gateway.edge.tls import ServerTls, UnusableCertificate, listeners_tls
from gateway.engine.desk import Desk
from gateway.engine.fences import Fences, Timing
from gateway.engine.live_policy import LivePolicy, RescopeRefused
from gateway.engine.pipeline import Pipeline
from gateway.engine.readiness import Readiness
from gateway.engine.replays import Replays
from gateway.engine.retries import Retries
from gateway.engine.signatures import Signatures
from gateway.identity.live_tokens import LiveTokens
from gateway.model.event import Started
from gateway.model.mark import Scope
from gateway.policy.document import PolicySet
from gateway.policy.limits import Limits
from gateway.policy.origin_settings import HttpSettings
from gateway.policy.store_settings import (
    DatabaseSettings,
    FilesSettings,
    MariadbSettings,
    PostgresSettings,
    S3Settings,
    SqliteSettings,
    StoreSettings,
)
from gateway.ports.dialect import Dialect
from gateway.ports.identity import UnusableKeys
from gateway.ports.observer import Observer
from gateway.ports.registry import Registry, RegistryUnavailable
from gateway.ports.store import ProbeFailed, Store
from gateway.registries.memory import MemoryRegistry
from gateway.registries.sqlite import SqliteRegistry
from gateway.settings import METRICS_DIR_VARIABLE, password_in, reread, stamp_secret
from gateway.stores.files import BucketStore, TreeStore
from gateway.stores.http import origin_store
from gateway.stores.sqlite import SqliteStore
from gateway.system_clock import SystemClock, wall_s
from gateway.telemetry.loop_lag import watch_loop
from gateway.telemetry.observation import Observation

_GRACE_S: Final = 8  # container engines kill 10 s after SIGTERM


class _HasTables(Protocol):
    """What a database store offers beyond the port of a store."""

    async def migrate(self) -> object:
        """Create or upgrade the fence schema."""
        ...


class StartError(Exception):
    """The gateway cannot start; the text says what to change."""


_CANNOT_START: Final = (
    StartError,
    RescopeRefused,
    CannotListen,
    ProbeFailed,
    RegistryUnavailable,
    AuditFailed,
    UnusableCertificate,
    UnusableKeys,
)


def serve(policy: PolicySet, place: Place) -> int:
    """Serve a policy until SIGTERM or SIGINT. Returns the exit code."""
    try:
        uvloop.run(_serve(policy, place))
    except _CANNOT_START as failed:
        sys.stderr.write(f"fencegate: {failed}\n")
        return 1
    return 0


def migrate(policy: PolicySet, store: str) -> int:
    """Create or upgrade the fence schema of a database store. Returns the exit code."""
    try:
        sys.stdout.write(uvloop.run(_migrate(policy, store)) + "\n")
    except (StartError, ProbeFailed) as failed:
        sys.stderr.write(f"fencegate: {failed}\n")
        return 1
    return 0


# --- stores -------------------------------------------------------------------------------------
def build_store(settings: StoreSettings, policy: PolicySet) -> Store:
    """One store as its settings describe it. Drivers are imported when a policy names them."""
    limits = policy.limits
    match settings:
        case FilesSettings(dialect="s3"):
            root, buckets = policy.data(settings.root), settings.buckets
            return BucketStore(
                settings.name,
                root,
                buckets,
                region=settings.region,
                lock_timeout_ms=limits.lock_timeout_ms,
            )
        case FilesSettings():
            root = policy.data(settings.root)
            return TreeStore(settings.name, root, lock_timeout_ms=limits.lock_timeout_ms)
        case SqliteSettings():
            return SqliteStore(
                settings.name,
                policy.data(settings.path),
                tables=settings.tables,
                init=settings.init,
                lock_timeout_ms=limits.lock_timeout_ms,
                statement_timeout_ms=limits.statement_timeout_ms,
            )
        case PostgresSettings():
            return _postgres(settings, limits)
        case MariadbSettings():
            return _mariadb(settings, policy)
        case S3Settings():
            return _s3(settings, policy)
        case HttpSettings():
            return origin_store(settings, limits)
        case _:
            assert_never(settings)


def _postgres(settings: PostgresSettings, limits: Limits) -> Store:
    from gateway.stores.postgres.store import PostgresStore

    return PostgresStore(
        settings.name,
        settings.dsn,
        tables=settings.tables,
        schema=settings.schema,
        pool_size=settings.pool_size,
        lock_timeout_ms=limits.lock_timeout_ms,
        statement_timeout_ms=limits.statement_timeout_ms,
        connect_timeout_ms=limits.upstream_connect_timeout_ms,
    )


def _mariadb(settings: MariadbSettings, policy: PolicySet) -> Store:
    from gateway.stores.mariadb.connection import Tls
    from gateway.stores.mariadb.store import MariadbStore

    limits, file = policy.limits, settings.password_file
    try:
        password = None if file is None else password_in(policy.data(file))
        tls = None
        if settings.ca_file is not None:
            own = (settings.cert_file, settings.key_file)
            cert, key = (None if one is None else str(policy.data(one)) for one in own)
            tls = Tls(str(policy.data(settings.ca_file)), cert, key)
            tls.context()  # read once now, so that a bad file stops the start
    except (OSError, ValueError) as wrong:
        raise StartError(f"store {settings.name}: {wrong}") from wrong
    return MariadbStore(
        settings.name,
        settings.dsn,
        tables=settings.tables,
        password=password,
        tls=tls,
        pool_size=settings.pool_size,
        lock_timeout_ms=limits.lock_timeout_ms,
        statement_timeout_ms=limits.statement_timeout_ms,
        connect_timeout_ms=limits.upstream_connect_timeout_ms,
    )


def _s3(settings: S3Settings, policy: PolicySet) -> Store:
    from gateway.stores.s3.store import S3Store
    from gateway.upstream.pool import Timeouts

    limits = policy.limits
    try:
        return S3Store(
            settings.name,
            settings.endpoint,
            settings.region,
            settings.access_key_id,
            settings.secret_access_key,
            session_token=settings.session_token,
            stamp_secret=stamp_secret(settings, policy),
            conditions=settings.conditions,
            settle_ms=settings.settle_ms,
            bucket=settings.probe_bucket,
            timeouts=Timeouts(
                connect_s=limits.upstream_connect_timeout_ms / 1000,
                first_byte_s=limits.upstream_first_byte_timeout_ms / 1000,
            ),
            hold_back_bytes=limits.hold_back_bytes,
            max_spool_bytes=limits.max_spool_bytes,
        )
    except ValueError as wrong:
        raise StartError(f"store {settings.name}: {wrong}") from wrong


def build_registry(policy: PolicySet, *, alone: bool) -> Registry:
    """The registry of the policy, for one process or several. Raises `RegistryUnavailable`."""
    match policy.registry.type:
        case "memory":
            return MemoryRegistry()
        case "sqlite":
            return SqliteRegistry(policy.data(policy.registry.path), shared=not alone)
        case "redis":
            return _redis_registry(policy)
        case "postgres":
            return _postgres_registry(policy)
        case "etcd":
            return _etcd_registry(policy)
        case _:
            assert_never(policy.registry.type)


def _redis_registry(policy: PolicySet) -> Registry:
    from gateway.registries.redis import RedisRegistry, redis_client
    from gateway.registries.redis.shards import Fence

    settings, timeout_ms = policy.registry, policy.limits.registry_timeout_ms
    assert settings.url is not None
    client = redis_client(
        settings.url,
        cluster=settings.cluster,
        sentinel_service=settings.sentinel_service,
        timeout_s=timeout_ms / 1000,
    )
    fence = Fence(aof=settings.aof, replicas=settings.replicas, timeout_ms=timeout_ms * 3 // 4)
    return RedisRegistry(client, prefix=settings.prefix, fence=fence)


def _postgres_registry(policy: PolicySet) -> Registry:
    from gateway.registries.postgres import PostgresRegistry

    settings, timeout_s = policy.registry, policy.limits.registry_timeout_ms / 1000
    assert settings.url is not None
    return PostgresRegistry(settings.url, schema=settings.schema, timeout_s=timeout_s)


def _etcd_registry(policy: PolicySet) -> Registry:
    from gateway.registries.etcd import EtcdRegistry, etcd_client

    settings, timeout_s = policy.registry, policy.limits.registry_timeout_ms / 1000
    assert settings.url is not None
    return EtcdRegistry(etcd_client(settings.url, timeout_s=timeout_s), prefix=settings.prefix)


# --- fronts -------------------------------------------------------------------------------------
def build_listeners(
    policy: PolicySet,
    dialects: Mapping[str, Dialect],
    engine: Engine,
    control: App,
    place: Place,
) -> tuple[tuple[Listener, ...], tuple[socket.socket, ...]]:
    """Take every listening address, and say what answers on it. Raises `CannotListen`."""

    def front(settings: StoreSettings, most: int | None) -> Front:
        mount = (settings.mount or "").encode()
        dialect = dialects[settings.name]
        pipeline = engine.pipeline
        return Front(settings.name, dialect, mount, pipeline.decide, pipeline.handle, most)

    most = policy.limits.max_object_bytes
    address = policy.server.listen
    source = Sockets(place.sockets)
    sockets = [source.take(address.host, address.port)]
    mounted = tuple(front(store, most) for store in policy.mounted())
    listeners = [Listener(bound_address(sockets[0]), mounted, control)]
    for store in policy.listening():
        assert store.listen is not None
        sockets.append(source.take(store.listen.host, store.listen.port))
        listeners.append(Listener(bound_address(sockets[-1]), (front(store, most),)))
    return tuple(listeners), tuple(sockets)


# --- the engine ---------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Engine:
    """The parts that stand between the fronts and the stores."""

    live: LivePolicy
    fences: Fences
    pipeline: Pipeline
    retries: Retries


def build_engine(
    policy: PolicySet,
    live: LivePolicy,
    stores: Mapping[str, Store],
    registry: Registry,
    clock: SystemClock,
    observer: Observer,
    signatures: Signatures,
) -> Engine:
    """Fences and pipeline over these stores and this registry."""
    limits = policy.limits

    def reach(scope: Scope) -> Iterable[Store]:
        return (stores[name] for name in live.reach(scope) if stores[name].capabilities.exact)

    timing = Timing(
        registry_timeout_s=limits.registry_timeout_ms / 1000,
        drain_timeout_s=limits.drain_timeout_ms / 1000,
        max_cached_scopes=limits.max_cached_scopes,
        member_ttl_s=limits.member_ttl_ms / 1000,
    )
    fences = Fences(registry, clock, observer, timing, reach, live.digest)
    replays = Replays(clock, limits.replay_ttl_ms / 1000, limits.max_replays)
    retries = Retries(replays, clock, observer, fences.era)
    pipeline = Pipeline(live, stores, fences, retries, clock, observer, signatures)
    return Engine(live, fences, pipeline, retries)


# --- serving ------------------------------------------------------------------------------------
async def _serve(policy: PolicySet, place: Place) -> None:
    clock = SystemClock()
    metrics_dir = None if place.alone else os.environ.get(METRICS_DIR_VARIABLE)
    watch = Observation(policy, clock, wall_s, sys.stderr, metrics_dir)
    observer = watch.observer
    async with AsyncExitStack() as stack:
        stack.callback(watch.close)
        reloads = Reloads(observer)
        stack.enter_context(reloads.on_hangup())
        tls = listeners_tls(policy, reloads)
        tokens = LiveTokens(clock, observer)
        (await tokens.prepare(policy))()
        registry = build_registry(policy, alone=place.alone)
        stack.push_async_callback(registry.aclose)
        for risk in await registry.probe():
            place.say(f"warning: {risk}\n")
        live = LivePolicy(
            policy,
            registry,
            lambda: reread(policy, place.read),
            accept_rescope=place.accept_rescope,
        )
        await live.start()
        stores = await _open_stores(policy, stack, place)
        audit = AuditLog(policy.data(policy.admin.audit_file)).open()
        access = Access(policy, stores, tokens, wall_s, audit)
        live.with_access(access.prepare)
        reloads.add("policy", live.reload)
        reloads.add("issuer_keys", tokens.read)
        engine = build_engine(policy, live, stores, registry, clock, observer, access.signatures)
        stack.push_async_callback(engine.retries.aclose)
        reloads.add("membership", engine.fences.membership.follow_rules)
        readiness = Readiness(registry, stores, clock, membership=engine.fences.membership.wrong)
        stack.push_async_callback(readiness.aclose)
        control = control_app(
            Desk(engine.fences, clock, observer, policy.limits.drain_timeout_ms / 1000),
            readiness,
            admins=access.admins,
            exposition=watch.metrics.exposition,
            digest=engine.live.digest,
            version=metadata.version("fencegate"),
            reach=engine.live.meets,
            requests=(engine.retries.requests, access.askers),
        )
        listeners, sockets = build_listeners(policy, access.dialects, engine, control, place)
        for work in (watch_loop(clock, observer), tokens.keep_fresh()):
            stack.callback(asyncio.create_task(work).cancel)
        place.follow(reloads)
        await engine.fences.start(max(s.capabilities.settle_ms for s in stores.values()) / 1000)
        await _run(policy, listeners, sockets, engine, readiness, clock, watch, place, tls)


async def _open_stores(policy: PolicySet, stack: AsyncExitStack, place: Place) -> dict[str, Store]:
    """Open and probe every store; one that cannot keep its promise stops the start."""
    stores = {}
    for name, settings in policy.stores.items():
        store = build_store(settings, policy)
        stack.push_async_callback(store.aclose)
        capabilities = await store.probe()
        place.say(f"store {name}: {capabilities.guarantee}\n")
        stores[name] = store
    return stores


async def _run(
    policy: PolicySet,
    listeners: tuple[Listener, ...],
    sockets: tuple[socket.socket, ...],
    engine: Engine,
    readiness: Readiness,
    clock: SystemClock,
    watch: Observation,
    place: Place,
    tls: ServerTls | None,
) -> None:
    observer = watch.observer
    limits, ids = EdgeLimits.of(policy.limits), RequestIds()
    hosts = frozenset(policy.server.hosts) or None
    plane = DataPlane(
        listeners,
        clock=clock,
        wall_s=wall_s,
        observer=observer,
        ids=ids,
        limits=limits,
        hosts=hosts,
        journeys=watch.journeys,
        slow_s=watch.slow_s,
    )
    server = EdgeServer(
        plane, sockets, limits=limits, ids=ids, observer=observer, grace_s=_GRACE_S, tls=tls
    )

    async def leave() -> None:
        readiness.leaving = True

    def started() -> None:
        observer.emit(Started(engine.live.digest()))
        if place.leads:
            announce(policy, listeners, sys.stdout)

    await server.run(on_started=started, on_stopping=leave, on_stopped=engine.fences.stop)


async def _migrate(policy: PolicySet, name: str) -> str:
    settings = policy.stores.get(name)
    if not isinstance(settings, DatabaseSettings):
        known = [n for n, s in policy.stores.items() if s.dialect == "rows"]
        hint = f"; database stores here: {', '.join(known)}" if known else ""
        raise StartError(f"no database store is called {name!r} in this policy{hint}")
    store = build_store(settings, policy)
    try:
        await cast(_HasTables, store).migrate()
        return f"{name}: the fence schema is there, in this release's version"
    finally:
        await store.aclose()
