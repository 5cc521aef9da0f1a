"""From a machine's reason to the problem a worker reads: says what won and what to change."""

from __future__ import annotations

import math
from typing import Final, assert_never

from gateway.machines.fence_state import Why
from gateway.model.mark import Mark, Scope
from gateway.model.problem import Code, Problem
from gateway.model.token import MAX_TOKEN

_AT_THE_END: Final = (
    f"its mark is {MAX_TOKEN}, the last token that there is; nobody newer gets in until an admin"
    " resets the scope (fencegate scopes reset, POST /v1/reset)"
)


def stale(scope: Scope, token: int | None, mark: Mark) -> Problem:
    """The token is below the mark: somebody else holds the lease now.

    None was to be the next one, of which there is none behind the last.
    """
    below = f"token {token} is below the mark {mark.token} of scope {scope}"
    if token is None:
        text = f"no next token can be issued for scope {scope}: {_AT_THE_END}"
    elif mark.token >= MAX_TOKEN:
        text = f"{below}, and {_AT_THE_END}"
    else:
        text = f"{below}: a newer holder has written or sealed; stop, and acquire the lease again"
    return Problem(
        Code.TOKEN_STALE,
        text,
        details=_figures(scope, token, mark),
        mark=mark.token,
    )


def regressed(scope: Scope, token: int, mark: int) -> Problem:
    """The issuer itself brings a token below the mark: it has lost its counter."""
    go_on = (
        _AT_THE_END
        if mark >= MAX_TOKEN
        else f"let it go on from {mark + 1} (GET /v1/scopes?name= tells the floor), and issue no"
        " token below"
    )
    return Problem(
        Code.TOKEN_REGRESSED,
        f"token {token} is below the mark {mark} of scope {scope}, and it is its issuer that seals"
        f" with it: the issuer has lost its counter; {go_on}",
        details=f"scope={scope} token={token} mark={mark}",
        mark=mark,
    )


def duplicate(scope: Scope, token: int | None, mark: Mark) -> Problem:
    """The token is in two hands; both are refused until a higher one arrives."""
    until = (
        _AT_THE_END if mark.token >= MAX_TOKEN else "both are refused until a higher token arrives"
    )
    return Problem(
        Code.TOKEN_DUPLICATE,
        f"token {token} of scope {scope} is in the hands of two holders: {until}; check the"
        " counter of the lease service",
        details=_figures(scope, token, mark),
    )


def implausible(scope: Scope, token: int | None) -> Problem:
    """The token would raise the mark by more than the rule's max_jump. The mark is not told."""
    return Problem(
        Code.TOKEN_IMPLAUSIBLE,
        f"token {token} would raise the mark of scope {scope} by more than the rule's max_jump, so"
        " it is taken for a mistake and was not learnt: check the counter of the lease service; if"
        " the number is right, an admin can seal the scope with it",
        details=f"scope={scope} token={token}",
    )


def _figures(scope: Scope, token: int | None, mark: Mark) -> str:
    return f"scope={scope} token={token} mark={mark.token}"


def refusal(why: Why, scope: Scope, token: int | None, mark: Mark, wait_s: float) -> Problem:
    """The problem for a ticket that the fence machine refused. `wait_s` is the advised pause."""
    retry_after_s = max(1, math.ceil(wait_s))
    match why:
        case Why.STALE:
            return stale(scope, token, mark)
        case Why.DUPLICATE:
            return duplicate(scope, token, mark)
        case Why.IMPLAUSIBLE:
            return implausible(scope, token)
        case Why.NOT_DRAINED:
            return Problem(
                Code.NOT_DRAINED,
                f"scope {scope} is still draining writes below mark {mark.token};"
                " nothing was written: retry with the same token",
                retry_after_s=retry_after_s,
            )
        case Why.LAPSED | Why.UNAVAILABLE:
            return Problem(
                Code.REGISTRY_UNAVAILABLE,
                "the registry of marks cannot be reached, so nothing was written:"
                " retry with the same token",
                retry_after_s=retry_after_s,
            )
        case _:
            assert_never(why)


def key_reused() -> Problem:
    """One key for two requests: whatever the client means, it is not a retry."""
    return Problem(
        Code.KEY_REUSED,
        "this Idempotency-Key (or amz-sdk-invocation-id) was used in this lease for another"
        " request: with another method, resource or content. Nothing was written: send a new key"
        " with each new request, and the same one only with its retries",
    )


def still_unknown(now: Problem | None) -> Problem:
    """A retry was refused, or not sent, while an earlier attempt may have been applied."""
    what = "it was not sent again" if now is None else f"this one was refused: {now.message}"
    return Problem(
        Code.OUTCOME_UNKNOWN,
        f"whether an earlier attempt at this request took effect is not known yet; {what}",
        retry_after_s=1 if now is None else now.retry_after_s,
    )


def interrupted(scope: Scope) -> Problem:
    """The write failed in an unforeseen way after the gate."""
    return Problem(
        Code.OUTCOME_UNKNOWN,
        f"the answer of the store was lost; whether the write took effect in scope {scope} is"
        " not known: read the resource before you write again",
    )


def never_seen(scope: str) -> Problem:
    """Nobody has ever claimed this scope."""
    return Problem(
        Code.NOT_FOUND, f"no token was ever seen for the scope {scope}; check the spelling"
    )
