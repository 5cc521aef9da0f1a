"""Trace context on the way to a store: in the head, in place of the worker's, nowhere else."""

from __future__ import annotations

from gateway.ports.journey import Journeys
from gateway.upstream.exchange import Message

HEAD = b"GET /a HTTP/1.1\r\nhost: h\r\nTraceparent: 00-old\r\ntracestate: old=1\r\nx: y\r\n\r\n"
BODY = b"traceparent: body\r\n\r\nrest"


def test_a_head_is_sent_as_it_is_without_traces() -> None:
    """Off: the very same bytes, a worker's own context included."""
    message = Message("GET", HEAD + BODY)
    assert message.traced() is message.head


def test_the_context_of_the_request_replaces_the_one_that_came() -> None:
    """One traceparent, ours; all other fields and the content behind the head stay as they are."""
    journey = Journeys(lambda: 1.0, 1.0).begin([])
    entered = journey.enter()
    sent = Message("GET", HEAD + BODY).traced()
    ((name, value),) = journey.fields()
    journey.leave(entered)
    ours = name + b": " + value
    assert sent == b"GET /a HTTP/1.1\r\nhost: h\r\nx: y\r\n" + ours + b"\r\n\r\n" + BODY
