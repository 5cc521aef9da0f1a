"""What happened, as values: logs, metrics and tests subscribe (CONTRIBUTING.md, habit 9)."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.model.mark import Mark, Scope
from gateway.model.stage import Stage
from gateway.model.trace import TraceContext


@dataclass(frozen=True, slots=True)
class RequestFinished:
    """One request was answered. `outcome` is a value of fencegate_requests_total's label.

    `code` is None when the store's own success was passed on. `bytes_in` counts body bytes.
    `stages` are those of a request that is observed; `slow` when it took longer than allowed.
    `ended_s` is on CLOCK_BOOTTIME, as `stages` are. `trace` has this request's own span;
    `parent_span_id` is that of the client's.
    """

    request_id: str
    store: str
    dialect: str
    kind: str
    outcome: str
    method: str
    path: str
    status: int
    seconds: float
    scope: str | None = None
    token: int | None = None
    holder: str | None = None
    mark: int | None = None
    code: str | None = None
    worker: str | None = None
    client: str | None = None
    bytes_in: int = 0
    replayed: bool = False
    retried: bool = False
    slow: bool = False
    stages: tuple[Stage, ...] = ()
    ended_s: float = 0.0
    trace: TraceContext | None = None
    parent_span_id: int | None = None
    shadow: str | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The gateway refused a request by a rule of its own. `reason` as in Problem.reason."""

    store: str
    reason: str


@dataclass(frozen=True, slots=True)
class ShadowRejected:
    """A rule with mode "shadow" would have refused a request that passed, had it been enforced."""

    store: str
    reason: str


@dataclass(frozen=True, slots=True)
class Raised:
    """A mark rose."""

    store: str
    scope: Scope
    before: Mark
    after: Mark


@dataclass(frozen=True, slots=True)
class Drained:
    """All lower registrations were gone after this long, or not (`complete` False)."""

    scope: Scope
    seconds: float
    complete: bool


@dataclass(frozen=True, slots=True)
class TicketsOpen:
    """The number of tickets of a store changed by `change`."""

    store: str
    change: int


@dataclass(frozen=True, slots=True)
class OutcomeLost:
    """A mutation ended as unknown."""

    store: str
    scope: Scope
    request_id: str


@dataclass(frozen=True, slots=True)
class OutcomeSettled:
    """It was found out, `seconds` later, how an unknown mutation ended: applied or refused."""

    store: str
    scope: Scope
    request_id: str
    outcome: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Retried:
    """A retry was recognised. `answer`: replayed (an earlier answer), or how it ended itself."""

    store: str
    answer: str


@dataclass(frozen=True, slots=True)
class TokenMissing:
    """A mutation without a token passed unfenced, because its rule allows that."""

    store: str


@dataclass(frozen=True, slots=True)
class DuplicateFound:
    """A token was seen in two hands: the issuer lost its counter. Logged as an error."""

    scope: Scope
    mark: Mark


@dataclass(frozen=True, slots=True)
class TokenRegressed:
    """An issuer sealed with a token below the mark: it has lost its counter. An error."""

    scope: Scope
    token: int
    mark: int


@dataclass(frozen=True, slots=True)
class ScopeReset:
    """A scope was drained and began a new era with an empty mark (rule 15)."""

    scope: Scope
    before: Mark
    after: Mark
    reason: str


@dataclass(frozen=True, slots=True)
class RegistryRegressed:
    """A witness stands above the registry's mark: the registry has forgotten. An error."""

    scope: Scope
    witness: Mark
    registry: Mark


@dataclass(frozen=True, slots=True)
class AnsweredAfterLapse:
    """The store answered after the membership had lapsed; the answer was reported (rule 6)."""

    store: str


@dataclass(frozen=True, slots=True)
class RegistryCalled:
    """One registry operation ended. `ok` False: it failed or timed out, and `error` says why."""

    op: str
    seconds: float
    ok: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class UpstreamCalled:
    """One exchange with a store ended."""

    store: str
    seconds: float


@dataclass(frozen=True, slots=True)
class LoopLagged:
    """The event loop ran a timer this much late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Lapsed:
    """This replica lost its membership, and will rejoin under a new generation."""

    generation: str


@dataclass(frozen=True, slots=True)
class Joined:
    """This replica met an incarnation of the registry; nothing counts as drained for `grace_s`."""

    incarnation: str
    grace_s: float


@dataclass(frozen=True, slots=True)
class Evicted:
    """A replica that had fallen silent was ended, and its registrations dropped."""

    replica: str
    generation: str


@dataclass(frozen=True, slots=True)
class RulesDiffer:
    """This replica cannot join: another member derives other scopes, or waits for other times."""

    terms: str


@dataclass(frozen=True, slots=True)
class Faulted:
    """Something nobody foresaw went wrong in `where`; the gateway failed closed. An error."""

    where: str
    error: str


@dataclass(frozen=True, slots=True)
class Started:
    """This process serves from now on. `policy` is the digest of what derives scopes."""

    policy: str


@dataclass(frozen=True, slots=True)
class Reloaded:
    """A part was made anew under way, at SIGHUP. `detail` tells what changed."""

    part: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class ReloadFailed:
    """A part could not be made anew, and goes on as it was. An error."""

    part: str
    error: str


@dataclass(frozen=True, slots=True)
class IssuerKeysRead:
    """The public keys of an issuer of tokens were read; there are `count`."""

    issuer: str
    count: int


@dataclass(frozen=True, slots=True)
class IssuerKeysFailed:
    """The public keys of an issuer could not be read; those of before stay for a day."""

    issuer: str
    error: str


Event = (
    RequestFinished
    | Rejected
    | ShadowRejected
    | Raised
    | Drained
    | TicketsOpen
    | OutcomeLost
    | OutcomeSettled
    | Retried
    | TokenMissing
    | DuplicateFound
    | TokenRegressed
    | ScopeReset
    | RegistryRegressed
    | AnsweredAfterLapse
    | RegistryCalled
    | UpstreamCalled
    | LoopLagged
    | Lapsed
    | Joined
    | Evicted
    | RulesDiffer
    | Faulted
    | Started
    | Reloaded
    | ReloadFailed
    | IssuerKeysRead
    | IssuerKeysFailed
)
