"""Laws of trace context: what W3C Trace Context allows is carried on, all else begins anew."""

from __future__ import annotations

import pytest

from gateway.model.trace import TraceContext, is_sampled, read_context, read_state
from gateway.ports.journey import Journey, Journeys, outgoing_fields, stage

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01".encode()


def test_a_parent_is_understood() -> None:
    """Ids, flags and state of the fields."""
    found = read_context([GOOD], [b"a=1, b=2", b"c=3"])
    assert found == TraceContext(int(TRACE, 16), int(SPAN, 16), True, False, b"a=1,b=2,c=3")
    assert found.traceparent(0x10) == f"00-{TRACE}-0000000000000010-01".encode()


@pytest.mark.parametrize(
    "parent",
    [
        b"",
        b"00",
        f"ff-{TRACE}-{SPAN}-01".encode(),
        f"00-{'0' * 32}-{SPAN}-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        f"00-{TRACE.upper()}-{SPAN}-01".encode(),
        f"00-{TRACE}-{SPAN}-01-more".encode(),
        f"00-{TRACE}-{SPAN}-1".encode(),
        f"cc-{TRACE}-{SPAN}-01.more".encode(),
        f"00-{TRACE}-{SPAN}-01\r\nx: y".encode(),
    ],
)
def test_a_malformed_parent_begins_a_new_trace(parent: bytes) -> None:
    """Whatever breaks the specification is ignored, its state too; so are two parents."""
    assert read_context([parent], [b"a=1"]) is None
    assert read_context([GOOD, GOOD], []) is None


def test_a_later_version_is_read_as_this_one() -> None:
    """Section 4.3: a higher version may have more fields behind those of version 00."""
    found = read_context([f"cc-{TRACE}-{SPAN}-00-more".encode()], [])
    assert found is not None
    assert not found.sampled


@pytest.mark.parametrize(
    "values, state",
    [
        ([b"a=1,,b=2 "], b"a=1,b=2"),
        ([b"a=1,a=2"], b""),
        ([b"A=1"], b""),
        ([b"a"], b""),
        ([b"a=\xff"], b""),
        ([b"a=1\r\nx: y"], b""),
        ([",".join(f"k{n}=1" for n in range(33)).encode()], b""),
        ([b"a=" + b"x" * 200 + b",b=2," + b"c=" + b"y" * 250 + b",d=" + b"z" * 100], None),
    ],
)
def test_state(values: list[bytes], state: bytes | None) -> None:
    """Members in their order; none when one is malformed; the long ones go when it is too long."""
    if state is None:
        assert read_state(values) == b"b=2,d=" + b"z" * 100
    else:
        assert read_state(values) == state


def test_sampling_goes_by_the_id() -> None:
    """Every service with one ratio decides alike, and the ratio is met."""
    ids = [n * 0x9E3779B97F4A7C15 % 2**64 for n in range(1000)]
    assert not any(is_sampled(i, 0.0) for i in ids)
    assert all(is_sampled(i, 1.0) for i in ids)
    assert 200 < sum(is_sampled(i, 0.25) for i in ids) < 300


def begin(fields: list[tuple[bytes, bytes]], ratio: float | None = 1.0) -> Journey:
    return Journeys(lambda: 1.0, ratio).begin(fields)


def test_a_request_goes_on_with_the_trace_of_its_client() -> None:
    """Same trace, a span of its own, the client's decision to keep it, its state to the store."""
    journey = begin([(b"host", b"h"), (b"traceparent", GOOD), (b"tracestate", b"a=1")], 0.0)
    assert journey.trace is not None
    assert (journey.trace.trace_id, journey.parent_id) == (int(TRACE, 16), int(SPAN, 16))
    assert journey.trace.sampled
    entered = journey.enter()
    with stage("upstream"):
        fields = dict(outgoing_fields())
    journey.leave(entered)
    (sent,) = journey.stages
    assert fields[b"traceparent"] == f"00-{TRACE}-{sent.span_id:016x}-01".encode()
    assert fields[b"tracestate"] == b"a=1"
    assert sent.parent_span_id == journey.span_id not in {0, int(SPAN, 16)}
    assert outgoing_fields() == ()


def test_a_new_trace_is_kept_by_the_ratio() -> None:
    """Without a parent the gateway decides; without traces there is nothing to pass on."""
    kept, not_kept, off = begin([], 1.0), begin([], 0.0), begin([(b"traceparent", GOOD)], None)
    assert kept.trace is not None
    assert not_kept.trace is not None
    assert (kept.trace.sampled, not_kept.trace.sampled) == (True, False)
    assert (kept.parent_id, off.trace) == (None, None)
    assert off.fields() == ()
