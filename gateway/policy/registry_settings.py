"""The registry of a policy: where marks are kept, and how to reach it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, Strict

from gateway.policy.kinds import CLOSED, FileName, Text


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """Where marks are kept."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    type: Annotated[
        Literal["sqlite", "memory", "redis", "postgres", "etcd"],
        Field(
            description='"sqlite" keeps marks in a file; "redis" shares them between replicas on '
            'Redis 7 or Valkey, "postgres" in a schema of a PostgreSQL database, "etcd" in an '
            'etcd 3 cluster; "memory" forgets them at a restart (tests).'
        ),
    ] = "sqlite"
    path: Annotated[FileName, Field(description="sqlite: the file, from data_dir.")] = Path(
        "registry.sqlite"
    )
    url: Annotated[
        str | None,
        Field(
            pattern=r"^(rediss?|unix|postgres(ql)?|https?)://",
            description='redis: "redis://user:password@host:6379/0"; rediss:// for TLS. postgres: '
            '"postgresql://user:password@host:5432/database". etcd: '
            '"http://user:password@one:2379,http://two:2379"; https:// for TLS.',
        ),
    ] = field(default=None, repr=False)
    cluster: Annotated[
        bool, Strict(), Field(description="redis: the servers are a Redis Cluster.")
    ] = False
    sentinel_service: Annotated[
        Text | None,
        Field(description="redis: `url` is a Sentinel's, and this the name of the primary."),
    ] = None
    prefix: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9._-]{1,32}$",
            description="redis, etcd: begins every key; several gateways can share a server.",
        ),
    ] = "fg"
    schema: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$",
            description="postgres: the schema that the gateway makes and keeps its tables in.",
        ),
    ] = "fencegate"
    aof: Annotated[
        bool,
        Strict(),
        Field(
            description="redis: a raise waits until the append-only file is synced (WAITAOF, "
            'Redis 7.2). Not needed with "appendfsync always".'
        ),
    ] = False
    replicas: Annotated[
        int,
        Strict(),
        Field(ge=0, le=100, description="redis: a raise waits until so many replicas have it."),
    ] = 0

    @property
    def beyond_one_machine(self) -> bool:
        """True where replicas with data directories of their own can share it."""
        return self.type in _SCHEMES


_OWN: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "sqlite": ("path",),
        "memory": (),
        "redis": ("url", "cluster", "sentinel_service", "prefix", "aof", "replicas"),
        "postgres": ("url", "schema"),
        "etcd": ("url", "prefix"),
    }
)
_SCHEMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "redis": ("redis", "rediss", "unix"),
        "postgres": ("postgres", "postgresql"),
        "etcd": ("http", "https"),
    }
)
_REQUIRED: Final[Mapping[str, str]] = MappingProxyType(dict.fromkeys(_SCHEMES, "url"))


def registry_misfits(registry: RegistrySettings) -> Iterator[tuple[str, str]]:
    """The keys that do not go with the registry's type, each with what to change."""
    for setting in fields(registry):
        name, value = setting.name, getattr(registry, setting.name)
        owners = [kind for kind, keys in _OWN.items() if name in keys]
        if owners and registry.type not in owners and value != setting.default:
            only = " and ".join(owners)
            yield name, f'has no effect with type = "{registry.type}": only with {only}'
    needed = _REQUIRED.get(registry.type)
    if needed is not None and getattr(registry, needed) is None:
        yield needed, f'is required for type = "{registry.type}"'
    if registry.url is not None:
        scheme = registry.url.partition("://")[0]
        meant = next((kind for kind, known in _SCHEMES.items() if scheme in known), "redis")
        if registry.type in _SCHEMES and scheme not in _SCHEMES[registry.type]:
            yield "url", f'"{scheme}://" is an address of type = "{meant}"'
    if registry.cluster and registry.sentinel_service is not None:
        yield "sentinel_service", "a cluster has no sentinels: remove it, or cluster = true"
    if registry.cluster and (registry.aof or registry.replicas):
        yield "cluster", "aof and replicas are not waited for in a cluster; remove them"
