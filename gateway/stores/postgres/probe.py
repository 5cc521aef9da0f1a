"""Owns the questions asked of a database at start, and what their answers mean.

A database that cannot keep the promise is refused by name here, never found out under load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.ports.store import Capabilities, ProbeFailed
from gateway.stores.postgres.schema import VERSION, sql_from
from gateway.stores.postgres.sql import Sql, Statement

MIN_SERVER_VERSION: Final = 140_000
"""PostgreSQL 14: the oldest whose SQL function bodies the fence's schema uses."""

SERVER_QUERY: Final = Statement(
    Sql(
        "SELECT current_setting('server_version_num')::integer AS server_version, "
        "current_setting('transaction_isolation') AS isolation, "
        "current_setting('fsync') AS fsync, "
        "current_setting('synchronous_standby_names') <> '' AS standbys, "
        "pg_is_in_recovery() AS is_standby, current_user::text AS role, "
        "to_regclass('fencegate.version') IS NOT NULL AS is_migrated"
    )
)
CHECK_QUERY: Final = Statement(
    Sql(
        "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' "
        "AS is_read_only"
    )
)
RIGHTS_QUERY: Final = Statement(
    Sql(
        "SELECT v.version, "
        "has_table_privilege('fencegate.fence', 'SELECT') "
        "AND has_table_privilege('fencegate.fence', 'INSERT') "
        "AND has_table_privilege('fencegate.fence', 'UPDATE') "
        "AND has_table_privilege('fencegate.request', 'SELECT') "
        "AND has_table_privilege('fencegate.request', 'INSERT') "
        "AND has_table_privilege('fencegate.request', 'DELETE') AS may_fence "
        "FROM fencegate.version AS v"
    )
)
GUARD_QUERY: Final = Statement(Sql("SELECT ok FROM fencegate.admit('', 0, 0, NULL)"))

_GUARANTEE: Final = (
    "exact: marks are checked in the transaction that writes, and raised in one that waits for "
    "older writes"
)


def judge_server(store: str, server: Mapping[str, Any]) -> None:
    """Refuse a server that cannot carry the fence. Raises `ProbeFailed`."""
    if server["server_version"] < MIN_SERVER_VERSION:
        raise ProbeFailed(
            f'store "{store}": the server is PostgreSQL {server["server_version"] // 10_000}; '
            "the fence needs 14 or newer"
        )
    if server["is_standby"]:
        raise ProbeFailed(
            f'store "{store}": the server is a standby and takes no writes; let dsn name the '
            "primary"
        )
    if server["isolation"] != "read committed":
        raise ProbeFailed(
            f'store "{store}": connections run at {server["isolation"].upper()} although they '
            "ask for READ COMMITTED; a pooler in between must pass "
            "default_transaction_isolation on"
        )


def judge_schema(store: str, version: int) -> None:
    """Refuse a schema that is missing, older or newer. Raises `ProbeFailed` with the SQL."""
    if version > VERSION:
        raise ProbeFailed(
            f'store "{store}": schema fencegate is of version {version}, and this release knows '
            f"{VERSION}; use the newer release"
        )
    if version < VERSION:
        state = "missing" if version == 0 else f"of version {version}, and {VERSION} is needed"
        raise ProbeFailed(
            f'store "{store}": schema fencegate is {state}. Run `fencegate migrate {store}`, or '
            f"run this SQL as the role that owns the schema:\n\n{sql_from(version)}"
        )


def judge_rights(store: str, rights: Mapping[str, Any], role: str) -> None:
    """Refuse a role that may not keep the fence. Raises `ProbeFailed` with the SQL."""
    if not rights["may_fence"]:
        raise ProbeFailed(
            f'store "{store}": role "{role}" may not use the fence; run as its owner:\n'
            f'GRANT USAGE ON SCHEMA fencegate TO "{role}";\n'
            f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fencegate TO "{role}";'
        )


def capabilities(server: Mapping[str, Any], *, conditions: bool) -> Capabilities:
    """What the store promises, with what the server's own settings take away from it."""
    doubts = []
    if server["fsync"] == "off":
        doubts.append("fsync is off: after a crash of the machine the database may have forgotten")
    if not server["standbys"]:
        doubts.append("no synchronous standby: a fail-over may forget the last commits")
    return Capabilities(
        conditions=conditions,
        exact=True,
        settle_ms=0,
        guarantee="; ".join([_GUARANTEE, *doubts]),
    )
