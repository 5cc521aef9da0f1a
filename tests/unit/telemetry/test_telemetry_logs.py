"""Laws of the log: one line a request, errors told once, secrets never, and never a wait."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.model.event import (
    DuplicateFound,
    Event,
    Faulted,
    RegistryCalled,
    RegistryRegressed,
    Rejected,
    RequestFinished,
    TicketsOpen,
)
from gateway.model.mark import NO_MARK, Era, Mark, Scope
from gateway.model.token import Holder
from gateway.telemetry.log_sink import LogSink
from gateway.telemetry.logs import Log, redacted

SECRET = "c0ffee0123456789secret"
DONE = RequestFinished(
    "r1", "lake", "s3", "write", "refused", "PUT", "/demo/k", 412, 0.0123, token=1, mark=2
)


def lines(*events: Event, readable: bool = False) -> list[str]:
    stream = io.BytesIO()
    sink = LogSink(stream)
    log = Log(sink, readable=readable)
    for event in events:
        log.emit(event)
    sink.close()
    return stream.getvalue().decode().splitlines()


def records(*events: Event) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(*events)]


def test_a_request_is_one_line_with_all_that_is_known() -> None:
    """The canonical line: what came, what was compared, how it ended, how long it took."""
    (record,) = records(Rejected("lake", "stale"), TicketsOpen("lake", 1), DONE)
    at = record.pop("at")
    assert at.endswith("Z")
    assert record == {
        "level": "info",
        "event": "request",
        "request_id": "r1",
        "store": "lake",
        "dialect": "s3",
        "kind": "write",
        "outcome": "refused",
        "method": "PUT",
        "path": "/demo/k",
        "status": 412,
        "ms": 12.3,
        "token": 1,
        "mark": 2,
    }


def presigned(path: str) -> RequestFinished:
    return RequestFinished("r1", "lake", "s3", "read", "read_ok", "GET", path, 200, 0.001)


@pytest.mark.parametrize(
    "path",
    [
        f"/demo/k?X-Amz-Signature={SECRET}&X-Amz-Date=1",
        f"/demo/k?x-amz-security-token={SECRET}",
        f"/demo/k?{SECRET}",
    ],
)
@pytest.mark.parametrize("readable", [False, True])
def test_a_path_is_logged_without_its_query(path: str, readable: bool) -> None:
    """A presigned address carries its signature in the query, which never reaches the log."""
    (line,) = lines(presigned(path), readable=readable)
    assert "/demo/k" in line
    assert SECRET not in line
    assert "?" not in line


LEAKS = [
    f"https://h/demo/k?X-Amz-Credential={SECRET}/2026/r/s3&X-Amz-Signature={SECRET}",
    f"Authorization: Bearer {SECRET}",
    f"(b'authorization', b'AWS4-HMAC-SHA256 Credential={SECRET}/x, Signature={SECRET}')",
    f"{{'Authorization': 'Basic {SECRET}'}}",
    f"postgresql://worker:{SECRET}@db/jobs",
    f"X-Amz-Security-Token: {SECRET}",
]


@pytest.mark.parametrize("text", LEAKS)
def test_a_foreign_text_is_redacted(text: str) -> None:
    """The text of an unforeseen error may quote a request; its credentials are taken out."""
    (line,) = lines(Faulted(text, text))
    assert SECRET not in line
    assert SECRET in json.dumps(text), "the control: without redaction it would be there"


def test_redaction_keeps_what_helps() -> None:
    """Only the secret goes; the rest of the message stays readable."""
    assert (
        redacted("PUT /demo/k failed: connection reset") == "PUT /demo/k failed: connection reset"
    )
    assert redacted("Bearer abc at http://h/x") == "Bearer *** at http://h/x"


def test_a_client_cannot_forge_lines_or_drive_the_terminal() -> None:
    """Line ends and control characters of a path or holder are shown, not obeyed."""
    event = RequestFinished(
        "r1", "s", "http", "read", "read_ok", "GET", "/a\n\x1b[2J", 200, 0.1, holder="h\r\x07"
    )
    for readable in (False, True):
        (line,) = lines(event, readable=readable)
        assert line.isprintable()


def test_what_an_operator_must_know_is_an_error() -> None:
    """A token in two hands, a registry that has forgotten, and a fault are told as errors."""
    mark = Mark(Era(1), 7, burnt=True, holder=Holder("h1"))
    found = records(
        DuplicateFound(Scope("jobs"), mark),
        RegistryRegressed(Scope("jobs"), mark, NO_MARK),
        Faulted("the pump", "boom"),
    )
    assert [r["level"] for r in found] == ["error"] * 3
    assert [r["event"] for r in found] == ["token_duplicate", "registry_regressed", "fault"]
    assert found[0]["mark"] == {"era": 1, "token": 7, "burnt": True, "holder": "h1"}


def test_a_failing_registry_is_told_when_it_begins_and_when_it_ends() -> None:
    """An outage is two lines, however many requests meet it."""
    down, up = RegistryCalled("claim", 1.5, ok=False), RegistryCalled("claim", 0.01, ok=True)
    found = records(up, down, down, down, up, up, down)
    assert [r["event"] for r in found] == ["registry_failed", "registry_back", "registry_failed"]


def test_a_failing_registry_says_why_without_a_password() -> None:
    """The line of an outage has its cause, and no password that an address in it carries."""
    why = "database or disk is full; postgres://u:hunter2@h/db"
    (found,) = records(RegistryCalled("claim", 1.5, ok=False, error=why))
    assert "disk is full" in found["error"]
    assert "hunter2" not in found["error"]


@pytest.fixture
def stalled_pipe() -> Iterator[tuple[Any, int]]:
    """A pipe whose reader does not read: its writer blocks once it is full."""
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "wb")
    yield stream, reader
    os.close(reader)
    try:
        stream.close()
    except OSError:
        assert stream.closed


def test_a_reader_that_stalls_holds_nobody_up(stalled_pipe: tuple[Any, int]) -> None:
    """Lines beyond the buffer are dropped and counted; taking one never waits for the reader."""
    stream, reader = stalled_pipe
    sink = LogSink(stream, max_buffered_bytes=100_000)
    taken = threading.Event()

    def fill() -> None:
        for _ in range(20_000):
            sink.write(b"x" * 99 + b"\n")
        taken.set()

    threading.Thread(target=fill, daemon=True).start()
    assert taken.wait(10), "write() blocked on the stalled reader"
    received = bytearray()

    def drain() -> None:
        while piece := os.read(reader, 65_536):
            received.extend(piece)
            if b"log_lines_dropped" in received:
                return

    draining = threading.Thread(target=drain, daemon=True)
    draining.start()
    sink.write(b"last\n")
    draining.join(10)
    sink.close()
    assert b"log_lines_dropped" in received
    whole = [line for line in bytes(received).splitlines() if line.startswith(b"x")]
    assert set(whole) == {b"x" * 99}


def test_closing_writes_out_what_is_buffered() -> None:
    """The last lines before an end are the ones that matter."""
    stream = io.BytesIO()
    sink = LogSink(stream)
    for number in range(100):
        sink.write(b"%d\n" % number)
    sink.close()
    assert stream.getvalue().split() == [b"%d" % n for n in range(100)]


def test_a_closed_stream_is_survived() -> None:
    """Without a log the gateway goes on."""
    stream = io.BytesIO()
    sink = LogSink(stream)
    stream.close()
    sink.write(b"x\n")
    sink.close()
    sink.write(b"y\n")
    assert stream.closed


def test_a_note_is_readable_on_a_terminal() -> None:
    """Start-up lines are for a person there, and an object everywhere else."""
    stream = io.BytesIO()
    sink = LogSink(stream)
    Log(sink, readable=True).note("serving", url="http://127.0.0.1:8080")
    Log(sink).note("serving", url="http://127.0.0.1:8080")
    sink.close()
    text, record = stream.getvalue().decode().splitlines()
    assert text.endswith("serving  url=http://127.0.0.1:8080")
    assert json.loads(record)["url"] == "http://127.0.0.1:8080"
