"""How the ledger's records lie in the tables of the `sqlite` registry."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from gateway.machines.ledger import EMPTY, Record
from gateway.model.claim import (
    Generation,
    Notice,
    Registration,
    RegistrationId,
    ReplicaId,
    ScopeRow,
)
from gateway.model.mark import Era, Mark, Scope
from gateway.model.token import Holder


def _mark(era: int, token: int, burnt: int, holder: str | None) -> Mark:
    return Mark(Era(era), token, bool(burnt), None if holder is None else Holder(holder))


def load(db: sqlite3.Connection, scope: Scope) -> Record:
    """The record of one scope; the empty one when nobody has claimed it."""
    row = db.execute("SELECT era, token, burnt, holder FROM marks WHERE scope = ?", (scope,))
    found = row.fetchone()
    if found is None:
        return EMPTY
    rows = db.execute(
        "SELECT id, replica, generation, era, token FROM registrations WHERE scope = ?", (scope,)
    )
    registrations = tuple(
        Registration(RegistrationId(i), ReplicaId(r), Generation(g), Era(e), t)
        for i, r, g, e, t in rows
    )
    return Record(_mark(*found), registrations)


def save(db: sqlite3.Connection, scope: Scope, before: Record, after: Record) -> None:
    """Write what a step has changed, and nothing else."""
    if after == before:
        return
    if after.mark != before.mark or before is EMPTY:
        era, token, burnt, holder = after.mark
        db.execute(
            "INSERT INTO marks (scope, era, token, burnt, holder) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (scope) DO UPDATE SET era = excluded.era, token = excluded.token,"
            " burnt = excluded.burnt, holder = excluded.holder",
            (scope, era, token, int(burnt), holder),
        )
    gone = set(before.registrations) - set(after.registrations)
    new = set(after.registrations) - set(before.registrations)
    db.executemany(
        "DELETE FROM registrations WHERE scope = ? AND id = ?", [(scope, r.id) for r in gone]
    )
    db.executemany(
        "INSERT INTO registrations (scope, id, replica, generation, era, token)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [(scope, r.id, r.replica, r.generation, r.era, r.token) for r in new],
    )


def tell(
    db: sqlite3.Connection,
    scope: Scope,
    mark: Mark,
    told: Iterable[tuple[ReplicaId, Generation]],
) -> None:
    """Write a notice of the mark to each inbox."""
    db.executemany(
        "INSERT INTO inbox (generation, scope, era, token, burnt, holder)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [(g, scope, mark.era, mark.token, int(mark.burnt), mark.holder) for _, g in told],
    )


def take_notices(db: sqlite3.Connection, generation: Generation, seen: int) -> tuple[Notice, ...]:
    """Forget an inbox's notices up to number `seen`, and give those behind it, oldest first."""
    if seen:
        db.execute("DELETE FROM inbox WHERE generation = ? AND number <= ?", (generation, seen))
    rows = db.execute(
        "SELECT number, scope, era, token, burnt, holder FROM inbox"
        " WHERE generation = ? AND number > ? ORDER BY number",
        (generation, seen),
    )
    return tuple(Notice(row[0], Scope(row[1]), _mark(*row[2:])) for row in rows)


def is_member(db: sqlite3.Connection, generation: Generation) -> bool:
    """True while a generation has not ended."""
    row = db.execute("SELECT 1 FROM members WHERE generation = ?", (generation,)).fetchone()
    return row is not None


def page(db: sqlite3.Connection, after: str | None, limit: int) -> tuple[ScopeRow, ...]:
    """Scopes in name order with the number of their registrations."""
    rows = db.execute(
        "SELECT scope, era, token, burnt, holder,"
        " (SELECT count(*) FROM registrations r WHERE r.scope = marks.scope)"
        " FROM marks WHERE scope > ? ORDER BY scope LIMIT ?",
        ("" if after is None else after, limit),
    )
    return tuple(ScopeRow(Scope(row[0]), _mark(*row[1:5]), row[5]) for row in rows)
