"""The rules of a policy: what each one matches, and how that is fenced."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import ConfigDict, Field, Strict

from gateway.model.token import MAX_TOKEN
from gateway.policy.kinds import CLOSED, Text

KNOWN_METHODS: Final = frozenset(
    {
        *("GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"),  # RFC 9110 and 5789
        *("PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK"),  # RFC 4918
        *("REPORT", "SEARCH", "ACL", "MKCALENDAR"),  # RFC 3253, 5323, 3744, 4791
    }
)
"""What `methods` may name. OPTIONS is always answered, TRACE and CONNECT never pass."""


class Mode(StrEnum):
    """Whether a rule fences."""

    ENFORCE = "enforce"
    SHADOW = "shadow"
    OFF = "off"


class Reads(StrEnum):
    """What a read that carries a token does."""

    CHECK = "check"
    SEAL = "seal"
    IGNORE = "ignore"


class OnMissingToken(StrEnum):
    """What becomes of a mutation without a token."""

    REFUSE = "refuse"
    ALLOW_AND_COUNT = "allow-and-count"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """One rule: what it matches, and how that is fenced. The first match wins."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    match: Annotated[
        Text,
        Field(
            description='Path as the client sends it: "/files/reports/{team}/{rest*}". {x} is one '
            "segment, {x*} the rest."
        ),
    ]
    store: Annotated[Text | None, Field(description="The store; absent: any.")] = None
    scope: Annotated[
        Text | None,
        Field(
            description='Name of the shared scope, such as "reports/{team}"; absent: each resource '
            "is its own."
        ),
    ] = None
    mode: Annotated[
        Mode,
        Field(
            description='"shadow" lets everything pass unfenced, and counts what "enforce" would '
            'refuse; "off" lets requests pass unfenced, without a look at the token.'
        ),
    ] = Mode.ENFORCE
    reads: Annotated[
        Reads,
        Field(
            description='Reads with a token: "check" refuses one that is known to be stale, "seal" '
            'raises and drains first, "ignore" does not look.'
        ),
    ] = Reads.CHECK
    methods: Annotated[
        tuple[Text, ...] | None,
        Field(
            description='The methods that are let through, such as ["GET", "PUT"]; GET lets HEAD '
            "through too. Every other one is answered 405. Absent: all that the store knows."
        ),
    ] = None
    on_missing_token: Annotated[
        OnMissingToken,
        Field(
            description='A change without a token: "refuse" answers 428; "allow-and-count" lets it '
            "pass unfenced and counts it: it can overwrite what a holder writes at the same time."
        ),
    ] = OnMissingToken.REFUSE
    max_jump: Annotated[
        int | None,
        Strict(),
        Field(
            ge=1,
            le=MAX_TOKEN,
            description="The most that a token may lie above the mark; beyond it is refused with "
            "403 and not learnt. A scope's first token may be any.",
        ),
    ] = None
    signed: Annotated[bool, Strict(), Field(description="Tokens must carry a valid signature.")] = (
        False
    )
    # Its file and line, from the loader.
    where: str = field(default="", compare=False)

    def allows(self, method: str) -> bool:
        """True when a method may pass; HEAD is part of GET (RFC 9110, section 9.1)."""
        if self.methods is None or method in self.methods:
            return True
        return method == "HEAD" and "GET" in self.methods
