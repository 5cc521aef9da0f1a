"""The store's own witness: fence rows, and the requests that were written under them.

Both are read and written in the transaction that writes the rows (protocol, rule 11), so that
no other order of check and write is possible.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Final

from gateway.engine.refusals import key_reused
from gateway.machines.witness import carried
from gateway.model.mark import Era, Mark, Scope
from gateway.model.operation import Operation
from gateway.model.reply import Rows
from gateway.model.token import Holder
from gateway.model.write_id import RequestName, name_in, request_name
from gateway.ports.store import (
    BehindRegistry,
    FencedByStore,
    NotWritten,
    WriteFence,
    WriteResult,
    Written,
)

MAX_REPLY_CHARS: Final = 262_144
"""A longer representation is not kept: the replay of its request then answers as minimal."""
MAX_REQUESTS: Final = 10_000
_PRUNE_EVERY: Final = 256

_MARK: Final = "SELECT era, token, burnt, holder FROM fencegate_fence WHERE scope = ?"
_RAISE: Final = (
    "INSERT INTO fencegate_fence(scope, era, token, burnt, holder) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (scope) DO UPDATE SET era = excluded.era, token = excluded.token,"
    " burnt = excluded.burnt, holder = excluded.holder"
)
_RECORD: Final = "INSERT INTO fencegate_request(write_id, retry, reply) VALUES (?, ?, ?)"
_FIND_WRITE: Final = "SELECT reply, write_id FROM fencegate_request WHERE write_id = ?"
_FIND_RETRY: Final = "SELECT reply, write_id FROM fencegate_request WHERE retry = ?"
_VOID: Final = "INSERT INTO fencegate_request(write_id, reply) VALUES (?, 'null')"
_PRUNE: Final = "DELETE FROM fencegate_request WHERE seq <= ?"


def mark_of(connection: sqlite3.Connection, scope: Scope) -> Mark | None:
    """The mark that this database has committed for the scope."""
    row = connection.execute(_MARK, (scope,)).fetchone()
    if row is None:
        return None
    era, token, burnt, holder = row
    return Mark(Era(era), token, bool(burnt), None if holder is None else Holder(holder))


def judge(
    connection: sqlite3.Connection, fence: WriteFence
) -> FencedByStore | BehindRegistry | None:
    """Compare the fence row with the mark the write was admitted under. None: it may write."""
    mark = mark_of(connection, fence.scope)
    if mark is None or mark.rank < fence.mark.rank:
        return BehindRegistry(mark)
    return FencedByStore(mark) if mark.rank > fence.mark.rank else None


def carry(connection: sqlite3.Connection, scope: Scope, mark: Mark) -> Mark | None:
    """Raise the fence row to the mark; never lower it. Returns the row's mark when it is above."""
    found = mark_of(connection, scope)
    after = carried(found, mark)
    if after != found:
        row = (scope, after.era, after.token, int(after.burnt), after.holder)
        connection.execute(_RAISE, row)
    return after if after.rank > mark.rank else None


def recall(
    connection: sqlite3.Connection, operation: Operation, fence: WriteFence
) -> WriteResult | None:
    """What an earlier attempt of the same logical request came to, if one was written."""
    if fence.previous_write_id is not None:
        found = connection.execute(_FIND_WRITE, (fence.previous_write_id,)).fetchone()
        reply = None if found is None else _reply_of(found[0])
        if reply is not None:
            return Written(reply, earlier=True)
    return recall_key(connection, operation, fence.scope, fence.mark.era)


def recall_key(
    connection: sqlite3.Connection, operation: Operation, scope: Scope, era: Era
) -> WriteResult | None:
    """What was written under the client's own key; refused when that was another request."""
    name = request_name(operation, scope)
    if name is None:
        return None
    found = connection.execute(_FIND_RETRY, (_retry(name, era),)).fetchone()
    if found is None:
        return None
    before = name_in(found[1])
    if before is not None and before.content != name.content:
        return NotWritten(key_reused())
    reply = _reply_of(found[0])
    return None if reply is None else Written(reply, earlier=True)


def find_out(connection: sqlite3.Connection, write_id: str) -> Rows | None:
    """How a write ended whose COMMIT gave no answer; what is not there never will be.

    The id is taken, so that a log which is recovered later cannot bring that write back unseen.
    """
    found = connection.execute(_FIND_WRITE, (write_id,)).fetchone()
    if found is not None:
        return _reply_of(found[0])
    connection.execute(_VOID, (write_id,))
    return None


def record(
    connection: sqlite3.Connection, operation: Operation, fence: WriteFence, reply: Rows
) -> None:
    """Keep what was answered, so that a lost answer can be found and a retry recognised."""
    kept = None if reply.json is None or len(reply.json) > MAX_REPLY_CHARS else reply.json
    text = json.dumps([kept, reply.count, reply.etag, reply.inserted])
    name = request_name(operation, fence.scope)
    retry = None if name is None else _retry(name, fence.mark.era)
    seq = connection.execute(_RECORD, (fence.write_id, retry, text)).lastrowid or 0
    if seq % _PRUNE_EVERY == 0:
        connection.execute(_PRUNE, (seq - MAX_REQUESTS,))


def _reply_of(text: str) -> Rows | None:
    kept = json.loads(text)
    if kept is None:
        return None  # void: it was found out that this write did not happen
    body, count, etag, inserted = kept
    return Rows(json=body, count=count, etag=etag, inserted=inserted)


def _retry(name: RequestName, era: Era) -> str:
    """What all attempts at one request share; a reset makes the tokens start afresh."""
    return f"{era}.{name.digest}"
