"""The stores of a policy: one class per type, chosen by `type`.

Which dialect a type can speak is in its class: files http or s3, databases rows, s3 itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, Strict

from gateway.policy.kinds import (
    CLOSED,
    AddressText,
    FileName,
    Identifier,
    Milliseconds,
    Mount,
    Text,
)
from gateway.policy.origin_settings import HttpSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """A table that workers may reach."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    version_column: Annotated[
        Identifier | None,
        Field(
            description="Integer column that the gateway raises with every change; gives ETag, "
            "If-Match and If-None-Match."
        ),
    ] = None


Listen = Annotated[AddressText, Field(description="The listener of the store's own (s3 dialect).")]
Region = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,64}$", description="Region of signatures.")]
BucketName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
Tables = Annotated[
    Mapping[Identifier, TableSettings],
    Field(description="The tables that workers may reach; no others exist for them."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSettings:
    """A local directory as a store."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    name: str
    type: Annotated[Literal["files"], Field(description="A directory of this machine.")]
    dialect: Annotated[
        Literal["http", "s3"], Field(description="Wire language that workers speak.")
    ] = "http"
    mount: Mount | None = None
    listen: Listen | None = None
    root: Annotated[FileName, Field(description="The directory, from data_dir.")]
    buckets: Annotated[
        tuple[BucketName, ...], Field(description="Buckets that exist (s3 dialect).")
    ] = ()
    region: Region = "us-east-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteSettings:
    """An SQLite database as a store."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED
    listen: ClassVar[None] = None

    name: str
    type: Annotated[Literal["sqlite"], Field(description="An SQLite database of this machine.")]
    dialect: Annotated[Literal["rows"], Field(description="Wire language that workers speak.")] = (
        "rows"
    )
    mount: Mount | None = None
    path: Annotated[FileName, Field(description="The database file, from data_dir.")]
    init: Annotated[
        Text | None, Field(description="SQL run at each start; must be safe to repeat.")
    ] = None
    tables: Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSettings:
    """A PostgreSQL database as a store."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED
    listen: ClassVar[None] = None

    name: str
    type: Annotated[Literal["postgres"], Field(description="A PostgreSQL database.")]
    dialect: Annotated[Literal["rows"], Field(description="Wire language that workers speak.")] = (
        "rows"
    )
    mount: Mount | None = None
    dsn: Annotated[
        str,
        Field(
            pattern=r"^postgres(ql)?://",
            description='Connection string "postgresql://user:password@host/database".',
        ),
    ] = field(repr=False)
    schema: Annotated[Identifier, Field(description="Schema of the tables.")] = "public"
    pool_size: Annotated[
        int, Strict(), Field(ge=1, le=1_000, description="Connections kept to the database.")
    ] = 10
    tables: Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class MariadbSettings:
    """A MariaDB database as a store."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED
    listen: ClassVar[None] = None

    name: str
    type: Annotated[Literal["mariadb"], Field(description="A MariaDB database.")]
    dialect: Annotated[Literal["rows"], Field(description="Wire language that workers speak.")] = (
        "rows"
    )
    mount: Mount | None = None
    dsn: Annotated[
        str,
        Field(
            pattern=r"^(mariadb|mysql)://[^/?#]+/[^/?#]+$",
            description='Connection string "mariadb://user:password@host:3306/database".',
        ),
    ] = field(repr=False)
    password_file: Annotated[
        FileName | None,
        Field(description="The user's password, from data_dir, instead of one in dsn."),
    ] = None
    ca_file: Annotated[
        FileName | None,
        Field(
            description="Authorities in PEM, from data_dir, of which the server must show a "
            "certificate for its host (TLS); absent: no TLS."
        ),
    ] = None
    cert_file: Annotated[
        FileName | None,
        Field(description="Certificate in PEM that the gateway shows to the server."),
    ] = None
    key_file: Annotated[
        FileName | None,
        Field(description="Its private key in PEM, not encrypted; absent: it is in cert_file."),
    ] = None
    pool_size: Annotated[
        int, Strict(), Field(ge=1, le=1_000, description="Connections kept to the database.")
    ] = 10
    tables: Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """An S3 server as a store."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED
    mount: ClassVar[None] = None

    name: str
    type: Annotated[Literal["s3"], Field(description="An S3 server.")]
    dialect: Annotated[Literal["s3"], Field(description="Wire language that workers speak.")] = "s3"
    listen: Listen
    endpoint: Annotated[
        str,
        Field(
            pattern=r"^https?://[^/?#\s@]+/?$",
            description='Address of the server, "https://host" or "http://host:port", no path.',
        ),
    ]
    region: Region = "us-east-1"
    access_key_id: Annotated[Text, Field(description="The store's own credentials.")] = field(
        repr=False
    )
    secret_access_key: Annotated[Text, Field(description="The store's own credentials.")] = field(
        repr=False
    )
    session_token: Annotated[
        Text | None, Field(description="The store's own credentials, when they are temporary.")
    ] = field(default=None, repr=False)
    stamp_key: Annotated[
        str | None,
        Field(
            pattern=r"^[\x21-\x7e]{16,256}$",
            description='What stamps in objects are sealed with, "${NAME}": one for all replicas, '
            "kept for good. Required where replicas share a registry; absent: made in data_dir, "
            "`stamp-key`.",
        ),
    ] = field(default=None, repr=False)
    probe_bucket: Annotated[
        BucketName | None,
        Field(description="Bucket in which the start proves what the server can do."),
    ] = None
    conditions: Annotated[
        Literal["etag", "none"],
        Field(
            description='"etag": conditional writes are demanded, and probed at start. "none": a '
            "store without them is taken, with a weaker guarantee."
        ),
    ] = "etag"
    settle_ms: Annotated[
        Milliseconds,
        Field(description="How long after its last byte a write may still take effect."),
    ] = 10_000


DatabaseSettings = SqliteSettings | PostgresSettings | MariadbSettings
"""Stores of rows, which keep their fence in the database itself."""

StoreSettings = FilesSettings | DatabaseSettings | S3Settings | HttpSettings
