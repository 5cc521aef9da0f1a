"""Laws of the metrics: every event is counted, under the public names, within bounded series."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.model.event import (
    AnsweredAfterLapse,
    Drained,
    DuplicateFound,
    Event,
    Evicted,
    Faulted,
    IssuerKeysFailed,
    IssuerKeysRead,
    Joined,
    Lapsed,
    LoopLagged,
    OutcomeLost,
    OutcomeSettled,
    Raised,
    RegistryCalled,
    RegistryRegressed,
    Rejected,
    Reloaded,
    ReloadFailed,
    RequestFinished,
    Retried,
    RulesDiffer,
    ScopeReset,
    ShadowRejected,
    Started,
    TicketsOpen,
    TokenMissing,
    TokenRegressed,
    UpstreamCalled,
)
from gateway.model.mark import NO_MARK, Era, Mark, Scope
from gateway.telemetry.fanout import Fanout
from gateway.telemetry.loop_lag import watch_loop
from gateway.telemetry.metrics import BUCKETS_S, CATALOGUE, Metrics

ROOT = Path(__file__).parents[3]
S = Scope("jobs")
HIGH = Mark(Era(1), 7)
DONE = RequestFinished("r1", "db", "rows", "write", "applied", "PATCH", "/db/jobs", 204, 0.003)

EVENTS: dict[Event, str] = {
    DONE: 'fencegate_requests_total{dialect="rows",kind="write",outcome="applied",store="db"}',
    Rejected("db", "stale"): 'fencegate_rejections_total{reason="stale",store="db"}',
    ShadowRejected("db", "stale"): ('fencegate_shadow_rejections_total{reason="stale",store="db"}'),
    Raised("db", S, NO_MARK, HIGH): 'fencegate_raises_total{store="db"}',
    Drained(S, 0.2, complete=False): "fencegate_drain_seconds_count",
    TicketsOpen("db", 1): 'fencegate_tickets_open{store="db"}',
    TokenMissing("db"): 'fencegate_tokens_missing_total{store="db"}',
    OutcomeLost("db", S, "r1"): 'fencegate_outcome_unknown_total{store="db"}',
    OutcomeSettled("db", S, "r1", "applied", 2.0): (
        'fencegate_outcome_settled_total{outcome="applied",store="db"}'
    ),
    Retried("db", "replayed"): 'fencegate_retries_total{answer="replayed",store="db"}',
    DuplicateFound(S, HIGH): "fencegate_token_duplicates_total",
    TokenRegressed(S, 3, 7): "fencegate_token_regressed_total",
    ScopeReset(S, HIGH, NO_MARK, "why"): "fencegate_resets_total",
    RegistryRegressed(S, HIGH, NO_MARK): "fencegate_registry_regressed_total",
    AnsweredAfterLapse("db"): 'fencegate_answered_after_lapse_total{store="db"}',
    RegistryCalled("claim", 0.001, ok=False): 'fencegate_registry_ops_total{op="claim"}',
    UpstreamCalled("db", 0.001): 'fencegate_upstream_seconds_count{store="db"}',
    LoopLagged(0.01): "fencegate_event_loop_lag_seconds_count",
    Lapsed("g"): "fencegate_lapses_total",
    Joined("i", 0.0): "fencegate_registry_incarnations_total",
    Evicted("r", "g"): "fencegate_evictions_total",
    RulesDiffer("d"): "fencegate_rules_differ_total",
    Faulted("here", "text"): "fencegate_faults_total",
    IssuerKeysRead("i", 2): 'fencegate_issuer_key_reads_total{issuer="i",outcome="done"}',
    IssuerKeysFailed("i", "why"): 'fencegate_issuer_key_reads_total{issuer="i",outcome="failed"}',
    Started("d"): "fencegate_starts_total",
    Reloaded("tls"): 'fencegate_reloads_total{outcome="done",part="tls"}',
    ReloadFailed("tls", "why"): 'fencegate_reloads_total{outcome="failed",part="tls"}',
}

# The further series of those events that move more than one.
MORE: dict[type[Event], tuple[str, ...]] = {
    RequestFinished: ('fencegate_request_seconds_count{kind="write",store="db"}',),
    RegistryCalled: (
        'fencegate_registry_failures_total{op="claim"}',
        'fencegate_registry_seconds_count{op="claim"}',
    ),
}

PUBLIC = {
    "fencegate_requests_total": {"store", "dialect", "kind", "outcome"},
    "fencegate_rejections_total": {"store", "reason"},
    "fencegate_request_seconds": {"store", "kind"},
    "fencegate_raises_total": {"store"},
    "fencegate_drain_seconds": set(),
    "fencegate_tickets_open": {"store"},
    "fencegate_outcome_unknown_total": {"store"},
    "fencegate_registry_ops_total": {"op"},
    "fencegate_registry_seconds": {"op"},
    "fencegate_upstream_seconds": {"store"},
    "fencegate_event_loop_lag_seconds": set(),
}


def series(metrics: Metrics) -> dict[str, float]:
    """The exposition as {series: value}."""
    lines = metrics.exposition().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def moved_by(event: Event) -> dict[str, float]:
    """What one event changes in the exposition, series of the process itself left out."""
    metrics = Metrics([("db", "rows")])
    before = series(metrics)
    metrics.emit(event)
    changes = {name: value - before.get(name, 0.0) for name, value in series(metrics).items()}
    return {n: by for n, by in changes.items() if by and not n.startswith("process_")}


def metric_of(name: str) -> str:
    """The metric that a series belongs to, as the reference names it."""
    plain = name.partition("{")[0]
    return plain if plain in CATALOGUE else re.sub("_(count|sum|bucket)$", "", plain)


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_each_event_moves_its_own_series_and_no_other(event: Event) -> None:
    """Event in, difference of the whole exposition out: its series by one, a time by itself."""
    moved = moved_by(event)
    parts = {n: by for n, by in moved.items() if "_sum" in n or "_bucket" in n}
    counts = {n: by for n, by in moved.items() if n not in parts}
    assert counts == dict.fromkeys((EVENTS[event], *MORE.get(type(event), ())), 1)
    sums = {n: by for n, by in parts.items() if "_sum" in n}
    assert set(sums) == {n.replace("_count", "_sum") for n in counts if "_count" in n}
    assert list(sums.values()) == pytest.approx([getattr(event, "seconds", 0.0)] * len(sums))


def test_every_metric_of_the_reference_moves_with_some_event() -> None:
    """A metric that nothing moves is a promise to a dashboard that is not kept."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    told = set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE))
    moved = {metric_of(name) for event in EVENTS for name in moved_by(event)}
    measured = {n for n in series(Metrics()) if n.startswith("process_")}
    assert told == moved | measured
    assert moved == set(CATALOGUE)


