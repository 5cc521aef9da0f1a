"""How a connection to the database is opened: its address, its settings, and no leak of either.

Time-outs, isolation and the strictness of types are settings of the session, so that a server's
own defaults cannot weaken them (MariaDB, "Server System Variables").
"""

from __future__ import annotations

import asyncio
import math
import ssl
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import asyncmy
from asyncmy.constants import CLIENT

from gateway.stores.mariadb import sql
from gateway.stores.mariadb.failures import Unreachable, is_driver_error
from gateway.stores.mariadb.sql import Sql, compose

_HIDDEN: Final = "***"
_PORT: Final = 3306
_MODES: Final = (
    "STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE,"
    "NO_ENGINE_SUBSTITUTION,NO_BACKSLASH_ESCAPES,NO_AUTO_VALUE_ON_ZERO"
)


# The gateway never idles inside a transaction: whoever does is a fault, and holds locks.
_SETTINGS: Final = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION sql_mode = {modes}, "
    "time_zone = {zone}, innodb_lock_wait_timeout = {lock_s}, max_statement_time = {statement_s}, "
    "idle_transaction_timeout = {idle_s}, foreign_key_checks = 1, unique_checks = 1"
)
_READ_ONLY: Final = Sql(
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET SESSION TRANSACTION READ ONLY"
)


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM: whom to trust, and what to show; a client certificate is optional."""

    ca_file: str
    cert_file: str | None = None
    key_file: str | None = None

    def context(self) -> ssl.SSLContext:
        """Demand a certificate for the host's name. Raises OSError for files that do not serve."""
        context = ssl.create_default_context(cafile=self.ca_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.cert_file is not None:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context


@dataclass(frozen=True, slots=True)
class Target:
    """A database to connect to. Shows where, never with what."""

    store: str
    dsn: str = field(repr=False)
    password: str | None = field(default=None, repr=False)
    connect_timeout_s: float = 2.0
    tls: Tls | None = None

    @property
    def where(self) -> str:
        """Host, port and database, for messages."""
        try:
            parts = urlsplit(self.dsn)
            return f"{parts.hostname or 'localhost'}:{parts.port or _PORT}/{self.database}"
        except ValueError:
            return "the address in dsn"

    @property
    def database(self) -> str:
        """The database's name."""
        return unquote(urlsplit(self.dsn).path.removeprefix("/"))

    def arguments(self) -> dict[str, Any]:
        """What the driver is told. Raises ValueError for an address that is none."""
        parts = urlsplit(self.dsn)
        secret = unquote(parts.password or "") if self.password is None else self.password
        return {
            "host": parts.hostname or "localhost",
            "port": parts.port or _PORT,
            "user": unquote(parts.username or ""),
            "password": secret.encode(),
            "database": self.database,
        }

    def hide(self, text: str) -> str:
        """Take the password out of a text that somebody else wrote."""
        try:
            raw = urlsplit(self.dsn).password or ""
        except ValueError:
            return text.replace(self.dsn, _HIDDEN)
        plain = [unquote(raw), self.password or ""]
        secrets = {one for one in (raw, *plain, *map(quote, plain)) if one}
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, _HIDDEN)
        return text


def session_settings(*, lock_timeout_ms: int, statement_timeout_ms: int) -> Sql:
    """The statements every connection starts with. InnoDB's times are whole seconds."""
    return compose(
        _SETTINGS,
        modes=sql.text(_MODES),
        zone=sql.text("+00:00"),
        lock_s=sql.number(math.ceil(lock_timeout_ms / 1000)),
        statement_s=sql.decimal(False, statement_timeout_ms, 3),
        idle_s=sql.number(math.ceil(statement_timeout_ms / 1000)),
    )


def read_only(settings: Sql) -> Sql:
    """Those of a connection that cannot write; the statements of a read share one snapshot."""
    return compose("{settings}; {snapshot}", settings=settings, snapshot=_READ_ONLY)


async def open_connection(target: Target, settings: Sql) -> Any:
    """Connect. Raises `Unreachable`, whose text names the place and the reason."""
    try:
        async with asyncio.timeout(target.connect_timeout_s):
            connection = await asyncmy.connect(
                **target.arguments(),
                charset="utf8mb4",
                conv={},
                autocommit=True,
                # Without it an UPDATE tells rows that it changed, not rows that it found.
                client_flag=CLIENT.FOUND_ROWS,
                connect_timeout=target.connect_timeout_s,
                program_name=f"fencegate {target.store}",
                ssl=None if target.tls is None else target.tls.context(),
            )
            await _run(connection, settings)
            return connection
    except asyncio.CancelledError:
        raise
    except TimeoutError:
        reason = f"no answer within {target.connect_timeout_s:g} s"
    except (ValueError, ssl.SSLError) as error:
        reason = target.hide(str(error)) or type(error).__name__
    except Exception as error:
        if not is_driver_error(error):
            raise
        reason = target.hide(str(error)) or type(error).__name__
    # Outside the handler, so that the driver's exception is no context of ours in a traceback.
    raise Unreachable(f'store "{target.store}": cannot connect to {target.where}: {reason}')


async def _run(connection: Any, settings: Sql) -> None:
    cursor = connection.cursor()
    await cursor.execute(settings)
    while await cursor.nextset():
        pass
