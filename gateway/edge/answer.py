"""The answer on its way out: a Reply with the gateway's own fields, sent over ASGI."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from typing import Final

from gateway.edge.account import Account
from gateway.edge.asgi_types import Send
from gateway.model.problem import Code
from gateway.ports.dialect import RawFields, Reply

_NO_BODY: Final = frozenset({204, 304})

Fields = list[tuple[bytes, bytes]]


def gateway_fields(account: Account, given: RawFields) -> Fields:
    """X-Request-Id and X-Fence-*: the outcome of every mutation, the mark of a stale refusal."""
    fields: Fields = [(b"x-request-id", account.request_id.encode("ascii"))]
    if account.kind.mutates:
        fields.append((b"x-fence-outcome", account.outcome.encode("ascii")))
    if account.replayed:
        fields.append((b"x-fence-replay", b"1"))
    if account.shadow is not None:
        fields.append((b"x-fence-shadow", account.shadow.encode("ascii")))
    problem = account.problem
    if problem is None:
        return fields
    if problem.code is Code.TOKEN_STALE and problem.mark is not None:
        fields.append((b"x-fence-mark", b"%d" % problem.mark))
    if problem.retry_after_s is not None and not _has(given, b"retry-after"):
        fields.append((b"retry-after", b"%d" % problem.retry_after_s))
    return fields


class _Opened:
    """A body whose first piece was read already; closing it closes its source."""

    __slots__ = ("_first", "_source")

    def __init__(self, first: bytes, source: AsyncIterator[bytes]) -> None:
        self._first: bytes | None = first
        self._source = source

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        first, self._first = self._first, None
        return await anext(self._source) if first is None else first

    async def aclose(self) -> None:
        await release(self._source)


async def opened(reply: Reply) -> Reply:
    """Read the first piece of a streamed body, while the answer can still be an error.

    It also makes sure that the iterator has begun, so that closing it runs what it left to do.
    Raises what the iterator raises.
    """
    if isinstance(reply.body, bytes):
        return reply
    try:
        first = await anext(reply.body)
    except StopAsyncIteration:
        return dataclasses.replace(reply, body=b"")
    return dataclasses.replace(reply, body=_Opened(first, reply.body))


async def send_reply(send: Send, reply: Reply, account: Account) -> None:
    """Send it all. Raises `ClientGone`, and what a streamed body raises when it breaks off."""
    account.status = reply.status
    fields = [*reply.fields, *gateway_fields(account, reply.fields)]
    if reply.close or (account.problem is not None and account.problem.close):
        fields.append((b"connection", b"close"))
    body = reply.body
    if isinstance(body, bytes):
        told = _has(reply.fields, b"content-length") or (account.head and not body)
        if reply.status not in _NO_BODY and not told:
            fields.append((b"content-length", b"%d" % len(body)))
        await _start(send, reply.status, fields)
        await send({"type": "http.response.body", "body": body, "more_body": False})
        return
    await _start(send, reply.status, fields)
    async for piece in body:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def release(body: object) -> None:
    """Close a body's iterator, if it is one that can be closed. Closing twice is no error."""
    aclose = getattr(body, "aclose", None)
    if aclose is not None:
        await aclose()


async def _start(send: Send, status: int, fields: Fields) -> None:
    await send({"type": "http.response.start", "status": status, "headers": fields})


def _has(fields: RawFields, name: bytes) -> bool:
    return any(key == name for key, _ in fields)
