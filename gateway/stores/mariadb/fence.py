"""The store's own witness: fence rows, and the requests that were written under them.

Theory. The first statement of a writing transaction reads the fence row with LOCK IN SHARE MODE;
a raise takes it FOR UPDATE. InnoDB keeps both locks until the transaction ends. So a raise that
has committed had waited for every older write, and every later one reads the new mark. The fence
is locked before any row: writers and raises cannot wait for each other in a circle (protocol,
rule 11; MariaDB, "InnoDB Lock Modes").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.engine.refusals import key_reused
from gateway.model.mark import Era, Mark, Scope
from gateway.model.reply import Rows
from gateway.model.token import Holder
from gateway.model.write_id import RequestName, name_in
from gateway.ports.store import BehindRegistry, FencedByStore, NotWritten, Written
from gateway.stores.mariadb import sql
from gateway.stores.mariadb.readout import Row
from gateway.stores.mariadb.sql import Sql, compose, join
from gateway.stores.mariadb.values import Cell

MAX_KEPT_BODY_BYTES: Final = 65_536
"""A longer representation is answered, but not kept for a retry, which then gets none."""

_ROW: Final = "SELECT era, token, burnt, holder FROM fencegate_fence WHERE scope = {scope}"
_SHARED: Final = _ROW + " LOCK IN SHARE MODE"
_ALONE: Final = _ROW + " FOR UPDATE"
_ADMITS: Final = (
    "fencegate_fence.scope = {scope} AND fencegate_fence.era = {era} "
    "AND fencegate_fence.token = {token} AND fencegate_fence.burnt = 0"
)
_NEW: Final = (
    "INSERT INTO fencegate_fence (scope, era, token, burnt, holder) "
    "VALUES ({scope}, {era}, {token}, {burnt}, {holder})"
)
_RAISED: Final = (
    "UPDATE fencegate_fence SET era = {era}, token = {token}, burnt = {burnt}, holder = {holder} "
    "WHERE scope = {scope}"
)
_KEPT: Final = "SELECT write_id, affected, body, etag, made FROM fencegate_request"
_RECALL: Final = _KEPT + " WHERE retry = {retry}"
_FOUND: Final = _KEPT + " WHERE write_id = {write_id}"
_CLAIM: Final = "INSERT IGNORE INTO fencegate_request (write_id) VALUES ({write_id})"
_RECORD: Final = (
    "INSERT INTO fencegate_request (write_id, retry, affected, body, etag, made) "
    "VALUES ({write_id}, {retry}, {affected}, {body}, {etag}, {made})"
)


def locked(scope: Scope) -> Sql:
    """Read the fence row, and keep raises out until the transaction ends."""
    return compose(_SHARED, scope=sql.text(scope))


def admits(scope: Scope, mark: Mark) -> Sql:
    """Whether the fence row stands at this mark: the condition of every statement that writes."""
    found = compose(
        _ADMITS,
        scope=sql.text(scope),
        era=sql.number(mark.era),
        token=sql.number(mark.token),
    )
    if mark.holder is None:
        return found
    bound = compose(
        "(fencegate_fence.holder IS NULL OR fencegate_fence.holder = {holder})",
        holder=sql.text(mark.holder),
    )
    return join(" AND ", (found, bound))


def seen(scope: Scope) -> Sql:
    """Read the fence row as it was last committed."""
    return compose(_ROW, scope=sql.text(scope))


def alone(scope: Scope) -> Sql:
    """Read the fence row once all writers under way have ended, and keep new ones out."""
    return compose(_ALONE, scope=sql.text(scope))


def raised(scope: Scope, mark: Mark, *, new: bool) -> Sql:
    """Write the fence row; a new one fails where another raise has made it meanwhile."""
    return compose(
        _NEW if new else _RAISED,
        scope=sql.text(scope),
        era=sql.number(mark.era),
        token=sql.number(mark.token),
        burnt=sql.number(int(mark.burnt)),
        holder=sql.text(mark.holder),
    )


def mark_in(rows: Sequence[Row]) -> Mark | None:
    """The mark of a fence row that was read; None when there is none."""
    if not rows:
        return None
    era, token, burnt, holder = rows[0]
    bound = None if holder is None else Holder(_plain(holder))
    return Mark(Era(_whole(era)), _whole(token), _whole(burnt) != 0, bound)


def judge(store: Mark | None, ours: Mark) -> FencedByStore | BehindRegistry | None:
    """Compare the fence row with the mark that a write was admitted under. None: it may write.

    A row of our rank that is bound to another holder is one token in two hands.
    """
    if store is None or store.rank < ours.rank:
        return BehindRegistry(store)
    if store.rank > ours.rank or store.burnt:
        return FencedByStore(store)
    if None not in (store.holder, ours.holder) and store.holder != ours.holder:
        return FencedByStore(store._replace(burnt=True))
    return None


# --- requests -------------------------------------------------------------------------------------
def retry_of(name: RequestName | None, era: Era) -> str | None:
    """What all attempts at one request share; a reset makes the tokens start afresh."""
    return None if name is None else f"{era}.{name.digest}"


def recall(retry: str) -> Sql:
    """What was written under a client's key."""
    return compose(_RECALL, retry=sql.text(retry))


def record(write_id: str, retry: str | None, reply: Rows) -> Sql:
    """Keep what is answered, so that a lost answer can be found and a retry recognised."""
    body = reply.json
    if body is not None and len(body.encode()) > MAX_KEPT_BODY_BYTES:
        body = None
    return compose(
        _RECORD,
        write_id=sql.text(write_id),
        retry=sql.text(retry),
        affected=sql.number(reply.count),
        body=sql.text(body),
        etag=sql.text(reply.etag),
        made=sql.number(int(reply.inserted)),
    )


def settle(write_id: str) -> list[Sql]:
    """Find out how a write ended, and make the finding stay true.

    Whoever inserts the id first wins: the write's own insert fails on this one, and this one
    waits for a write that has inserted its row and is about to commit.
    """
    return [
        compose(_CLAIM, write_id=sql.text(write_id)),
        compose(_FOUND, write_id=sql.text(write_id)),
    ]


def reply_in(rows: Sequence[Row]) -> Rows | None:
    """What a write answered; None when it did not take effect, and cannot any more."""
    if not rows or rows[0][1] is None:
        return None
    _, affected, body, etag, made = rows[0]
    return Rows(
        json=None if body is None else _plain(body),
        count=_whole(affected),
        etag=None if etag is None else _plain(etag),
        inserted=_whole(made) != 0,
    )


def prior(rows: Sequence[Row], content: str | None) -> Written | NotWritten | None:
    """An earlier attempt's answer; refused when the key was used for another request."""
    if not rows:
        return None
    before = name_in(_plain(rows[0][0]))
    if before is not None and before.content != content:
        return NotWritten(key_reused())
    reply = reply_in(rows)
    return None if reply is None else Written(reply, earlier=True)


def _plain(cell: Cell) -> str:
    return cell.decode() if isinstance(cell, bytes) else cell or ""


def _whole(cell: Cell) -> int:
    return 0 if cell is None else int(cell)
