"""The log: one canonical line a request, and a line for what an operator must know.

JSON, or readable text on a terminal. No credential, no signature, no query ever gets in: a path is
cut at its query, and foreign texts are redacted (facts: pREST logged credentials).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, assert_never

import structlog
from structlog.typing import EventDict, Processor

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
from gateway.model.mark import Mark
from gateway.model.stage import Stage
from gateway.telemetry.log_lines import LINES, STAGES
from gateway.telemetry.log_sink import LogSink

_SECRETS: Final = re.compile(
    r"(?i)((?:x-amz-)?(?:signature|credential|security-token)\s*[=:]\s*|//[^/@\s:]*:"
    r"|authorization['\"]?\s*[:=,]\s*b?['\"]?(?:[a-z0-9-]+\s+)?|bearer\s+)[^\s&,'\"@]+"
)
_ALWAYS: Final = ("request_id", "store", "dialect", "kind", "outcome", "method", "path", "status")
_WHEN_KNOWN: Final = (
    *("scope", "token", "holder", "mark", "code", "worker", "client"),
    *("bytes_in", "replayed", "retried", "shadow"),
)


def redacted(text: str) -> str:
    """Take signatures, credentials and tokens out of a text that somebody else wrote."""
    return _SECRETS.sub(r"\1***", text)


class Log:
    """An observer that writes lines to a sink. `readable` chooses text instead of JSON."""

    def __init__(self, sink: LogSink, *, readable: bool = False) -> None:
        self._log = structlog.wrap_logger(
            _Lines(sink),
            processors=_processors(readable),
            wrapper_class=structlog.BoundLogger,
            cache_logger_on_first_use=True,
        )
        self._failing_ops: set[str] = set()

    def note(self, text: str, **fields: object) -> None:
        """Tell something about the process itself: start, stop, what is served where."""
        self._log.info(text, **fields)

    def emit(self, event: Event) -> None:
        """Write the line of one event; most events are for the metrics alone."""
        match event:
            case RequestFinished():
                write = self._log.warning if event.slow else self._log.info
                write("request", **_request_fields(event))
            case Raised(store, scope, before, after):
                fields = {"before": _mark(before), "after": _mark(after)}
                self._line("mark_raised", store=store, scope=scope, **fields)
            case Drained(scope, seconds, complete):
                if not complete:
                    self._line("not_drained", scope=scope, seconds=round(seconds, 3))
            case OutcomeLost(store, scope, request_id):
                self._line("outcome_unknown", store=store, scope=scope, request_id=request_id)
            case OutcomeSettled():
                self._line(
                    "outcome_settled",
                    store=event.store,
                    scope=event.scope,
                    request_id=event.request_id,
                    outcome=event.outcome,
                    seconds=round(event.seconds, 3),
                )
            case DuplicateFound() | TokenRegressed() | ScopeReset() | RegistryRegressed():
                self._out_of_order(event)
            case AnsweredAfterLapse(store):
                self._line("answered_after_lapse", store=store)
            case Lapsed(generation):
                self._line("membership_lapsed", generation=generation)
            case Joined(incarnation, grace_s):
                if grace_s > 0:
                    hint = "raises wait until nothing of an earlier life of the registry can land"
                    grace_s = round(grace_s, 3)
                    self._line("registry_met", incarnation=incarnation, grace_s=grace_s, hint=hint)
            case Evicted(replica, generation):
                self._line("replica_evicted", replica=replica, generation=generation)
            case RulesDiffer(terms):
                hint = "give all the same policy and stamp_key; it joins when the others have left"
                self._line("rules_differ", terms=terms, hint=hint)
            case Faulted(where, error):
                self._line("fault", where=redacted(where), error=redacted(error))
            case IssuerKeysFailed(issuer, error):
                hint = "its tokens are verified with the keys of before, for a day at most"
                self._line("issuer_keys_failed", issuer=issuer, error=redacted(error), hint=hint)
            case Started(policy):
                self._line("started", policy=policy)
            case Reloaded(part, detail):
                known = {} if detail is None else {"detail": detail}
                self._line("reloaded", part=part, **known)
            case ReloadFailed(part, error):
                hint = "nothing changed; mend it and send SIGHUP again"
                self._line("reload_failed", part=part, error=redacted(error), hint=hint)
            case RegistryCalled():
                self._registry_called(event)
            case Rejected() | Retried() | TicketsOpen() | UpstreamCalled() | LoopLagged():
                pass
            case IssuerKeysRead() | TokenMissing() | ShadowRejected():
                pass
            case _:
                assert_never(event)

    def _line(self, event: str, **fields: object) -> None:
        """Write a line of the catalogue, at its level."""
        write: Callable[..., None] = getattr(self._log, LINES[event].level)
        write(event, **fields)

    def _out_of_order(
        self, event: DuplicateFound | TokenRegressed | ScopeReset | RegistryRegressed
    ) -> None:
        """A mark that does not simply rise: somebody lost a count, or an admin reset it."""
        match event:
            case DuplicateFound(scope, mark):
                hint = "the issuer of tokens gave one number to two holders"
                self._line("token_duplicate", scope=scope, mark=_mark(mark), hint=hint)
            case TokenRegressed(scope, token, at):
                hint = "the issuer of tokens has lost its counter: let it go on above the mark"
                self._line("token_regressed", scope=scope, token=token, mark=at, hint=hint)
            case ScopeReset(scope, before, after, reason):
                fields = {"before": _mark(before), "after": _mark(after)}
                self._line("scope_reset", scope=scope, reason=reason, **fields)
            case RegistryRegressed(scope, witness, registry):
                fields = {"witness": _mark(witness), "registry": _mark(registry)}
                hint = "the registry has forgotten this mark; was it restored from a backup?"
                self._line("registry_regressed", scope=scope, hint=hint, **fields)
            case _:
                assert_never(event)

    def _registry_called(self, event: RegistryCalled) -> None:
        """Tell when an operation begins to fail and when it works again, not every failure."""
        op = event.op
        if event.ok and op in self._failing_ops:
            self._failing_ops.discard(op)
            self._line("registry_back", op=op)
        elif not event.ok and op not in self._failing_ops:
            self._failing_ops.add(op)
            seconds, error = round(event.seconds, 3), redacted(event.error)
            self._line("registry_failed", op=op, seconds=seconds, error=error)


def _request_fields(event: RequestFinished) -> dict[str, object]:
    fields: dict[str, object] = {name: getattr(event, name) for name in _ALWAYS}
    fields["path"] = event.path.partition("?")[0]
    fields["ms"] = round(event.seconds * 1000, 3)
    for name in _WHEN_KNOWN:
        value = getattr(event, name)
        if value:
            fields[name] = value
    if event.trace is not None:
        fields["trace_id"] = f"{event.trace.trace_id:032x}"
    if event.slow:
        fields["slow"] = True
        fields["stages_ms"] = stages_ms(event.stages)
    return fields


def stages_ms(stages: Iterable[Stage]) -> dict[str, float]:
    """Milliseconds by stage, in the order of a request's way; several of one name add up."""
    spent_s = dict.fromkeys(STAGES, 0.0)
    for stage in stages:
        began_s = stage.began_s
        if stage.gated_s is not None:
            spent_s["gate"] += stage.gated_s - began_s
            began_s = stage.gated_s
        spent_s[stage.name] = spent_s.get(stage.name, 0.0) + stage.ended_s - began_s
    return {name: round(spent * 1000, 3) for name, spent in spent_s.items() if spent}


