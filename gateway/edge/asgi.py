"""The data plane: guard, parse, handle, render, send (ARCHITECTURE.md, "Flow"). Raw ASGI.

Every request ends in one answer and one `RequestFinished`, whatever fails on the way: what fails
before the operation is understood is refused, a mutation that fails behind that is unknown.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from typing import Final

from gateway.dialects.problem_json import problem_reply
from gateway.edge.account import Account
from gateway.edge.answer import opened, release, send_reply
from gateway.edge.asgi_types import App, Receive, Scope, Send
from gateway.edge.body import RequestBody, body_too_large
from gateway.edge.control_plane import serve_control
from gateway.edge.exchange import ClientGone
from gateway.edge.fronts import UNGUARDED_HOST, Front, Listener, Listeners
from gateway.edge.guard import Framing, GuardRules, guard
from gateway.edge.limits import EdgeLimits
from gateway.edge.request_ids import RequestIds
from gateway.model.event import Faulted
from gateway.model.outcome import Outcome, ReadFailed, Refused, Unknown
from gateway.model.problem import Code, Problem
from gateway.ports.body import BodyError
from gateway.ports.clock import Clock
from gateway.ports.dialect import Parsed, RawRequest, Reply
from gateway.ports.journey import Journeys, stage
from gateway.ports.observer import Observer

_INTERNAL: Final = Problem(
    Code.INTERNAL, "the gateway failed to answer this request; its log tells more by the request id"
)
_NOWHERE: Final = Problem(Code.NOT_FOUND, "no store is mounted at this path")


class DataPlane:
    """The ASGI application of all listeners.

    `wall_s` reads CLOCK_REALTIME, for signatures. `hosts` are the names served, None for any.
    `journeys` observes where time goes, None where nobody wants to know; a request is slow from
    `slow_s` on.
    """

    def __init__(
        self,
        listeners: tuple[Listener, ...],
        *,
        clock: Clock,
        wall_s: Callable[[], float],
        observer: Observer,
        ids: RequestIds,
        limits: EdgeLimits,
        hosts: frozenset[str] | None = None,
        journeys: Journeys | None = None,
        slow_s: float = math.inf,
    ) -> None:
        self._listeners = Listeners(listeners)
        self._clock = clock
        self._wall_s = wall_s
        self._observer = observer
        self._ids = ids
        self._limits = limits
        self._journeys = journeys
        self._slow_s = slow_s
        known = None if hosts is None else frozenset(h.lower().encode("ascii") for h in hosts)
        self._rules = GuardRules(limits.max_head_bytes, limits.max_fields, known)
        self._any_host = GuardRules(limits.max_head_bytes, limits.max_fields)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        journeys = self._journeys
        journey = None if journeys is None else journeys.begin(scope["headers"])
        entered = None if journey is None else journey.enter()
        account = Account(scope, self._ids(), self._clock, journey, self._slow_s)
        try:
            listener = self._listeners.find(scope["server"])
            target = None if listener is None else listener.find(scope["raw_path"])
            if isinstance(target, Front):
                await self._serve_front(target, scope, receive, send, account)
            else:
                await self._serve_control(target, scope, receive, send, account)
        except ClientGone:
            return
        except Exception as error:  # the connection breaks off what was not answered to its end
            account.broke_off()
            self._fault(account, error)
        finally:
            if journey is not None and entered is not None:
                journey.leave(entered)
            account.close(self._observer)

    def _guard(
        self, scope: Scope, receive: Receive, account: Account, max_bytes: int | None
    ) -> RawRequest | Problem:
        def body_of(framing: Framing) -> RequestBody:
            return RequestBody(
                receive,
                framing.length,
                announced=framing.awaits_continue,
                max_bytes=max_bytes,
                idle_timeout_s=self._limits.body_idle_timeout_s,
            )

        any_host = scope["raw_path"] in UNGUARDED_HOST
        checked = guard(
            scope,
            self._any_host if any_host else self._rules,
            body_of,
            request_id=account.request_id,
            arrived_s=self._wall_s(),
        )
        if isinstance(checked, Problem) or max_bytes is None:
            return checked
        length = checked.body.length
        return checked if length is None or length <= max_bytes else body_too_large(max_bytes)

    # --- stores ---------------------------------------------------------------------------------
    async def _serve_front(
        self, front: Front, scope: Scope, receive: Receive, send: Send, account: Account
    ) -> None:
        account.store = front.store
        account.dialect = front.dialect.name
        checked = self._guard(scope, receive, account, front.max_body_bytes)
        parsed: Parsed | Problem | Reply
        if isinstance(checked, Problem):
            request, parsed = _unchecked(scope, receive, account.request_id), checked
        else:
            with stage("parse"):
                request, parsed = checked, await self._parse(front, checked, account)
        if isinstance(parsed, Reply):
            account.answered_by_dialect()
            await send_reply(send, parsed, account)
            return
        reply = await self._answer(front, request, parsed, account)
        try:
            with stage("answer"):
                await send_reply(send, reply, account)
        finally:
            await release(reply.body)

    async def _parse(
        self, front: Front, request: RawRequest, account: Account
    ) -> Parsed | Problem | Reply:
        try:
            return await front.dialect.parse(request)
        except BodyError as error:
            return error.problem
        except Exception as error:
            self._fault(account, error)
            return _INTERNAL

    async def _answer(
        self, front: Front, request: RawRequest, parsed: Parsed | Problem, account: Account
    ) -> Reply:
        outcome: Outcome
        if isinstance(parsed, Problem):
            known, outcome = None, Refused(parsed)
        else:
            known, outcome = parsed, await self._handle(front, parsed, account)
        if isinstance(request.body, RequestBody):
            account.bytes_in = request.body.received
        account.ended(outcome)
        body: object = getattr(getattr(outcome, "reply", None), "chunks", None)
        try:
            reply = front.dialect.render(request, known, outcome)
            body = reply.body
            return await opened(reply)
        except Exception as error:
            await release(body)
            self._fault(account, error)
            account.failed(_INTERNAL)
            return problem_reply(_INTERNAL, account.request_id)

    async def _handle(self, front: Front, parsed: Parsed, account: Account) -> Outcome:
        operation = parsed.operation
        account.understood(operation)
        try:
            decided = front.decide(operation)
            account.decided(decided)
            return await front.handle(parsed, decided)
        except BodyError as error:
            return Refused(error.problem)
        except Exception as error:
            self._fault(account, error)
            return Unknown(_INTERNAL) if operation.kind.mutates else ReadFailed(_INTERNAL)

    # --- everything else ------------------------------------------------------------------------
    async def _serve_control(
        self, app: App | None, scope: Scope, receive: Receive, send: Send, account: Account
    ) -> None:
        checked = self._guard(scope, receive, account, self._limits.max_control_body_bytes)
        problem = checked if isinstance(checked, Problem) else _NOWHERE
        if isinstance(checked, RawRequest) and app is not None:
            try:
                await serve_control(app, scope, checked.body, receive, send, account)
                return
            except BodyError as error:
                problem = error.problem
        account.ended(Refused(problem))
        await send_reply(send, problem_reply(problem, account.request_id), account)

    def _fault(self, account: Account, error: Exception) -> None:
        trace = "".join(traceback.format_exception(error))
        self._observer.emit(Faulted(f"request {account.request_id} to {account.store}", trace))


def _unchecked(scope: Scope, receive: Receive, request_id: str) -> RawRequest:
    """A request that the guard refused, for the dialect to render the refusal: no field of it."""
    return RawRequest(
        method=scope["method"],
        path=scope["raw_path"],
        query=b"",
        fields=(),
        request_id=request_id,
        host="",
        https=scope["scheme"] == "https",
        arrived_s=0.0,
        body=RequestBody(receive, 0),
    )
