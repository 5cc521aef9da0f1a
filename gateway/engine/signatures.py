"""Whether a request's token is signed as its rule asks (wire contract, "Requests")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, assert_never

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.model.mark import Scope
from gateway.model.operation import Operation
from gateway.model.problem import Code, Problem
from gateway.model.signed_token import Flaw, KeyId, Proved, prove
from gateway.model.token import SignedToken
from gateway.policy.decide import Permit
from gateway.policy.document import Mode

_MOST_KNOWN: Final = 10_000
_FOREVER_S: Final = float("inf")


class Signatures:
    """Checks signatures, and remembers those that held: a holder sends its token many times."""

    def __init__(self, keys: Mapping[KeyId, Ed25519PublicKey], wall_s: Callable[[], float]) -> None:
        self._keys = keys
        self._wall_s = wall_s
        self._known: dict[tuple[int, bytes, Scope], float] = {}

    def take(self, keys: Mapping[KeyId, Ed25519PublicKey]) -> None:
        """Check with these keys from now on; what others had signed is checked again."""
        self._keys = keys
        self._known.clear()

    def judged(self, operation: Operation, permit: Permit | Problem) -> Permit | Problem:
        """The permit, or what the operation is refused with because of its token's signature."""
        if isinstance(permit, Problem) or permit.scope is None or operation.token is None:
            return permit
        problem = self._problem(operation, permit, permit.scope)
        if problem is None:
            return permit
        if permit.mode is Mode.SHADOW:
            return permit if permit.would_be is not None else replace(permit, would_be=problem)
        return problem

    def _problem(self, operation: Operation, permit: Permit, scope: Scope) -> Problem | None:
        token = operation.token
        assert token is not None
        if isinstance(token, SignedToken):
            if not self._keys:
                return _not_here()
            return self._check(token, scope)
        if permit.rule is not None and permit.rule.signed:
            return _unsigned()
        return None

    def _check(self, token: SignedToken, scope: Scope) -> Problem | None:
        known, now_s = (int(token), token.proof, scope), self._wall_s()
        until_s = self._known.get(known)
        if until_s is not None and now_s < until_s:
            return None
        found = prove(int(token), token.proof, scope, self._keys, now_s)
        if isinstance(found, Flaw):
            return _flawed(found, scope)
        self._remember(known, found)
        return None

    def _remember(self, known: tuple[int, bytes, Scope], found: Proved) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[known] = _FOREVER_S if found.expires_s is None else found.expires_s


def _not_here() -> Problem:
    return Problem(
        Code.TOKEN_MALFORMED,
        "X-Fence-Token is in the signed form, but this gateway has no keys to check it with: send"
        " digits only, or add [[tokens.keys]] to the policy",
    )


def _unsigned() -> Problem:
    return Problem(
        Code.TOKEN_UNSIGNED,
        "X-Fence-Token must be in the signed form here, <digits>.<signature>, as the lease service"
        " gave it",
    )


def _flawed(flaw: Flaw, scope: Scope) -> Problem:
    match flaw:
        case Flaw.FORGED:
            return Problem(
                Code.TOKEN_FORGED,
                "the signature of X-Fence-Token does not hold: no key of this gateway has signed it"
                " as it is; send the token unchanged, and check [[tokens.keys]] after a change of"
                " the issuer's key",
            )
        case Flaw.OTHER_SCOPE:
            return Problem(
                Code.TOKEN_OTHER_SCOPE,
                f"X-Fence-Token was signed for another scope than {scope}: acquire the lease of"
                " this one",
            )
        case Flaw.EXPIRED:
            return Problem(
                Code.TOKEN_EXPIRED,
                "the signature of X-Fence-Token has expired: acquire the lease again",
            )
        case _:
            assert_never(flaw)
