"""SQLite's errors as answers: each result code gets the SQLSTATE that PostgreSQL would give.

Source: SQLite, "Result and Error Codes"; PostgreSQL manual, appendix A.
"""

from __future__ import annotations

import sqlite3
from types import MappingProxyType
from typing import Final

from gateway.dialects.rows.problems import busy, from_sqlstate
from gateway.model.problem import Problem

_STATES: Final = MappingProxyType(
    {
        "SQLITE_CONSTRAINT_UNIQUE": "23505",
        "SQLITE_CONSTRAINT_PRIMARYKEY": "23505",
        "SQLITE_CONSTRAINT_ROWID": "23505",
        "SQLITE_CONSTRAINT_NOTNULL": "23502",
        "SQLITE_CONSTRAINT_CHECK": "23514",
        "SQLITE_CONSTRAINT_FOREIGNKEY": "23503",
        "SQLITE_CONSTRAINT_TRIGGER": "P0001",
        "SQLITE_MISMATCH": "22P02",
        "SQLITE_TOOBIG": "54000",
        "SQLITE_FULL": "53100",
        "SQLITE_CORRUPT": "XX001",
        "SQLITE_NOTADB": "XX001",
    }
)
_FAMILIES: Final = (
    ("SQLITE_READONLY", "25006"),
    ("SQLITE_IOERR", "58030"),
    ("SQLITE_CANTOPEN", "58030"),
)
_TEXTS: Final = (
    ("no such column", "42703"),
    ("no such table", "42P01"),
    ("generated column", "428C9"),
    # Of a STRICT table; Python's module has no name for that code yet.
    ("cannot store", "22P02"),
)
_MESSAGES: Final = MappingProxyType(
    {
        "23505": "duplicate key value violates unique constraint",
        "23502": "null value violates not-null constraint",
        "23514": "new row violates check constraint",
        "23503": "insert, update or delete violates foreign key constraint",
    }
)


def is_interrupt(error: sqlite3.Error) -> bool:
    """True when the statement was stopped by its time-out."""
    return name_of(error) == "SQLITE_INTERRUPT"


def name_of(error: sqlite3.Error) -> str:
    """SQLite's symbolic result code; empty for errors that Python's module raises by itself."""
    name: str = getattr(error, "sqlite_errorname", "")
    return name


def problem_of(error: sqlite3.Error) -> Problem:
    """Translate an error of a statement or of BEGIN; nothing was changed by it."""
    name = name_of(error)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return busy("another process holds the database's write lock; nothing was changed: retry")
    if is_interrupt(error):
        return busy("the statement ran into its time-out (limits.statement_timeout_ms)")
    state = _state_of(name, str(error))
    if state in _MESSAGES:
        return from_sqlstate(state, _MESSAGES[state], details=str(error))
    return from_sqlstate(state, str(error))


def _state_of(name: str, text: str) -> str:
    if name in _STATES:
        return _STATES[name]
    for family, state in _FAMILIES:
        if name.startswith(family):
            return state
    for part, state in _TEXTS:
        if part in text:
            return state
    return "XX000"
