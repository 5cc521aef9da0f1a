"""The data plane: one answer and one event per request, whatever fails on the way."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from gateway.dialects.http import HttpDialect
from gateway.edge.asgi import DataPlane
from gateway.edge.exchange import ClientGone
from gateway.edge.fronts import Front, Listener
from gateway.edge.limits import EdgeLimits
from gateway.edge.request_ids import RequestIds
from gateway.model.event import Event, Faulted, Rejected, RequestFinished
from gateway.model.operation import Operation
from gateway.model.outcome import Applied, Outcome, ReadFailed, ReadOk, Refused, Unknown
from gateway.model.problem import Code, Problem
from gateway.model.reply import Listing, ObjectFound, ObjectMeta, ObjectPut
from gateway.policy.decide import Permit
from gateway.ports.dialect import Parsed
from gateway.system_clock import SystemClock
from tests.conformance.edge.recording_gateway import own_scope

ADDRESS = ("127.0.0.1", 8080)
Handle = Callable[[Parsed, Permit | Problem], Awaitable[Outcome]]


class Plane:
    """A data plane with a scripted store, and what came out of it."""

    def __init__(self, handle: Handle, **options: Any) -> None:
        self.events: list[Event] = []
        self.decided: list[Operation] = []
        self.sent: list[dict[str, Any]] = []
        self.gone_after: int | None = None
        front = Front("files", HttpDialect("files", "/files", None), b"/files", self.decide, handle)
        listener = Listener(ADDRESS, (front,), options.pop("control", None))
        self.plane = DataPlane(
            (listener,),
            clock=SystemClock(),
            wall_s=lambda: 1.0,
            observer=self,
            ids=RequestIds(),
            limits=options.pop("limits", EdgeLimits()),
            **options,
        )

    def decide(self, operation: Operation) -> Permit | Problem:
        self.decided.append(operation)
        return own_scope(operation)

    def emit(self, event: Event) -> None:
        self.events.append(event)

    async def send(self, message: Any) -> None:
        if self.gone_after is not None and len(self.sent) >= self.gone_after:
            raise ClientGone
        self.sent.append(dict(message))

    async def request(
        self, method: str, path: str, *fields: tuple[bytes, bytes], body: bytes = b""
    ) -> int:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        self.sent.clear()
        length = (b"content-length", str(len(body)).encode())
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "server": ADDRESS,
            "client": ("127.0.0.1", 5),
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"host", b"h"), length, *fields],
        }
        await self.plane(scope, receive, self.send)
        return int(self.sent[0]["status"]) if self.sent else 0

    @property
    def fields(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(m.get("body", b"") for m in self.sent[1:])

    @property
    def finished(self) -> RequestFinished:
        (event,) = [e for e in self.events if isinstance(e, RequestFinished)]
        return event


def always(outcome: Outcome) -> Handle:
    async def handle(*_: object) -> Outcome:
        return outcome

    return handle


async def fails(*_: object) -> Outcome:
    raise RuntimeError("secret-detail")


STALE = Problem(Code.TOKEN_STALE, "stale", mark=9)
TOKEN = (b"x-fence-token", b"7")

OUTCOMES: list[tuple[str, str, Outcome, int, str]] = [
    ("applied", "PUT", Applied(ObjectPut('"e"', created=True)), 201, "applied"),
    ("refused", "PUT", Refused(STALE), 412, "refused"),
    ("unknown", "PUT", Unknown(Problem(Code.OUTCOME_UNKNOWN, "lost")), 504, "unknown"),
    ("read", "GET", ReadOk(ObjectFound(ObjectMeta('"e"', 0, 0), 0)), 200, "read_ok"),
    ("absent", "GET", ReadFailed(Problem(Code.NOT_FOUND, "no")), 404, "read_failed"),
    ("stale read", "GET", ReadFailed(STALE), 412, "read_failed"),
    ("refused read", "GET", Refused(STALE), 412, "read_failed"),
]


@pytest.mark.parametrize(
    "name, method, outcome, status, label", OUTCOMES, ids=[row[0] for row in OUTCOMES]
)
async def test_every_outcome(
    name: str, method: str, outcome: Outcome, status: int, label: str
) -> None:
    """Status, X-Fence-Outcome on mutations only, the mark on stale only, one event."""
    plane = Plane(always(outcome))
    assert await plane.request(method, "/files/k", TOKEN) == status
    mutates = method == "PUT"
    assert plane.fields.get(b"x-fence-outcome") == (label.encode() if mutates else None)
    stale = isinstance(outcome, Refused | ReadFailed) and outcome.problem is STALE
    assert plane.fields.get(b"x-fence-mark") == (b"9" if stale else None)
    event = plane.finished
    assert plane.fields[b"x-request-id"].decode() == event.request_id
    assert (event.outcome, event.status, event.store) == (label, status, "files")
    assert (event.token, event.path, event.client) == (7, "/files/k", "127.0.0.1")
    rejected = [e.reason for e in plane.events if isinstance(e, Rejected)]
    assert rejected == (["stale"] if stale else [])


async def test_no_other_answer_tells_a_mark() -> None:
    """A mark in another problem stays inside: field, body."""
    problem = Problem(Code.TOKEN_DUPLICATE, "two hands", mark=9)
    plane = Plane(always(Refused(problem)))
    assert await plane.request("PUT", "/files/k", TOKEN) == 409
    assert b"x-fence-mark" not in plane.fields
    assert "mark" not in json.loads(plane.body)


async def test_a_replay_says_so() -> None:
    """X-Fence-Replay: 1 on the answer of an earlier attempt."""
    plane = Plane(always(Applied(ObjectPut('"e"'), replayed=True)))
    assert await plane.request("PUT", "/files/k", TOKEN) == 204
    assert plane.fields[b"x-fence-replay"] == b"1"
    assert plane.finished.replayed


async def test_retry_after() -> None:
    """Problem.retry_after_s becomes the field."""
    busy = Problem(Code.BUSY, "busy", retry_after_s=3)
    plane = Plane(always(Refused(busy)))
    assert await plane.request("PUT", "/files/k", TOKEN) == 503
    assert plane.fields[b"retry-after"] == b"3"


@pytest.mark.parametrize("method, outcome", [("PUT", "unknown"), ("GET", "read_failed")])
async def test_an_unforeseen_error_behind_parsing(method: str, outcome: str) -> None:
    """500 without a trace of what happened; a mutation's outcome is unknown; a Faulted event."""
    plane = Plane(fails)
    assert await plane.request(method, "/files/k", TOKEN) == 500
    assert plane.finished.outcome == outcome
    assert json.loads(plane.body)["code"] == "internal_error"
    assert b"secret-detail" not in plane.body
    (fault,) = [e for e in plane.events if isinstance(e, Faulted)]
    assert "secret-detail" in fault.error


