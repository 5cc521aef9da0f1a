"""The verdict on a JSON Web Token: whose it is, and what it grants (RFC 7519, RFC 8725).

The issuer that a token names is looked up in the policy, the key that it names in that issuer's key
set, and only then is the signature checked, by the algorithm of the key. Time comes with the
request. What was verified once is remembered, by digest, until it expires or the keys change.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
from jwt.types import Options

from gateway.identity.key_set import KeySet
from gateway.model.problem import Code, Problem
from gateway.model.scope_pattern import ScopePattern, scope_pattern
from gateway.model.worker import Grant
from gateway.policy.auth_settings import METHODS
from gateway.policy.issuer_settings import IssuerSettings

_MAX_BYTES: Final = 8_192
_MAX_LISTED: Final = 64
_MAX_REMEMBERED: Final = 10_000
_SUBJECT: Final = re.compile(r"[\x21-\x7e]{1,128}")
_NO_CHECKS: Final[Options] = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}
"""All of these are checked here, against the time of the request and the policy."""


class Issuer:
    """An issuer with the keys that it has at the moment; None until they could be read."""

    def __init__(self, settings: IssuerSettings, other_stores: frozenset[str]) -> None:
        self.settings = settings
        self.keys: KeySet | None = None
        self.unknown_key = False
        self._most = other_stores if settings.stores is None else frozenset(settings.stores)

    def limited(self, stores: frozenset[str] | None) -> frozenset[str]:
        """What of these stores its tokens may cover."""
        return self._most if stores is None else self._most & stores


@dataclass(frozen=True, slots=True)
class _Verified:
    grant: Grant
    not_before_s: float
    issuer: Issuer
    keys: KeySet


class _Refused(Exception):
    """The token grants nothing; the text says why, without a part of it."""


class JwtVerifier:
    """Verifies the tokens of all issuers of a policy."""

    def __init__(self, issuers: tuple[Issuer, ...]) -> None:
        self._issuers: Mapping[str, Issuer] = {i.settings.issuer: i for i in issuers}
        self._verified: dict[bytes, _Verified] = {}

    def verify(self, token: bytes, now_s: float) -> Grant | Problem:
        """What a token grants, or the 401 that says why it grants nothing."""
        digest = hashlib.sha256(token).digest()
        try:
            known = self._remembered(digest)
            if known is None:
                known = self._verify(token)
                self._remember(digest, known)
            if now_s < known.not_before_s:
                raise _Refused("is not valid yet (`nbf`); check the clocks")
            if known.grant.expired(now_s):
                raise _Refused("has expired (`exp`); get a new one")
        except _Refused as refused:
            return Problem(Code.UNAUTHENTICATED, f"the token {refused}")
        except _NoKeys as missing:
            text = f"the keys of {missing} could not be read yet: retry"
            return Problem(Code.BUSY, text, retry_after_s=2)
        return known.grant

    # --- what was verified before ---------------------------------------------------------------
    def _remembered(self, digest: bytes) -> _Verified | None:
        known = self._verified.get(digest)
        if known is None:
            return None
        if known.issuer.keys is known.keys:
            return known
        del self._verified[digest]
        return None

    def _remember(self, digest: bytes, verified: _Verified) -> None:
        if len(self._verified) >= _MAX_REMEMBERED:
            self._verified.pop(next(iter(self._verified)))
        self._verified[digest] = verified

    # --- the verdict ----------------------------------------------------------------------------
    def _verify(self, token: bytes) -> _Verified:
        if len(token) > _MAX_BYTES:
            raise _Refused(f"is longer than {_MAX_BYTES} bytes")
        try:
            told = jwt.decode_complete(token, options={"verify_signature": False})
        except jwt.PyJWTError:
            raise _Refused("is neither a known key nor a JSON Web Token") from None
        issuer = self._issuer(told["payload"].get("iss"))
        if issuer.keys is None:
            raise _NoKeys(issuer.settings.issuer)
        return self._signed(token, told["header"], issuer, issuer.keys)

    def _issuer(self, name: object) -> Issuer:
        issuer = self._issuers.get(name) if isinstance(name, str) else None
        if issuer is None:
            raise _Refused("is of an issuer (`iss`) that no [[auth.issuers]] names")
        return issuer

    def _signed(
        self, token: bytes, header: Mapping[str, Any], issuer: Issuer, keys: KeySet
    ) -> _Verified:
        settings = issuer.settings
        algorithm = header.get("alg")
        if algorithm not in settings.algorithms:
            listed = ", ".join(settings.algorithms)
            raise _Refused(f"is signed by an algorithm (`alg`) other than {listed}")
        if "crit" in header:
            raise _Refused("demands an extension (`crit`) that is not known here")
        key = keys.find(header.get("kid"), algorithm)
        if key is None:
            issuer.unknown_key = True
            raise _Refused("names a key (`kid`) that the issuer does not have for this `alg`")
        try:
            claims = jwt.decode(token, key.key, algorithms=[key.algorithm], options=_NO_CHECKS)
        except jwt.PyJWTError:
            raise _Refused("has a signature that does not hold") from None
        not_before_s = _not_before_s(claims, settings.leeway_s)
        return _Verified(_grant(claims, issuer), not_before_s, issuer, keys)


class _NoKeys(Exception):
    """The keys of this issuer are not there yet."""


def _grant(claims: Mapping[str, Any], issuer: Issuer) -> Grant:
    settings = issuer.settings
    audience = claims.get("aud")
    if settings.audience not in (audience if isinstance(audience, list) else [audience]):
        raise _Refused(f"is for another audience (`aud`) than {settings.audience}")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
        raise _Refused("needs a subject (`sub`) of 1 to 128 visible ASCII characters")
    expires_s = _seconds(claims, "exp")
    if expires_s is None:
        raise _Refused("needs an expiry (`exp`)")
    stores = _listed(claims, settings.stores_claim)
    methods = _listed(claims, settings.methods_claim)
    if methods is not None and not methods <= METHODS:
        raise _Refused(f"names a method in `{settings.methods_claim}` that is not known")
    return Grant(
        worker=f"jwt:{subject}",
        stores=issuer.limited(stores),
        scopes=_patterns(claims, settings.scopes_claim),
        methods=methods,
        expires_s=expires_s + settings.leeway_s,
    )


def _not_before_s(claims: Mapping[str, Any], leeway_s: float) -> float:
    not_before_s = _seconds(claims, "nbf")
    return -math.inf if not_before_s is None else not_before_s - leeway_s


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    """A NumericDate (RFC 7519, section 2)."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise _Refused(f"has a time (`{name}`) that is no number of seconds")
    return float(value)


def _patterns(claims: Mapping[str, Any], claim: str | None) -> tuple[ScopePattern, ...] | None:
    texts = _listed(claims, claim)
    try:
        return None if texts is None else tuple(map(scope_pattern, sorted(texts)))
    except ValueError:
        raise _Refused(f"has a scope in `{claim}` that is no pattern") from None


def _listed(claims: Mapping[str, Any], claim: str | None) -> frozenset[str] | None:
    """A claim that limits: None when the policy names none; missing or misshapen is refused."""
    if claim is None:
        return None
    value = claims.get(claim)
    texts = value.split(" ") if isinstance(value, str) else value
    if not isinstance(texts, list) or len(texts) > _MAX_LISTED:
        raise _Refused(f"needs the claim `{claim}`: a list of at most {_MAX_LISTED} texts")
    if not all(isinstance(text, str) and text for text in texts):
        raise _Refused(f"needs the claim `{claim}`: a list of texts")
    return frozenset(texts)
