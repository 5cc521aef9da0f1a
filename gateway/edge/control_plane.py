"""The control API behind the edge: the same guard, a bounded body, the same request ids."""

from __future__ import annotations

from typing import Final

from gateway.edge.account import Account
from gateway.edge.asgi_types import App, Message, Receive, Scope, Send
from gateway.edge.fronts import is_under
from gateway.ports.body import Body

_RECORDED: Final = b"/v1"


async def serve_control(
    app: App, scope: Scope, body: Body, receive: Receive, send: Send, account: Account
) -> None:
    """Let the control app answer. Raises `BodyError` before it is called, when the body breaks."""
    account.quiet = not is_under(scope["raw_path"], _RECORDED)
    account.dialect = "control"
    whole = b"".join([piece async for piece in body])
    account.bytes_in = len(whole)
    given = False

    async def receive_whole() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": whole, "more_body": False}

    async def send_marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            _note_status(account, message["status"])
            fields = [f for f in message.get("headers", ()) if f[0] != b"x-request-id"]
            fields.append((b"x-request-id", account.request_id.encode("ascii")))
            message = {**message, "headers": fields}
        await send(message)

    inner = {**scope, "headers": list(scope["headers"])}
    inner["headers"].append((b"x-request-id", account.request_id.encode("ascii")))
    await app(inner, receive_whole, send_marked)


def _note_status(account: Account, status: int) -> None:
    account.status = status
    if not account.kind.mutates:
        account.outcome = "read_ok" if status < 400 else "read_failed"
    elif status < 400:
        account.outcome = "applied"
    else:
        account.outcome = "unknown" if status >= 500 else "refused"