async def test_an_unforeseen_error_in_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was tried yet: refused."""

    async def parse(*_: object) -> None:
        raise RuntimeError("oops")

    monkeypatch.setattr(HttpDialect, "parse", parse)
    plane = Plane(fails)
    assert await plane.request("PUT", "/files/k", TOKEN) == 500
    assert plane.fields[b"x-fence-outcome"] == b"refused"


async def test_an_answer_that_cannot_be_rendered_keeps_its_outcome() -> None:
    """What was applied stays applied, although the answer is a 500."""
    plane = Plane(always(Applied(Listing("b", ()))))  # type: ignore[arg-type]
    assert await plane.request("PUT", "/files/k", TOKEN) == 500
    assert plane.fields[b"x-fence-outcome"] == b"applied"


async def test_a_request_is_decided_once() -> None:
    """The decision that the log line tells is the very one that the request is handled by."""
    handled: list[Permit | Problem] = []

    async def handle(_: Parsed, decided: Permit | Problem) -> Outcome:
        handled.append(decided)
        return Refused(STALE)

    plane = Plane(handle)
    await plane.request("PUT", "/files/k", TOKEN)
    assert [operation.resource.path for operation in plane.decided] == ["k"]
    assert handled == [own_scope(plane.decided[0])]
    assert plane.finished.scope == "files:k"


class Source:
    """A streamed body that tells whether it was closed."""

    def __init__(self, pieces: list[bytes], error: Exception | None = None) -> None:
        self.closed = False
        self.pieces = pieces
        self.error = error

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            for piece in self.pieces:
                yield piece
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True

    def found(self) -> ReadOk:
        size = sum(map(len, self.pieces))
        return ReadOk(ObjectFound(ObjectMeta('"e"', size, 0), size, None, self.chunks()))


async def test_a_streamed_answer() -> None:
    """All pieces in order with the length, and the source closed."""
    source = Source([b"ab", b"cd"])
    plane = Plane(always(source.found()))
    assert await plane.request("GET", "/files/k") == 200
    assert (plane.body, plane.fields[b"content-length"]) == (b"abcd", b"4")
    assert plane.sent[-1]["more_body"] is False
    assert source.closed


@pytest.mark.parametrize("gone_after", [0, 1, 2])
async def test_a_client_that_leaves_frees_the_source(gone_after: int) -> None:
    """Before the head, behind it, in mid-body: the source is closed and there is one event."""
    source = Source([b"ab", b"cd", b"ef"])
    plane = Plane(always(source.found()))
    plane.gone_after = gone_after
    await plane.request("GET", "/files/k")
    assert source.closed
    assert plane.finished.status == 200


async def test_a_source_that_fails_at_once_is_an_error_answer() -> None:
    """Nothing was sent yet, so the failure has a status."""
    plane = Plane(always(Source([], RuntimeError("disk")).found()))
    assert await plane.request("GET", "/files/k") == 500
    assert plane.finished.outcome == "read_failed"


async def test_a_source_that_fails_later_never_ends_cleanly() -> None:
    """The last message is not sent: the server breaks the connection off."""
    source = Source([b"ab"], RuntimeError("disk"))
    plane = Plane(always(source.found()))
    assert await plane.request("GET", "/files/k") == 200
    assert plane.sent[-1]["more_body"] is True
    assert source.closed
    assert plane.finished.outcome == "read_failed"
    assert any(isinstance(e, Faulted) for e in plane.events)


@pytest.mark.parametrize("method, outcome", [("PUT", b"refused"), ("GET", None)])
async def test_a_path_of_nobody(method: str, outcome: bytes | None) -> None:
    """404 not_found as a problem, refused for what is not safe."""
    plane = Plane(fails)
    assert await plane.request(method, "/filesystem/k", TOKEN) == 404
    assert json.loads(plane.body)["code"] == "not_found"
    assert plane.fields.get(b"x-fence-outcome") == outcome


async def test_a_refusal_of_the_guard_has_the_dialects_shape() -> None:
    """The store's dialect renders it, the connection closes, nothing is parsed."""
    plane = Plane(fails)
    assert await plane.request("PUT", "/files/k", TOKEN, TOKEN) == 400
    assert plane.fields[b"connection"] == b"close"
    assert json.loads(plane.body)["code"] == "fence_token_malformed"
    assert plane.finished.dialect == "http"
    assert [e.reason for e in plane.events if isinstance(e, Rejected)] == ["malformed"]


