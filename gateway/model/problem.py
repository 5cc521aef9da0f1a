"""The error catalogue: every code the gateway answers for itself, with its status.

Source: wire contract, "Answers of the gateway itself". Dialects give the codes their own shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gateway.model.reply import Relay


class Code(StrEnum):
    """Error codes, the same in every dialect."""

    TOKEN_REQUIRED = "fence_token_required"
    TOKEN_MALFORMED = "fence_token_malformed"
    SCOPE_UNDETERMINED = "fence_scope_undetermined"
    TOKEN_STALE = "fence_token_stale"
    TOKEN_REGRESSED = "fence_token_regressed"
    TOKEN_DUPLICATE = "fence_token_duplicate"
    TOKEN_FORGED = "fence_token_forged"
    TOKEN_UNSIGNED = "fence_token_unsigned"
    TOKEN_EXPIRED = "fence_token_expired"
    TOKEN_OTHER_SCOPE = "fence_token_other_scope"
    TOKEN_IMPLAUSIBLE = "fence_token_implausible"
    PRECONDITION_FAILED = "precondition_failed"
    CHANGED_UNDERNEATH = "changed_underneath"
    REGISTRY_UNAVAILABLE = "registry_unavailable"
    NOT_DRAINED = "not_drained"
    BUSY = "busy"
    REQUEST_MALFORMED = "request_malformed"
    REQUEST_TIMEOUT = "request_timeout"
    BODY_TOO_LARGE = "body_too_large"
    UNKNOWN_HOST = "unknown_host"
    HEAD_TOO_LARGE = "head_too_large"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_FENCED = "operation_not_fenced"
    UPSTREAM_FAILED = "upstream_failed"
    UPSTREAM_REFUSED = "upstream_refused"
    OUTCOME_UNKNOWN = "outcome_unknown"
    KEY_REUSED = "idempotency_key_reused"
    NOT_FOUND = "not_found"
    UNAUTHENTICATED = "unauthenticated"
    ACCESS_DENIED = "access_denied"
    CONDITION_UNSUPPORTED = "condition_unsupported"
    NOT_SATISFIABLE = "range_not_satisfiable"
    NOT_ACCEPTABLE = "not_acceptable"
    CONFLICT = "conflict"
    AUDIT_FAILED = "audit_failed"
    INTERNAL = "internal_error"


STATUS: Final = MappingProxyType(
    {
        Code.TOKEN_REQUIRED: 428,
        Code.TOKEN_MALFORMED: 400,
        Code.SCOPE_UNDETERMINED: 400,
        Code.TOKEN_STALE: 412,
        Code.TOKEN_REGRESSED: 412,
        Code.TOKEN_DUPLICATE: 409,
        Code.TOKEN_FORGED: 403,
        Code.TOKEN_UNSIGNED: 403,
        Code.TOKEN_EXPIRED: 403,
        Code.TOKEN_OTHER_SCOPE: 403,
        Code.TOKEN_IMPLAUSIBLE: 403,
        Code.PRECONDITION_FAILED: 412,
        Code.CHANGED_UNDERNEATH: 409,
        Code.REGISTRY_UNAVAILABLE: 503,
        Code.NOT_DRAINED: 503,
        Code.BUSY: 503,
        Code.REQUEST_MALFORMED: 400,
        Code.REQUEST_TIMEOUT: 408,
        Code.BODY_TOO_LARGE: 413,
        Code.UNKNOWN_HOST: 421,
        Code.HEAD_TOO_LARGE: 431,
        Code.METHOD_NOT_ALLOWED: 405,
        Code.NOT_FENCED: 501,
        Code.UPSTREAM_FAILED: 502,
        Code.UPSTREAM_REFUSED: 502,
        Code.OUTCOME_UNKNOWN: 504,
        Code.KEY_REUSED: 422,
        Code.NOT_FOUND: 404,
        Code.UNAUTHENTICATED: 401,
        Code.ACCESS_DENIED: 403,
        Code.CONDITION_UNSUPPORTED: 501,
        Code.NOT_SATISFIABLE: 416,
        Code.NOT_ACCEPTABLE: 406,
        Code.CONFLICT: 409,
        Code.AUDIT_FAILED: 503,
        Code.INTERNAL: 500,
    }
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One error answer.

    `message` says what to change. `native` is the dialect's own code for it where the dialect has
    one ("NoSuchKey", "PGRST205", SQLSTATE); `status` overrides the catalogue's where the dialect's
    table says so. `retry_after_s` becomes Retry-After. `details` is free text with the figures.
    `mark` is told on a stale refusal only. `close`: the connection must be closed after it.
    `relay` is the store's own answer, which a dialect that can pass it on prefers. `total` is how
    much there is where a range asked for what is not (RFC 9110, section 15.5.17).
    """

    code: Code
    message: str
    native: str | None = None
    status_override: int | None = None
    retry_after_s: int | None = None
    details: str | None = None
    hint: str | None = None
    mark: int | None = None
    close: bool = False
    allow: str | None = None
    relay: Relay | None = None
    total: int | None = None

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return self.status_override or STATUS[self.code]

    @property
    def reason(self) -> str:
        """The `reason` label of fencegate_rejections_total: the code without `fence_token_`."""
        return self.code.value.removeprefix("fence_token_")
