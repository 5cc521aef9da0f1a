"""Connections to the registry's database: opened when first used, given up on early."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

import asyncpg

from gateway.ports.registry import RegistryUnavailable

T = TypeVar("T")

_CONNECTIONS: Final = 4
_SCHEMA_VERSION: Final = "2"
_MISSING: Final = (
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedFunctionError,
    asyncpg.InvalidSchemaNameError,
)
_CREATING: Final = 0x66656E6365  # an advisory lock, so that replicas that start at once take turns


class Database:
    """Runs one statement a step. Raises `RegistryUnavailable`, never with the URL's password."""

    def __init__(self, url: str, *, schema: str, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self.schema = '"' + schema.replace('"', '""') + '"'
        self._pool: Any = None
        self._ready = False
        self._opening = asyncio.Lock()

    async def rows(self, statement: str, *arguments: Any) -> list[Any]:
        """The rows of one statement, in which "@" is the schema."""
        return await self._guarded(lambda at: at.fetch(self._named(statement), *arguments))

    async def row(self, statement: str, *arguments: Any) -> Any:
        """The first row of one statement, None when it has none."""
        return await self._guarded(lambda at: at.fetchrow(self._named(statement), *arguments))

    async def value(self, statement: str, *arguments: Any) -> Any:
        """The first value of the first row."""
        found = await self.row(statement, *arguments)
        return None if found is None else found[0]

    async def listener(self, channel: str, heard: Callable[[str], None]) -> Any:
        """A connection of its own that listens. The caller closes it."""
        try:
            connection = await asyncpg.connect(self._url, timeout=self._timeout_s)
            try:
                async with asyncio.timeout(self._timeout_s):
                    await connection.add_listener(channel, lambda *event: heard(str(event[3])))
            except BaseException:
                connection.terminate()
                raise
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
            raise self._unavailable(error) from None
        return connection

    async def aclose(self) -> None:
        """End all connections."""
        if self._pool is not None:
            self._pool.terminate()

    def _named(self, statement: str) -> str:
        return statement.replace("@", self.schema)

    async def _guarded(self, step: Callable[[Any], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self._timeout_s):
                if not self._ready:
                    await self._prepare()
                return await self._on_connection(step)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
            wrong: BaseException = error
        if isinstance(wrong, _MISSING):
            self._ready = False  # somebody emptied the database: made again by the next step
        raise self._unavailable(wrong)  # outside, so that the driver's error is no context of ours

    async def _on_connection(self, step: Callable[[Any], Awaitable[T]]) -> T:
        """Run a step that may be given up at any time, whatever the server does.

        The pool takes a connection back when the server has confirmed the cancellation, however
        long that takes; one that is dropped is not waited for. The server's own
        `statement_timeout` ends what it still does.
        """
        async with self._pool.acquire() as connection:
            try:
                return await step(connection)
            except asyncio.CancelledError:
                connection.terminate()
                raise

    def _unavailable(self, error: BaseException) -> RegistryUnavailable:
        text = str(error).partition("\n")[0] or type(error).__name__
        if isinstance(error, TimeoutError):
            text = f"no answer within {self._timeout_s:g} s"
        try:
            parts = urlsplit(self._url)
            where = f"{parts.hostname or 'localhost'}:{parts.port or 5432}{parts.path}"
            for secret in filter(None, (parts.password, unquote(parts.password or ""))):
                text = text.replace(secret, "***")
        except ValueError:
            where, text = "the address in registry.url", "it cannot be read"
        return RegistryUnavailable(f"the registry's PostgreSQL at {where}: {text}")

    async def _prepare(self) -> None:
        """Open the pool and create the schema, once; whoever fails leaves it to the next."""
        async with self._opening:
            if self._ready:
                return
            if self._pool is None:
                self._pool = asyncpg.create_pool(
                    self._url,
                    min_size=0,
                    max_size=_CONNECTIONS,
                    timeout=self._timeout_s,
                    server_settings={
                        "application_name": "fencegate registry",
                        "default_transaction_isolation": "read committed",
                        "idle_in_transaction_session_timeout": "5s",
                        "statement_timeout": str(round(self._timeout_s * 1000)),
                        "jit": "off",
                    },
                )
                await self._pool
            await self._on_connection(self._create)
            self._ready = True

    async def _create(self, connection: Any) -> None:
        transaction = connection.transaction()
        await transaction.start()
        try:
            await self._create_schema(connection)
        except Exception:  # a cancelled step says nothing more: the connection is dropped
            await transaction.rollback()
            raise
        await transaction.commit()

    async def _create_schema(self, connection: Any) -> None:
        sql = resources.files(__package__).joinpath("schema.sql").read_text()
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _CREATING)
        known = await connection.fetchval("SELECT to_regclass($1)", f"{self.schema}.meta")
        if known is not None:
            found = await connection.fetchval(
                self._named("SELECT value FROM @.meta WHERE name = 'schema'")
            )
            if found == _SCHEMA_VERSION:
                return
            raise ValueError(
                f"schema {self.schema} has version {found}, this release knows"
                f" {_SCHEMA_VERSION}: use the release that wrote it, or a later one"
            )
        await connection.execute(self._named("CREATE SCHEMA IF NOT EXISTS @"))
        await connection.execute(self._named(sql))
        await connection.execute(
            self._named(
                "INSERT INTO @.meta VALUES ('schema', $1), ('identity', gen_random_uuid())"
            ),
            _SCHEMA_VERSION,
        )