async def test_options_ask_no_store() -> None:
    """204 with Allow, without an outcome."""
    plane = Plane(fails)
    assert await plane.request("OPTIONS", "/files/k") == 204
    assert plane.fields[b"allow"] == b"GET, HEAD, PUT, DELETE, OPTIONS"
    assert b"x-fence-outcome" not in plane.fields
    assert b"content-length" not in plane.fields
    assert plane.finished.outcome == "read_ok"


async def control(scope: Any, receive: Any, send: Any) -> None:
    message = await receive()
    status = 409 if message["body"] == b"bad" else 200
    echo = dict(scope["headers"])[b"x-request-id"]
    await send({"type": "http.response.start", "status": status, "headers": [(b"echo", echo)]})
    await send({"type": "http.response.body", "body": message["body"]})


@pytest.mark.parametrize(
    "method, body, status, outcome",
    [
        ("POST", b"good", 200, "applied"),
        ("POST", b"bad", 409, "refused"),
        ("GET", b"", 200, "read_ok"),
    ],
)
async def test_the_control_api(method: str, body: bytes, status: int, outcome: str) -> None:
    """It gets the whole body and the request id; its answer carries the id; one event."""
    plane = Plane(fails, control=control)
    assert await plane.request(method, "/v1/seal", body=body) == status
    assert plane.body == body
    assert plane.fields[b"x-request-id"] == plane.fields[b"echo"]
    assert (plane.finished.dialect, plane.finished.outcome) == ("control", outcome)


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
async def test_scrapes_are_not_recorded(path: str) -> None:
    """Health checks and scrapes make no event."""
    plane = Plane(fails, control=control)
    assert await plane.request("GET", path) == 200
    assert plane.events == []


async def test_a_control_body_is_bounded() -> None:
    """413 before the control app is called."""
    plane = Plane(fails, control=fails_control, limits=EdgeLimits(max_control_body_bytes=3))
    assert await plane.request("POST", "/v1/seal", body=b"four") == 413
    assert plane.fields[b"connection"] == b"close"


async def fails_control(*_: object) -> None:
    raise AssertionError("must not be called")


@pytest.mark.parametrize("path, status", [("/files/k", 421), ("/v1/x", 421), ("/healthz", 200)])
async def test_hosts(path: str, status: int) -> None:
    """A Host that is not configured is refused everywhere but at the health checks."""
    plane = Plane(fails, control=control, hosts=frozenset({"Files.Example"}))
    assert await plane.request("GET", path) == status
