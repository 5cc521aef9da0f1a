"""Owns how a connection to the database is opened: its DSN, its settings, and no leak of either.

Time-outs and isolation are settings of the session, enforced by the server (PostgreSQL manual,
20.11 "Client Connection Defaults"); a role's own defaults cannot weaken them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import asyncpg

from gateway.stores.postgres.failures import Unreachable

_HIDDEN: Final = "***"


@dataclass(frozen=True, slots=True)
class Target:
    """A database to connect to. Shows where, never with what."""

    store: str
    dsn: str = field(repr=False)
    connect_timeout_s: float = 2.0

    @property
    def where(self) -> str:
        """Host, port and database, for messages."""
        try:
            parts = urlsplit(self.dsn)
            host, port = parts.hostname or "localhost", parts.port or 5432
        except ValueError:
            return "the address in dsn"
        database = unquote(parts.path.removeprefix("/")) or unquote(parts.username or "")
        return f"{host}:{port}/{database}"

    def hide(self, text: str) -> str:
        """Take the password out of a text that somebody else wrote."""
        for secret in self._secrets():
            text = text.replace(secret, _HIDDEN)
        return text

    def _secrets(self) -> list[str]:
        try:
            parts = urlsplit(self.dsn)
        except ValueError:
            return [self.dsn]
        named = [one.partition("=") for one in parts.query.split("&")]
        raw = [parts.password or "", *(value for name, _, value in named if name == "password")]
        plain = [unquote(one) for one in raw]
        found = {one for one in (*raw, *plain, *map(quote, plain)) if one}
        return sorted(found, key=len, reverse=True)


def session_settings(
    store: str, *, lock_timeout_ms: int, statement_timeout_ms: int
) -> dict[str, str]:
    """The settings every connection starts with."""
    return {
        "application_name": f"fencegate {store}"[:63],
        "default_transaction_isolation": "read committed",
        "lock_timeout": str(lock_timeout_ms),
        "statement_timeout": str(statement_timeout_ms),
        # The gateway never idles inside a transaction: whoever does is a fault, and holds locks.
        "idle_in_transaction_session_timeout": str(statement_timeout_ms),
        "jit": "off",
    }


async def open_connection(target: Target, settings: Mapping[str, str]) -> Any:
    """Connect. Raises `Unreachable`, whose text names the place and the reason."""
    try:
        return await asyncpg.connect(
            target.dsn, timeout=target.connect_timeout_s, server_settings=dict(settings)
        )
    except asyncio.CancelledError:
        raise
    except TimeoutError:
        reason = f"no answer within {target.connect_timeout_s:g} s"
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
        reason = target.hide(str(error)) or type(error).__name__
    # Outside the handler, so that the driver's exception is no context of ours in a traceback.
    raise Unreachable(f'store "{target.store}": cannot connect to {target.where}: {reason}')
