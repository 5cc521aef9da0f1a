"""The id of one write: at which logical request it is an attempt, and with what content.

Source: decisions, "Replays" and "Stamps". The id goes into the stamp, the file's record or the row
of the fence schema, inside the write itself. So a retry is recognised by what the store keeps, also
by another replica and after a restart.
"""

from __future__ import annotations

import hashlib
import json
from enum import Enum, auto
from typing import Final, NamedTuple, assert_never

from gateway.model.digest_fields import is_digest_field
from gateway.model.mark import Scope
from gateway.model.object_action import (
    DeleteObject,
    GetObject,
    HeadBucket,
    ListBuckets,
    ListObjects,
    PutObject,
)
from gateway.model.operation import Operation
from gateway.model.origin_request import OriginRequest
from gateway.model.row_action import DeleteRows, InsertRows, SelectRows, UpdateRows

_DIGEST_CHARS: Final = 32
_CONTENT_CHARS: Final = 16
_NONCE_CHARS: Final = 16
_ALL_CHARS: Final = _DIGEST_CHARS + _CONTENT_CHARS + _NONCE_CHARS


class RequestName(NamedTuple):
    """What all attempts at one logical request share.

    `digest` stands for the lease (scope, token, holder) and the client's own key in it; `content`
    for what is asked: method, resource, length, the digests that were sent, and the bytes where
    they are known beforehand.
    """

    digest: str
    content: str


def request_name(operation: Operation, scope: Scope) -> RequestName | None:
    """The name of a request; None when the client gave no key of its own."""
    if operation.retry_key is None or operation.token is None:
        return None
    lease = (scope, operation.token, operation.holder, operation.retry_key)
    asked = (
        operation.resource.store,
        operation.resource.path,
        operation.method,
        *_body_of(operation),
    )
    return RequestName(_hex(lease)[:_DIGEST_CHARS], _hex(asked)[:_CONTENT_CHARS])


def write_id_of(name: RequestName | None, nonce: str) -> str:
    """The id of one write: that of a named request begins with its name.

    `nonce` is 32 random hex digits, so that no other write has this id.
    """
    return nonce if name is None else f"{name.digest}{name.content}{nonce[:_NONCE_CHARS]}"


def name_in(write_id: str | None) -> RequestName | None:
    """The name of the request that a write was an attempt at; None when it had none."""
    if write_id is None or len(write_id) != _ALL_CHARS:
        return None
    end = _DIGEST_CHARS + _CONTENT_CHARS
    return RequestName(write_id[:_DIGEST_CHARS], write_id[_DIGEST_CHARS:end])


class Kin(Enum):
    """How a write that a store remembers is related to the one at hand."""

    NONE = auto()  # another request's
    EARLIER = auto()  # an earlier attempt at the same request
    REUSED = auto()  # another request under the same key


def kin(found: str | None, ours: RequestName | None, previous: str | None = None) -> Kin:
    """Compare a write id that stands in a store with our request.

    `previous` is the id of an attempt that is known to be an earlier one.
    """
    if found is None:
        return Kin.NONE
    if found == previous:
        return Kin.EARLIER
    theirs = name_in(found)
    if theirs is None or ours is None or theirs.digest != ours.digest:
        return Kin.NONE
    return Kin.EARLIER if theirs.content == ours.content else Kin.REUSED


def _body_of(operation: Operation) -> tuple[str, ...]:
    action = operation.action
    match action:
        case PutObject():
            digests = (": ".join(digest) for digest in action.digests)
            return (str(action.length), action.sha256 or "", *digests)
        case DeleteObject():
            return ()
        case InsertRows() | UpdateRows() | DeleteRows():
            return (repr(action),)
        case OriginRequest():
            sent = (f"{n!r}: {v!r}" for n, v in sorted(action.fields) if is_digest_field(n))
            return (action.query.hex(), str(action.length), *sent)
        case GetObject() | ListObjects() | ListBuckets() | HeadBucket() | SelectRows():
            return ()
        case _:
            assert_never(action)


def _hex(parts: tuple[object, ...]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
