"""The gate of the control API: only admins get into /v1, and what they do there is on record.

Theory. An act is every request below /v1 that may change something. Its intent is on the disk
before it begins, and its end before it is answered: without the first line nothing is done, without
the second the answer says so. The gate does this for all routes alike: a new one cannot forget it.
The body is read before the app sees it; it is bounded by then.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.dialects.problem_json import problem_reply
from gateway.edge.audit_log import AuditFailed, AuditLog
from gateway.edge.control_strict import body_fault, printable
from gateway.model.problem import Code, Problem
from gateway.model.worker import WorkerKey, secret_digest

OPEN: Final = "/v1/openapi.json"
"""Described to everybody."""

FOR_WORKERS: Final = "/v1/requests/"
"""Below it, workers may ask with their own keys."""

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_ASKED: Final = ("scope", "token", "holder", "reason")
_MAX_CHARS: Final = 600
_HINT: Final = (
    'send "Authorization: Bearer <admin key>": that of FENCEGATE_ADMIN_KEY, or of the file that '
    "the policy's admin.key_file names (data/admin-key), or one of [[admin.keys]]"
)

Before = Callable[[str], Awaitable[object]]
"""The state of a scope as the control API shows it, None without one, `unread` if nobody told."""


@dataclass(slots=True)
class Admins:
    """Whose keys open /v1, and where their acts are recorded (None: nowhere, for tests).

    `keys` are exchanged at a reload.
    """

    keys: tuple[WorkerKey, ...]
    wall_s: Callable[[], float]
    audit: AuditLog | None = None

    def find(self, authorization: str) -> WorkerKey | None:
        """The key that a request carries, unless it has expired. Compares every one."""
        scheme, _, secret = authorization.partition(" ")
        digest = secret_digest(secret.strip().encode("utf-8", "surrogateescape"))
        found = None
        for key in self.keys:
            if key.has(digest):
                found = key
        if scheme.lower() != "bearer" or found is None or found.grant.expired(self.wall_s()):
            return None
        return found


class AdminGate:
    """Lets only admins into /v1, before a body is read; an open seal would be a lock-out."""

    def __init__(self, app: ASGIApp, admins: Admins, before: Before) -> None:
        self._app = app
        self._admins = admins
        self._before = before

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, on record where it may change something, or answer 401."""
        if scope["type"] != "http" or not _is_guarded(scope["path"]):
            await self._app(scope, receive, send)
            return
        admin = self._admins.find(Headers(scope=scope).get("authorization", ""))
        if admin is None:
            await _refuse(scope, send, Problem(Code.UNAUTHENTICATED, _HINT))
        elif scope["method"] in _SAFE or self._admins.audit is None:
            await self._app(scope, receive, send)
        else:
            await self._record(admin.id, self._admins.audit, scope, receive, send)

    async def _record(
        self, who: str, audit: AuditLog, scope: Scope, receive: Receive, send: Send
    ) -> None:
        body = await _whole(receive)
        told = await self._intent(who, scope, body)
        try:
            await audit.append({**told, "at": self._now(), "outcome": "begun"})
        except AuditFailed as failed:
            text = f"{failed}; nothing was done, because it could not be recorded"
            await _refuse(scope, send, Problem(Code.AUDIT_FAILED, text))
            return
        answer = _Answer()
        try:
            await self._app(scope, _given(body, receive), answer.take)
        finally:
            unrecorded = await self._end(audit, {**told, **answer.told()})
        if unrecorded is None:
            await answer.send(send)
        else:
            await _refuse(scope, send, unrecorded)

    async def _intent(self, who: str, scope: Scope, body: bytes) -> dict[str, object]:
        asked = _asked(body)
        told: dict[str, object] = {
            "id": Headers(scope=scope).get("x-request-id", ""),
            "who": who,
            "client": scope["client"][0] if scope.get("client") else None,
            "act": f"{scope['method']} {scope['path']}"[:_MAX_CHARS],
            **asked,
        }
        if isinstance(asked.get("scope"), str) and body_fault(body) is None:
            told["before"] = await self._before(str(asked["scope"]))
        return told

    async def _end(self, audit: AuditLog, told: Mapping[str, object]) -> Problem | None:
        try:
            await audit.append({**told, "at": self._now()})
        except AuditFailed as failed:
            text = f"{failed}; it may have been done: its begin is on record, its end is not"
            return Problem(Code.AUDIT_FAILED, text)
        return None

    def _now(self) -> str:
        return datetime.fromtimestamp(self._admins.wall_s(), UTC).isoformat()


class _Answer:
    """An answer that waits for its record."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    async def take(self, message: Message) -> None:
        self._messages.append(message)

    async def send(self, send: Send) -> None:
        for message in self._messages:
            await send(message)

    def told(self) -> dict[str, object]:
        """What the record says of it: done with the state after, refused with the code, or lost."""
        if not self._messages:
            return {"outcome": "unknown"}
        status = self._messages[0]["status"]
        body = _object(b"".join(m.get("body", b"") for m in self._messages[1:]))
        if status < 400:
            return {"outcome": "done", "status": status, "after": body}
        outcome = "unknown" if status >= 500 else "refused"
        return {"outcome": outcome, "status": status, "code": body.get("code")}


def _is_guarded(path: str) -> bool:
    if path == OPEN or path.startswith(FOR_WORKERS):
        return False
    return path == "/v1" or path.startswith("/v1/")


async def _whole(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if not message.get("more_body", False):
            return body


def _given(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once more, then what really comes."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _asked(body: bytes) -> dict[str, object]:
    """The part of a request that belongs on record; nothing that is not known to be harmless."""
    asked = _object(body)
    return {
        name: printable(value[:_MAX_CHARS]) if isinstance(value, str) else value
        for name, value in asked.items()
        if name in _ASKED and isinstance(value, str | int)
    }


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


async def _refuse(scope: Scope, send: Send, problem: Problem) -> None:
    reply = problem_reply(problem, Headers(scope=scope).get("x-request-id", ""))
    assert isinstance(reply.body, bytes)
    length = (b"content-length", str(len(reply.body)).encode("ascii"))
    start = {"type": "http.response.start", "status": reply.status}
    await send({**start, "headers": [*reply.fields, length]})
    await send({"type": "http.response.body", "body": reply.body})
