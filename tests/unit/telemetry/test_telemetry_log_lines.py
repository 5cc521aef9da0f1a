"""Laws of the log's catalogue: what the log writes is what docs/reference/logs.md says."""

from __future__ import annotations

import dataclasses
import io
import json
from typing import Any, get_args

import pytest

from gateway.model.event import (
    AnsweredAfterLapse,
    Drained,
    DuplicateFound,
    Event,
    Evicted,
    Faulted,
    IssuerKeysFailed,
    Joined,
    Lapsed,
    OutcomeLost,
    OutcomeSettled,
    Raised,
    RegistryCalled,
    RegistryRegressed,
    Reloaded,
    ReloadFailed,
    RequestFinished,
    RulesDiffer,
    ScopeReset,
    Started,
    TokenRegressed,
)
from gateway.model.mark import NO_MARK, Era, Mark, Scope
from gateway.model.stage import Stage
from gateway.model.token import Holder
from gateway.model.trace import TraceContext
from gateway.telemetry.log_lines import FIRST, LINES, MARK, STAGES, LogField
from gateway.telemetry.log_sink import LogSink
from gateway.telemetry.logs import Log, stages_ms

S = Scope("jobs")
BURNT = Mark(Era(1), 7, burnt=True, holder=Holder("h"))
BARE = RequestFinished("r1", "db", "rows", "read", "read_ok", "GET", "/db/jobs", 200, 0.25)
FULL = dataclasses.replace(
    BARE,
    scope=S,
    token=3,
    holder="h",
    mark=7,
    code="fence_token_stale",
    worker="w",
    client="127.0.0.1",
    bytes_in=9,
    replayed=True,
    retried=True,
    shadow="stale",
    slow=True,
    stages=(Stage("parse", 0.0, 0.125),),
    trace=TraceContext(1, 2, sampled=True),
)
EVENTS: tuple[Event, ...] = (
    BARE,
    FULL,
    Raised("db", S, NO_MARK, BURNT),
    Drained(S, 0.5, complete=False),
    OutcomeLost("db", S, "r1"),
    OutcomeSettled("db", S, "r1", "applied", 2.0),
    DuplicateFound(S, BURNT),
    RegistryRegressed(S, BURNT, NO_MARK),
    TokenRegressed(S, 3, 7),
    ScopeReset(S, BURNT, NO_MARK, "drill"),
    AnsweredAfterLapse("db"),
    Lapsed("g"),
    Joined("i", 1.5),
    Evicted("r", "g"),
    RulesDiffer("d"),
    Faulted("here", "why"),
    IssuerKeysFailed("i", "why"),
    Started("d"),
    Reloaded("tls"),
    Reloaded("policy", "rules[0] went"),
    ReloadFailed("tls", "why"),
    RegistryCalled("claim", 1.5, ok=False, error="why"),
    RegistryCalled("claim", 0.5, ok=True),
)
PYTHON_TYPES = {
    "text": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "mark": dict,
    "object": dict,
}


def written(*events: Event) -> list[dict[str, Any]]:
    stream = io.BytesIO()
    sink = LogSink(stream)
    log = Log(sink)
    for event in events:
        log.emit(event)
    sink.close()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def misfits(record: dict[str, Any], fields: tuple[LogField, ...], where: str) -> list[str]:
    """What of these fields the reference does not say, or says otherwise."""
    wrong = [f"{where}.{n} is not listed" for n in record.keys() - {f.name for f in fields}]
    for field in fields:
        value = record.get(field.name)
        if value is None:
            wrong += [] if field.optional else [f"{where}.{field.name} is missing"]
        elif not isinstance(value, PYTHON_TYPES[field.type]):
            wrong.append(f"{where}.{field.name} is no {field.type}")
        elif field.type == "mark":
            wrong += misfits(value, MARK, f"{where}.{field.name}")
    return wrong


def misfits_of(record: dict[str, Any]) -> list[str]:
    name = record["event"]
    return misfits(record, FIRST + LINES[name].fields, name)


def test_every_line_is_as_its_reference_says() -> None:
    """Each field that is written is listed with its type, and what is promised always is there."""
    assert [wrong for record in written(*EVENTS) for wrong in misfits_of(record)] == []


def test_every_field_of_the_reference_is_written() -> None:
    """No line and no field is listed that the log never writes."""
    seen: dict[str, set[str]] = {"log_lines_dropped": {"count"}}
    for record in written(*EVENTS):
        seen.setdefault(record["event"], set()).update(record.keys() - {f.name for f in FIRST})
    assert seen == {name: {f.name for f in line.fields} for name, line in LINES.items()}


def test_levels_are_those_of_the_reference() -> None:
    """Whoever alerts on a level finds it in the reference; a slow request alone is raised."""
    for record in written(*EVENTS):
        level = "warning" if record.get("slow") else LINES[record["event"]].level
        assert record["level"] == level, record


def test_each_kind_of_event_is_considered() -> None:
    """A new event that has a line must be added to the events above."""
    without_line = {
        "Rejected",
        "Retried",
        "ShadowRejected",
        "TicketsOpen",
        "TokenMissing",
        "UpstreamCalled",
        "LoopLagged",
        "IssuerKeysRead",
    }
    assert {type(e).__name__ for e in EVENTS} | without_line == {
        kind.__name__ for kind in get_args(Event)
    }


@pytest.mark.parametrize(
    "change, told",
    [
        ({"extra": 1}, "request.extra is not listed"),
        ({"ms": None}, "request.ms is missing"),
        ({"status": "200"}, "request.status is no integer"),
    ],
)
def test_a_line_that_drifts_is_found(change: dict[str, Any], told: str) -> None:
    """The control: a field too many, one that lacks, and one of another type are each named."""
    (record,) = written(BARE)
    assert misfits_of({**record, **change}) == [told]


def test_milliseconds_by_stage() -> None:
    """Stages stand in the order of the way, those of one name add up, and the gate divides one."""
    stages = (
        Stage("admit", 1.0, 1.5),
        Stage("parse", 0.0, 0.25),
        Stage("admit", 2.0, 2.5),
        Stage("upstream", 3.0, 6.0, gated_s=5.0),
    )
    found = stages_ms(stages)
    assert list(found.items()) == [
        ("parse", 250.0),
        ("admit", 1000.0),
        ("gate", 2000.0),
        ("upstream", 1000.0),
    ]
    assert set(found) <= set(STAGES)
