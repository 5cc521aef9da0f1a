"""The fence's schema as SQL, and what the answers at start mean."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gateway.ports.store import ProbeFailed
from gateway.stores.postgres import probe, schema


def test_the_sql_of_a_new_database_is_the_whole_of_it() -> None:
    """From nothing: schema, tables, functions, and the version at the end."""
    sql = schema.sql_from(0)
    for thing in ("fencegate.fence (", "fencegate.request (", "fencegate.admit(", "raise_mark("):
        assert thing in sql
    assert f"VALUES ({schema.VERSION})" in sql
    assert schema.sql_from(schema.VERSION).count("CREATE FUNCTION") == 0


def test_the_guards_are_volatile() -> None:
    """A function that takes a lock and then reads must see what committed meanwhile."""
    functions = re.findall(
        r"CREATE FUNCTION fencegate\.(\w+)\(.*?LANGUAGE (\w+) (\w+)", schema.sql_from(0), re.DOTALL
    )
    kinds = {name: (language, volatility) for name, language, volatility in functions}
    for name in ("admit", "raise_mark", "settle", "demand_read_committed"):
        assert kinds[name] == ("plpgsql", "VOLATILE")


def server(**values: Any) -> dict[str, Any]:
    """A server's answer."""
    return {
        "server_version": 180_000,
        "isolation": "read committed",
        "fsync": "on",
        "standbys": False,
        "is_standby": False,
        "role": "r",
        "is_migrated": True,
        **values,
    }


@pytest.mark.parametrize(
    "answer, words",
    [
        ({"server_version": 130_012}, "PostgreSQL 13; the fence needs 14"),
        ({"is_standby": True}, "let dsn name the primary"),
        ({"isolation": "serializable"}, "SERIALIZABLE"),
    ],
)
def test_servers_that_cannot_carry_the_fence(answer: dict[str, Any], words: str) -> None:
    """Refused by name, with what to change."""
    probe.judge_server("db", server())
    with pytest.raises(ProbeFailed, match=words):
        probe.judge_server("db", server(**answer))


def test_versions_of_the_schema() -> None:
    """Missing and older print the SQL and the command, newer asks for the newer release."""
    probe.judge_schema("db", schema.VERSION)
    with pytest.raises(ProbeFailed, match=r"missing. Run `fencegate migrate db`") as caught:
        probe.judge_schema("db", 0)
    assert schema.sql_from(0) in str(caught.value)
    with pytest.raises(ProbeFailed, match="newer release"):
        probe.judge_schema("db", schema.VERSION + 1)


@pytest.mark.parametrize(
    "answer, doubts",
    [
        ({"standbys": True}, []),
        ({}, ["fail-over"]),
        ({"fsync": "off"}, ["fsync is off", "fail-over"]),
    ],
)
def test_the_guarantee_says_what_is_taken_away(answer: dict[str, Any], doubts: list[str]) -> None:
    """What the server's settings weaken is in the line that the start prints."""
    found = probe.capabilities(server(**answer), conditions=True)
    assert found.exact
    assert [doubt for doubt in ("fsync is off", "fail-over") if doubt in found.guarantee] == doubts