def _mark(mark: Mark) -> dict[str, object]:
    fields: dict[str, object] = {"era": mark.era, "token": mark.token}
    if mark.burnt:
        fields["burnt"] = True
    if mark.holder is not None:
        fields["holder"] = mark.holder
    return fields


def _processors(readable: bool) -> list[Processor]:
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True, key="at")
    return [structlog.processors.add_log_level, stamp, _as_text if readable else _as_json]


def _as_json(_logger: Any, _method: str, fields: EventDict) -> str:
    """One JSON object; what a reader looks for first stands first."""
    first = {name: fields.pop(name) for name in ("at", "level", "event")}
    return json.dumps({**first, **fields}, default=str, separators=(",", ":"))


def _as_text(_logger: Any, _method: str, fields: EventDict) -> str:
    """One line for a person. Control characters of a client must not reach the terminal."""
    at, level = str(fields.pop("at")), fields.pop("level")
    event = fields.pop("event")
    level = "" if level == "info" else f"{level.upper()} "
    known = " ".join(f"{name}={value}" for name, value in fields.items())
    line = f"{at[11:23]}  {level}{event}  {known}".rstrip()
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


class _Lines:
    """What structlog calls: every level ends as a line in the sink."""

    def __init__(self, sink: LogSink) -> None:
        write: Callable[[bytes], None] = sink.write

        def line(text: str) -> None:
            write(text.encode("utf-8", "backslashreplace") + b"\n")

        self.info = self.warning = self.error = line
