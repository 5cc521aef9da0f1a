"""The metrics: every event counted on children that are bound before the first request.

Names and labels are the public contract (decisions, "Metrics values"). Label values come from the
policy and from closed sets, never from a client, so the number of series is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

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
from gateway.model.operation import Kind
from gateway.model.problem import Code, Problem

OUTCOMES: Final = ("applied", "refused", "unknown", "read_ok", "read_failed")
BUCKETS_S: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)

_COUNTERS: Final = {
    "fencegate_requests_total": (
        "Requests answered.",
        ("store", "dialect", "kind", "outcome"),
    ),
    "fencegate_rejections_total": (
        "Requests refused by a rule of the gateway, by error code without its fence_token_ prefix.",
        ("store", "reason"),
    ),
    "fencegate_shadow_rejections_total": (
        'Requests that passed, and that a rule with mode "shadow" would refuse if it enforced.',
        ("store", "reason"),
    ),
    "fencegate_raises_total": ("Marks raised.", ("store",)),
    "fencegate_outcome_unknown_total": ("Mutations whose outcome is unknown.", ("store",)),
    "fencegate_outcome_settled_total": (
        "Mutations answered as unknown of which it was found out later how they ended.",
        ("store", "outcome"),
    ),
    "fencegate_retries_total": (
        "Retries recognised by their key; answer is replayed, applied, refused or unknown.",
        ("store", "answer"),
    ),
    "fencegate_tokens_missing_total": (
        "Mutations without a token that passed unfenced, by a rule's on_missing_token.",
        ("store",),
    ),
    "fencegate_registry_ops_total": ("Registry operations, failed ones included.", ("op",)),
    "fencegate_registry_failures_total": ("Registry operations without an answer.", ("op",)),
    "fencegate_registry_regressed_total": ("Marks that the registry had forgotten.", ()),
    "fencegate_token_duplicates_total": ("Tokens seen in two hands; their marks are burnt.", ()),
    "fencegate_token_regressed_total": (
        "Seals by an issuer with a token below the mark: it has lost its counter.",
        (),
    ),
    "fencegate_resets_total": ("Scopes that began a new era with an empty mark.", ()),
    "fencegate_answered_after_lapse_total": (
        "Answers of a store that came after the membership had lapsed.",
        ("store",),
    ),
    "fencegate_faults_total": ("Errors that nobody foresaw; the gateway failed closed.", ()),
    "fencegate_rules_differ_total": (
        "Times this replica could not join, because another one derives scopes otherwise.",
        (),
    ),
    "fencegate_evictions_total": ("Silent replicas that this one has ended.", ()),
    "fencegate_registry_incarnations_total": (
        "Lives of the registry's engine that this replica met; more than one after a fail-over.",
        (),
    ),
    "fencegate_starts_total": ("Processes that began to serve; workers count one by one.", ()),
    "fencegate_reloads_total": (
        "Parts made anew at SIGHUP; outcome is done or failed.",
        ("part", "outcome"),
    ),
    "fencegate_issuer_key_reads_total": (
        "Reads of an issuer's public keys; outcome is done or failed.",
        ("issuer", "outcome"),
    ),
    "fencegate_lapses_total": ("Memberships lost and begun anew.", ()),
}
_HISTOGRAMS: Final = {
    "fencegate_request_seconds": ("Time to answer a request.", ("store", "kind")),
    "fencegate_drain_seconds": ("Time a raise waited for older tickets, in vain or not.", ()),
    "fencegate_registry_seconds": ("Time of a registry operation.", ("op",)),
    "fencegate_upstream_seconds": ("Time of an exchange with a store.", ("store",)),
    "fencegate_event_loop_lag_seconds": ("How late the event loop ran a timer.", ()),
}
_GAUGES: Final = {
    "fencegate_tickets_open": ("Admitted mutations that have not ended.", ("store",)),
}

CATALOGUE: Final = {**_COUNTERS, **_HISTOGRAMS, **_GAUGES}
"""Every metric with its help text and labels; the metrics reference is made from it."""


class _Counters:
    """The children of one counter by label values, bound when first needed."""

    __slots__ = ("_bound", "_metric")

    def __init__(self, name: str, registry: CollectorRegistry) -> None:
        text, labels = _COUNTERS[name]
        self._metric = Counter(name, text, labels, registry=registry)
        self._bound: dict[tuple[str, ...], Counter] = {}
        if not labels:
            self._bound[()] = self._metric

    def at(self, *labels: str) -> Counter:
        child = self._bound.get(labels)
        if child is None:
            child = self._bound[labels] = self._metric.labels(*labels)
        return child


class _Histograms:
    """The children of one histogram by label values, bound when first needed."""

    __slots__ = ("_bound", "_metric")

    def __init__(self, name: str, registry: CollectorRegistry) -> None:
        text, labels = _HISTOGRAMS[name]
        self._metric = Histogram(name, text, labels, registry=registry, buckets=BUCKETS_S)
        self._bound: dict[tuple[str, ...], Histogram] = {}
        if not labels:
            self._bound[()] = self._metric

    def at(self, *labels: str) -> Histogram:
        child = self._bound.get(labels)
        if child is None:
            child = self._bound[labels] = self._metric.labels(*labels)
        return child


class Metrics:
    """An observer that counts. `stores` are (name, dialect) pairs, so that series start at zero.

    With `shared_dir` (the value of PROMETHEUS_MULTIPROC_DIR at the start of the process) several
    processes count together: whichever is asked gives the sums, those of ended processes included
    (prometheus_client, "Multiprocess mode").
    """

    def __init__(
        self, stores: Iterable[tuple[str, str]] = (), shared_dir: str | None = None
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = CollectorRegistry()
        self._registry = registry
        self._shared_dir = shared_dir
        if shared_dir is None:
            ProcessCollector(registry=registry)
        self._requests = _Counters("fencegate_requests_total", registry)
        self._request_seconds = _Histograms("fencegate_request_seconds", registry)
        self._rejections = _Counters("fencegate_rejections_total", registry)
        self._shadowed = _Counters("fencegate_shadow_rejections_total", registry)
        self._raises = _Counters("fencegate_raises_total", registry)
        self._drain_seconds = _Histograms("fencegate_drain_seconds", registry)
        text, labels = _GAUGES["fencegate_tickets_open"]
        self._tickets = Gauge(
            "fencegate_tickets_open",
            text,
            labels,
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._unknown = _Counters("fencegate_outcome_unknown_total", registry)
        self._settled = _Counters("fencegate_outcome_settled_total", registry)
        self._retries = _Counters("fencegate_retries_total", registry)
        self._missing = _Counters("fencegate_tokens_missing_total", registry)
        self._registry_ops = _Counters("fencegate_registry_ops_total", registry)
        self._registry_failures = _Counters("fencegate_registry_failures_total", registry)
        self._registry_seconds = _Histograms("fencegate_registry_seconds", registry)
        self._upstream_seconds = _Histograms("fencegate_upstream_seconds", registry)
        self._lag = _Histograms("fencegate_event_loop_lag_seconds", registry)
        self._regressed = _Counters("fencegate_registry_regressed_total", registry)
        self._token_regressed = _Counters("fencegate_token_regressed_total", registry)
        self._resets = _Counters("fencegate_resets_total", registry)
        self._duplicates = _Counters("fencegate_token_duplicates_total", registry)
        self._after_lapse = _Counters("fencegate_answered_after_lapse_total", registry)
        self._starts = _Counters("fencegate_starts_total", registry)
        self._reloads = _Counters("fencegate_reloads_total", registry)
        self._issuer_keys = _Counters("fencegate_issuer_key_reads_total", registry)
        self._faults = _Counters("fencegate_faults_total", registry)
        self._rules_differ = _Counters("fencegate_rules_differ_total", registry)
        self._evictions = _Counters("fencegate_evictions_total", registry)
        self._incarnations = _Counters("fencegate_registry_incarnations_total", registry)
        self._lapses = _Counters("fencegate_lapses_total", registry)
        for name, dialect in stores:
            self._bind(name, dialect)

    def _bind(self, store: str, dialect: str) -> None:
        """Make the series of a store, so that a rate over its first event is not lost."""
        for kind in Kind:
            self._request_seconds.at(store, kind.value)
            for outcome in OUTCOMES:
                self._requests.at(store, dialect, kind.value, outcome)
        for code in Code:
            self._rejections.at(store, Problem(code, "").reason)
        self._tickets.labels(store)
        self._upstream_seconds.at(store)
        for outcome in ("applied", "refused"):
            self._settled.at(store, outcome)
        for answer in ("replayed", "applied", "refused", "unknown"):
            self._retries.at(store, answer)
        for counter in (self._raises, self._unknown, self._missing, self._after_lapse):
            counter.at(store)

    def emit(self, event: Event) -> None:
        """Count one event. The frequent ones stand first."""
        match event:
            case RequestFinished():
                self._requests.at(event.store, event.dialect, event.kind, event.outcome).inc()
                self._request_seconds.at(event.store, event.kind).observe(event.seconds)
            case UpstreamCalled(store, seconds):
                self._upstream_seconds.at(store).observe(seconds)
            case TicketsOpen(store, change):
                self._tickets.labels(store).inc(change)
            case RegistryCalled(op, seconds, ok, _):
                self._registry_ops.at(op).inc()
                self._registry_seconds.at(op).observe(seconds)
                failures = self._registry_failures.at(op)  # there from the first call on, at zero
                if not ok:
                    failures.inc()
            case Rejected(store, reason):
                self._rejections.at(store, reason).inc()
            case Raised(store):
                self._raises.at(store).inc()
            case Drained(_, seconds):
                self._drain_seconds.at().observe(seconds)
            case LoopLagged(seconds):
                self._lag.at().observe(seconds)
            case OutcomeLost(store):
                self._unknown.at(store).inc()
            case OutcomeSettled(store, _, _, outcome):
                self._settled.at(store, outcome).inc()
            case Retried(store, answer):
                self._retries.at(store, answer).inc()
            case ShadowRejected(store, reason):
                self._shadowed.at(store, reason).inc()
            case TokenMissing(store):
                self._missing.at(store).inc()
            case DuplicateFound():
                self._duplicates.at().inc()
            case TokenRegressed():
                self._token_regressed.at().inc()
            case ScopeReset():
                self._resets.at().inc()
            case RegistryRegressed():
                self._regressed.at().inc()
            case AnsweredAfterLapse(store):
                self._after_lapse.at(store).inc()
            case Lapsed():
                self._lapses.at().inc()
            case Faulted():
                self._faults.at().inc()
            case Evicted():
                self._evictions.at().inc()
            case RulesDiffer():
                self._rules_differ.at().inc()
            case Joined():
                self._incarnations.at().inc()
            case Started():
                self._starts.at().inc()
            case Reloaded(part):
                self._reloads.at(part, "done").inc()
            case ReloadFailed(part):
                self._reloads.at(part, "failed").inc()
            case IssuerKeysRead(issuer):
                self._issuer_keys.at(issuer, "done").inc()
            case IssuerKeysFailed(issuer):
                self._issuer_keys.at(issuer, "failed").inc()
            case _:
                assert_never(event)

    def exposition(self) -> bytes:
        """Give all series in Prometheus' text format."""
        if self._shared_dir is None:
            return generate_latest(self._registry)
        sums = CollectorRegistry()
        MultiProcessCollector(sums, path=self._shared_dir)  # type: ignore[no-untyped-call]
        return generate_latest(sums)