def test_no_event_is_left_out() -> None:
    """The table above has every member of the union."""
    assert {type(event) for event in EVENTS} == set(get_args(Event))


def test_the_public_names_and_labels_are_kept() -> None:
    """Dashboards depend on them."""
    assert {name: set(CATALOGUE[name][1]) for name in PUBLIC} == PUBLIC


def test_the_catalogue_is_what_is_exposed() -> None:
    """The reference is made from the catalogue, so it must miss nothing and invent nothing."""
    metrics = Metrics([("db", "rows")])
    for event in EVENTS:
        metrics.emit(event)
    families = text_string_to_metric_families(metrics.exposition().decode())
    exposed = {f.name + "_total" * (f.type == "counter") for f in families}
    assert {name for name in exposed if name.startswith("fencegate_")} == set(CATALOGUE)


def test_a_failed_registry_operation_is_counted_apart() -> None:
    """Failures have a series of their own: at zero from the first call, so that one counts."""
    metrics = Metrics()
    metrics.emit(RegistryCalled("beat", 0.001, ok=True))
    assert series(metrics)['fencegate_registry_failures_total{op="beat"}'] == 0
    metrics.emit(RegistryCalled("beat", 0.001, ok=False))
    assert series(metrics)['fencegate_registry_failures_total{op="beat"}'] == 1


def test_series_of_known_stores_start_at_zero() -> None:
    """A rate over the first event is not lost, because the series was there before it."""
    fresh = series(Metrics([("db", "rows")]))
    assert fresh[EVENTS[DONE]] == 0
    assert fresh['fencegate_rejections_total{reason="stale",store="db"}'] == 0


def test_times_fall_into_buckets_from_half_a_millisecond_to_a_minute() -> None:
    """The bounds are part of the contract."""
    metrics = Metrics([("db", "rows")])
    metrics.emit(DONE)
    found = series(metrics)
    name = 'fencegate_request_seconds_bucket{kind="write",le="%s",store="db"}'
    assert (found[name % "0.0025"], found[name % "0.005"], found[name % "60.0"]) == (0, 1, 1)
    assert (BUCKETS_S[0], BUCKETS_S[-1]) == (0.0005, 60.0)


def test_memory_is_told() -> None:
    """A scraper learns how large the process is."""
    assert series(Metrics())["process_resident_memory_bytes"] > 0


class Recorder:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.got = asyncio.Event()

    def emit(self, event: Event) -> None:
        self.events.append(event)
        self.got.set()


def test_a_fanout_hands_each_event_to_all_in_order() -> None:
    """Several observers see the same events."""
    one, two = Recorder(), Recorder()
    both = Fanout(one, two)
    for event in EVENTS:
        both.emit(event)
    assert one.events == two.events == list(EVENTS)


class LateClock:
    """A clock whose sleeps take longer than was asked for."""

    def __init__(self, late_s: float) -> None:
        self.now_s = 100.0
        self.late_s = late_s

    def boottime_s(self) -> float:
        return self.now_s

    async def sleep_s(self, seconds: float) -> None:
        self.now_s += seconds + self.late_s
        await asyncio.sleep(0)


@pytest.mark.parametrize("late_s, told", [(0.25, 0.25), (0.0, 0.0), (-0.001, 0.0)])
async def test_the_loop_lag_is_how_late_a_timer_ran(late_s: float, told: float) -> None:
    """A loop on time has no lag; never a negative one."""
    recorder = Recorder()
    task = asyncio.create_task(watch_loop(LateClock(late_s), recorder))
    async with asyncio.timeout(5):
        await recorder.got.wait()
    task.cancel()
    lag = recorder.events[0]
    assert isinstance(lag, LoopLagged)
    assert lag.seconds == pytest.approx(told)
