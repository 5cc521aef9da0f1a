"""The questions asked of a database at start, and what their answers mean.

A database that cannot keep the promise is refused by name here, never found out under load.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.ports.store import Capabilities, ProbeFailed
from gateway.stores.mariadb.readout import Row
from gateway.stores.mariadb.schema import VERSION, sql_from
from gateway.stores.mariadb.sql import Sql
from gateway.stores.mariadb.values import Cell

OLDEST: Final = (10, 6)
"""The oldest release that is still maintained; INSERT … RETURNING is older (10.5)."""

SERVER: Final = Sql(
    "SELECT VERSION(), CURRENT_USER(), @@session.tx_isolation, @@global.read_only, "
    "@@global.innodb_flush_log_at_trx_commit, @@global.log_bin, @@global.sync_binlog, "
    "@@global.innodb_doublewrite, @@session.sql_mode, "
    "(SELECT COUNT(*) FROM information_schema.global_variables WHERE "
    "(variable_name = 'WSREP_ON' AND variable_value = 'ON') OR (variable_name = 'WSREP_PROVIDER' "
    "AND variable_value NOT IN ('none', ''))), "
    "(SELECT COUNT(*) FROM information_schema.global_variables WHERE "
    "variable_name = 'RPL_SEMI_SYNC_MASTER_ENABLED' AND variable_value = 'ON'), "
    "@@global.max_allowed_packet"
)
FENCE: Final = (
    Sql("START TRANSACTION"),
    Sql("SELECT token FROM fencegate_fence WHERE scope = '' LOCK IN SHARE MODE"),
    Sql("INSERT INTO fencegate_fence (scope, era, token) VALUES ('', 0, 0)"),
    Sql("UPDATE fencegate_fence SET token = 0 WHERE scope = ''"),
    Sql("INSERT INTO fencegate_request (write_id) VALUES ('probe')"),
    Sql("DELETE FROM fencegate_request WHERE write_id = 'probe'"),
    Sql("ROLLBACK"),
)
"""What a write, a raise and a settlement need to be allowed to do; it leaves nothing behind."""

_GUARANTEE: Final = (
    "exact: marks are checked in the transaction that writes, and raised in one that waits for "
    "older writes"
)
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.\d+.*mariadb", re.IGNORECASE)
_GALERA: Final = 2


@dataclass(frozen=True, slots=True)
class Server:
    """What the server says of itself."""

    version: str
    user: str
    isolation: str
    read_only: bool
    flushes_log: bool
    has_binlog: bool
    syncs_binlog: bool
    writes_twice: bool
    is_strict: bool
    is_galera: bool
    is_semi_sync: bool
    max_packet_bytes: int


def read_server(rows: Sequence[Row]) -> Server:
    """Read the answer to `SERVER`."""
    cells = [_plain(cell) for cell in rows[0]]
    return Server(
        version=cells[0],
        user=cells[1],
        isolation=cells[2],
        read_only=cells[3] not in ("0", "OFF"),
        flushes_log=cells[4] in ("1", "3"),
        has_binlog=cells[5] not in ("0", "OFF"),
        syncs_binlog=cells[6] == "1",
        writes_twice=cells[7] not in ("0", "OFF"),
        is_strict="STRICT_ALL_TABLES" in cells[8],
        is_galera=int(cells[9]) == _GALERA,
        is_semi_sync=cells[10] != "0",
        max_packet_bytes=int(cells[11]),
    )


def misfit(server: Server) -> str | None:
    """What keeps a server from carrying the fence, and what to change; None when nothing does."""
    version = _VERSION.match(server.version)
    if version is None:
        return f"the server is {server.version}, and the fence was proven on MariaDB alone"
    if (int(version[1]), int(version[2])) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        return f"the server is MariaDB {version[1]}.{version[2]}; the fence needs {needed} or newer"
    if server.read_only:
        return "the server is read_only and takes no writes; let dsn name the primary"
    if server.is_galera:
        return (
            "the server is a node of a Galera cluster, whose row locks do not reach other nodes: "
            "a stale write there would commit; use a server with replicas instead"
        )
    if not server.flushes_log:
        return (
            "innodb_flush_log_at_trx_commit is not 1: a crash of the machine would forget marks; "
            "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's configuration"
        )
    if server.has_binlog and not server.syncs_binlog:
        return (
            "sync_binlog is not 1: after a crash InnoDB undoes what the binary log lacks, marks "
            "too; SET GLOBAL sync_binlog = 1, and in the server's configuration"
        )
    if server.isolation != "READ-COMMITTED" or not server.is_strict:
        return (
            f"connections run at {server.isolation} although they ask for READ COMMITTED and "
            "strict types; a pooler in between must pass SET SESSION on"
        )
    return None


def judge_server(store: str, server: Server) -> None:
    """Refuse a server that cannot carry the fence. Raises `ProbeFailed`."""
    wrong = misfit(server)
    if wrong is not None:
        raise ProbeFailed(f'store "{store}": {wrong}')


def judge_schema(store: str, version: int) -> None:
    """Refuse tables that are missing, older or newer. Raises `ProbeFailed` with the SQL."""
    if version > VERSION:
        raise ProbeFailed(
            f'store "{store}": the fence\'s tables are of version {version}, and this release '
            f"knows {VERSION}; use the newer release"
        )
    if version < VERSION:
        state = "missing" if version == 0 else f"of version {version}, and {VERSION} is needed"
        raise ProbeFailed(
            f'store "{store}": the fence\'s tables are {state}. Run `fencegate migrate {store}`, '
            f"or run this SQL as a user that may create tables:\n\n{sql_from(version)}"
        )


def no_rights(store: str, server: Server, database: str, words: str) -> ProbeFailed:
    """The refusal of a user that may not keep the fence, with the SQL that lets it."""
    grants = "\n".join(
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON `{database}`.{table} TO {_account(server.user)};"
        for table in ("fencegate_fence", "fencegate_request", "fencegate_version")
    )
    return ProbeFailed(
        f'store "{store}": user {server.user} may not use the fence ({words}); run as an '
        f"administrator:\n{grants}"
    )


def capabilities(server: Server, *, conditions: bool) -> Capabilities:
    """What the store promises, with what the server's own settings take away from it."""
    doubts = []
    if not server.writes_twice:
        doubts.append("innodb_doublewrite is off: a torn page may damage the database in a crash")
    if not server.is_semi_sync:
        doubts.append("no semi-synchronous replica: a fail-over may forget the last commits")
    return Capabilities(
        conditions=conditions,
        exact=True,
        settle_ms=0,
        guarantee="; ".join([_GUARANTEE, *doubts]),
    )


def _account(user: str) -> str:
    name, _, host = user.rpartition("@")
    return f"'{name}'@'{host}'"


def _plain(cell: Cell) -> str:
    return cell.decode() if isinstance(cell, bytes) else cell or ""
