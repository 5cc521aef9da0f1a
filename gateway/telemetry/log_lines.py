"""Every line that the log can hold: its level, when it is written, and its fields.

The log takes the levels from here, and docs/reference/logs.md is made from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Level = Literal["info", "warning", "error"]
FieldType = Literal["text", "integer", "number", "boolean", "mark", "object"]


@dataclass(frozen=True, slots=True)
class LogField:
    """One field of a line. `optional`: it is left out where it is not known."""

    name: str
    type: FieldType
    meaning: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class LogLine:
    """One kind of line."""

    level: Level
    when: str
    fields: tuple[LogField, ...]


def _known(name: str, kind: FieldType, meaning: str) -> LogField:
    return LogField(name, kind, meaning, optional=True)


FIRST: Final = (
    LogField("at", "text", "Time of writing, UTC, ISO 8601 with microseconds."),
    LogField("level", "text", "`info`, `warning` or `error`."),
    LogField("event", "text", "The kind of the line: one of the names below."),
)
"""What every line begins with, in this order."""

MARK: Final = (
    LogField("era", "integer", "Era of the scope: it rises with a reset."),
    LogField("token", "integer", "The highest token seen, 0 for none yet."),
    _known("burnt", "boolean", "`true`: the token was seen in two hands and admits nobody."),
    _known("holder", "text", "The holder that the token is bound to."),
)
"""The fields of an object of type mark."""

_STORE: Final = LogField("store", "text", "Name of the store.")
_SCOPE: Final = LogField("scope", "text", "The scope.")
_HINT: Final = LogField("hint", "text", "What to look at.")
_OP: Final = LogField("op", "text", "The operation, as the label `op` of the metrics.")
_ID: Final = LogField("request_id", "text", "The `X-Request-Id` of the answer.")

_DETAIL: Final = _known("detail", "text", "What changed, rule by rule, and the digest.")
_PART: Final = LogField("part", "text", "`policy`, `tls` or `issuer_keys`.")
_ERROR: Final = LogField("error", "text", "The error, redacted.")

_REQUEST: Final = (
    _ID,
    LogField("store", "text", "Name of the store; empty when no store was meant."),
    LogField("dialect", "text", "`http`, `s3`, `rows`, or `control` for the control API."),
    LogField(
        "kind",
        "text",
        "`read`, `write`, `delete` or `list`; guessed from the method when not understood.",
    ),
    LogField("outcome", "text", "`applied`, `refused`, `unknown`; `read_ok`, `read_failed`."),
    LogField("method", "text", "The method; empty when the head was not complete."),
    LogField("path", "text", "The raw path, without its query."),
    LogField("status", "integer", "The status of the answer."),
    LogField("ms", "number", "Milliseconds from the complete head to the end of the answer."),
    _known("scope", "text", "The scope that it was fenced in."),
    _known("token", "integer", "The token that it carried."),
    _known("holder", "text", "The holder that it named."),
    _known("mark", "integer", "The token of the mark that refused it as stale."),
    _known("code", "text", "The error code; absent when the store's success was passed on."),
    _known("worker", "text", "Id of the key that authenticated it."),
    _known("client", "text", "Address of the client's end of the connection."),
    _known("bytes_in", "integer", "Bytes of the body that arrived."),
    _known("replayed", "boolean", "`true`: the answer of an earlier attempt, told again."),
    _known("retried", "boolean", "`true`: it named a request that was known already."),
    _known("shadow", "text", "What a shadow rule would refuse it for, if it enforced: `stale`, …"),
    _known("trace_id", "text", "Its trace, 32 hexadecimal digits, where traces are on."),
    _known("slow", "boolean", "`true`: it took `slow_request_ms` or longer; level `warning`."),
    _known("stages_ms", "object", "Slow requests: milliseconds by stage, see below."),
)

LINES: Final[Mapping[str, LogLine]] = MappingProxyType(
    {
        "request": LogLine("info", "A request was answered.", _REQUEST),
        "mark_raised": LogLine(
            "info",
            "A higher token came, and its mark is durable.",
            (
                LogField("store", "text", "Name of the store; empty for a seal."),
                _SCOPE,
                LogField("before", "mark", "The mark until now."),
                LogField("after", "mark", "The mark from now on."),
            ),
        ),
        "not_drained": LogLine(
            "warning",
            "A raise waited in vain for older writes.",
            (_SCOPE, LogField("seconds", "number", "How long it waited, in seconds.")),
        ),
        "outcome_unknown": LogLine(
            "warning", "The answer to a mutation was lost.", (_STORE, _SCOPE, _ID)
        ),
        "outcome_settled": LogLine(
            "warning",
            "What became of a mutation whose answer was lost is known by now.",
            (
                _STORE,
                _SCOPE,
                _ID,
                LogField("outcome", "text", "`applied` or `refused`."),
                LogField("seconds", "number", "How long it was unknown, in seconds."),
            ),
        ),
        "token_duplicate": LogLine(
            "error",
            "A token was seen in two hands; its mark is burnt.",
            (_SCOPE, LogField("mark", "mark", "The burnt mark."), _HINT),
        ),
        "token_regressed": LogLine(
            "error",
            "An issuer sealed with a token below the mark.",
            (
                _SCOPE,
                LogField("token", "integer", "The issuer's token."),
                LogField("mark", "integer", "The token of the mark: the floor."),
                _HINT,
            ),
        ),
        "scope_reset": LogLine(
            "warning",
            "An admin had a scope drained, and a new era of it has begun.",
            (
                _SCOPE,
                LogField("reason", "text", "The admin's reason."),
                LogField("before", "mark", "The mark of the older era."),
                LogField("after", "mark", "The empty mark of the new one."),
            ),
        ),
        "registry_regressed": LogLine(
            "error",
            "The registry has forgotten a mark that a store or a replica proves.",
            (
                _SCOPE,
                _HINT,
                LogField("witness", "mark", "The mark that is proved."),
                LogField("registry", "mark", "The mark that the registry had."),
            ),
        ),
        "answered_after_lapse": LogLine(
            "warning", "A store answered after this replica's membership had ended.", (_STORE,)
        ),
        "membership_lapsed": LogLine(
            "warning",
            "This replica could not renew its membership, and joins anew.",
            (LogField("generation", "text", "The generation that ended."),),
        ),
        "registry_met": LogLine(
            "warning",
            "The registry began a new life (a restart, a fail-over).",
            (
                LogField("incarnation", "text", "Id of that life."),
                LogField("grace_s", "number", "Seconds in which nothing counts as drained."),
                _HINT,
            ),
        ),
        "replica_evicted": LogLine(
            "warning",
            "A replica that had fallen silent was ended by this one.",
            (
                LogField("replica", "text", "Its id."),
                LogField("generation", "text", "Its generation."),
            ),
        ),
        "rules_differ": LogLine(
            "error",
            "This replica cannot join: another one has other scopes, times or stamp_key.",
            (
                LogField("terms", "text", "Its digest of rules, member_ttl_ms and settle_ms."),
                _HINT,
            ),
        ),
        "fault": LogLine(
            "error",
            "Something that nobody foresaw; the gateway failed closed.",
            (
                LogField("where", "text", "What was being done."),
                _ERROR,
            ),
        ),
        "issuer_keys_failed": LogLine(
            "warning",
            "The public keys of an issuer of tokens could not be read.",
            (LogField("issuer", "text", "Name of the issuer."), _ERROR, _HINT),
        ),
        "started": LogLine(
            "info",
            "This process serves from now on; one line a worker.",
            (LogField("policy", "text", "Digest of what derives scopes, as `/readyz` has it."),),
        ),
        "reloaded": LogLine("info", "A part was read anew at SIGHUP.", (_PART, _DETAIL)),
        "reload_failed": LogLine(
            "error",
            "A part could not be read anew at SIGHUP; the one of before stays.",
            (_PART, _ERROR, _HINT),
        ),
        "registry_failed": LogLine(
            "error",
            "An operation of the registry began to fail; told once an outage.",
            (
                _OP,
                LogField("seconds", "number", "How long the first failure took, in seconds."),
                _ERROR,
            ),
        ),
        "registry_back": LogLine("warning", "An operation of the registry works again.", (_OP,)),
        "log_lines_dropped": LogLine(
            "warning",
            "Whoever reads the log was too slow. The one line without `at`.",
            (LogField("count", "integer", "Lines that were dropped."),),
        ),
    }
)
"""Every kind of line by its name."""

STAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "parse": "Understanding the request and authenticating it; for rows, its body too.",
        "look": "Reading version and stamp of the object before admission.",
        "admit": "Waiting for admission, the next two included.",
        "claim": "The registry's answer to a claim that this request sent.",
        "drain": "Waiting for older writes, in a raise that this request caused.",
        "gate": "From the begin of the write to the last check: the body on its way to the store.",
        "upstream": "The store's answer: since the last check for a write, all of it for a read.",
        "settle": "From the store's answer to the outcome, where a witness had to be looked at.",
        "answer": "Sending the answer, the body of a read included.",
    }
)
"""The stages of a request, in order; `stages_ms` has those that it met."""
