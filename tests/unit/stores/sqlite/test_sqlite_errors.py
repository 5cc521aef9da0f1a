"""SQLite's errors as PostgREST's answers."""

from __future__ import annotations

import sqlite3

import pytest

from gateway.stores.sqlite.errors import problem_of

_DDL = """
PRAGMA foreign_keys = ON;
CREATE TABLE p(id integer PRIMARY KEY, u text UNIQUE, c integer CHECK (c > 0), n text NOT NULL,
               g integer GENERATED ALWAYS AS (id + 1));
CREATE TABLE f(id integer REFERENCES p(id));
CREATE TABLE s(a integer) STRICT;
INSERT INTO p(id, u, c, n) VALUES (1, 'u', 1, 'n');
CREATE TRIGGER no BEFORE DELETE ON p BEGIN SELECT RAISE(ABORT, 'not this one'); END;
"""


@pytest.mark.parametrize(
    "statement,code,status",
    [
        ("INSERT INTO p(id, n) VALUES (1, 'x')", "23505", 409),
        ("INSERT INTO p(u, n) VALUES ('u', 'x')", "23505", 409),
        ("INSERT INTO p(c, n) VALUES (0, 'x')", "23514", 400),
        ("INSERT INTO p(u) VALUES ('x')", "23502", 400),
        ("INSERT INTO f VALUES (9)", "23503", 409),
        ("INSERT INTO s VALUES ('x')", "22P02", 400),
        ("INSERT INTO p(id, n) VALUES ('x', 'x')", "22P02", 400),
        ("INSERT INTO p(g, n) VALUES (1, 'x')", "428C9", 400),
        ("DELETE FROM p", "P0001", 400),
        ("SELECT nope FROM p", "42703", 400),
        ("SELECT 1 FROM nope", "42P01", 404),
        ("SELECT FROM", "XX000", 500),
    ],
)
def test_statements(statement: str, code: str, status: int) -> None:
    """Each error has the SQLSTATE that PostgreSQL would give it, and that state's status."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(_DDL)
    with pytest.raises(sqlite3.Error) as caught:
        connection.execute(statement)
    connection.close()
    problem = problem_of(caught.value)
    assert (problem.native, problem.status) == (code, status)


@pytest.mark.parametrize(
    "name,status,native",
    [
        ("SQLITE_BUSY", 503, None),
        ("SQLITE_BUSY_SNAPSHOT", 503, None),
        ("SQLITE_LOCKED", 503, None),
        ("SQLITE_INTERRUPT", 503, None),
        ("SQLITE_FULL", 503, "53100"),
        ("SQLITE_READONLY_DBMOVED", 405, "25006"),
        ("SQLITE_IOERR_WRITE", 500, "58030"),
        ("SQLITE_CORRUPT", 500, "XX001"),
        ("", 500, "XX000"),
    ],
)
def test_conditions_of_the_engine(name: str, status: int, native: str | None) -> None:
    """Waits can be retried; a broken disk or file is the store's failure."""
    error = sqlite3.OperationalError("it failed")
    error.sqlite_errorname = name
    problem = problem_of(error)
    assert (problem.status, problem.native) == (status, native)
    assert (problem.retry_after_s is not None) == (native is None)
