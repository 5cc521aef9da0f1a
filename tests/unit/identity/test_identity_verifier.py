"""Laws of JSON Web Tokens: what is let in, and every known way to be let in wrongly (RFC 8725)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.identity.key_set import read_key_set
from gateway.identity.verifier import Issuer, JwtVerifier
from gateway.model.problem import Code, Problem
from gateway.model.worker import Grant
from gateway.policy.issuer_settings import IssuerSettings
from gateway.ports.identity import UnusableKeys
from tests.services.token_issuer import AUDIENCE, ISSUER, TokenIssuer, jwk_of, new_key

NOW_S = 1_800_000_000.0
MINE = TokenIssuer()
THEIRS = TokenIssuer()


def settings(**changes: Any) -> IssuerSettings:
    given = {"issuer": ISSUER, "audience": AUDIENCE, "jwks_file": "x"} | changes
    return IssuerSettings(**given)


def issuer_of(keys: bytes | None = None, **changes: Any) -> Issuer:
    issuer = Issuer(settings(**changes), frozenset({"files", "db"}))
    issuer.keys = read_key_set(keys or MINE.key_set())
    return issuer


def verdict(token: str, now_s: float = NOW_S, **changes: Any) -> Grant | Problem:
    return JwtVerifier((issuer_of(**changes),)).verify(token.encode(), now_s)


def refusal(token: str, now_s: float = NOW_S, **changes: Any) -> str:
    problem = verdict(token, now_s, **changes)
    assert isinstance(problem, Problem), problem
    assert (problem.code, problem.status) == (Code.UNAUTHENTICATED, 401)
    for part in token.split("."):
        assert not part or part not in problem.message
    return problem.message


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_let_in(algorithm: str) -> None:
    """Each algorithm; with the key named, or as the only one of its kind."""
    for header in ({}, {"kid": None}):
        grant = verdict(MINE.token(algorithm, header=header))
        assert isinstance(grant, Grant), grant
        assert (grant.worker, grant.stores) == ("jwt:w", frozenset({"files", "db"}))
        assert (grant.scopes, grant.methods) == (None, None)


BAD = {
    "another's signature": (THEIRS.token("ES256"), "signature"),
    "another's signature, RSA": (THEIRS.token("RS256"), "signature"),
    "no signature": (MINE.token().rpartition(".")[0] + ".", "signature"),
    "HMAC under the public key": (
        MINE.confused({"alg": "HS256", "kid": "RS256"}, MINE.public_pem("RS256")),
        "`alg`",
    ),
    "HMAC that calls itself RS256": (
        MINE.confused({"alg": "RS256", "kid": "RS256"}, MINE.public_pem("RS256")),
        "signature",
    ),
    "alg none": (MINE.confused({"alg": "none"}, b"k").rpartition(".")[0] + ".", "`alg`"),
    "alg of another key": (MINE.token("ES256", header={"kid": "RS256"}), "`kid`"),
    "unknown key": (MINE.token(header={"kid": "new"}), "`kid`"),
    "critical extension": (MINE.token(header={"crit": ["x"], "x": 1}), ""),
    "another issuer": (MINE.token(iss="https://other"), "`iss`"),
    "issuer as a list": (MINE.token(iss=[ISSUER]), "`iss`"),
    "no issuer": (MINE.token(iss=None), "`iss`"),
    "another audience": (MINE.token(aud="other"), "`aud`"),
    "no audience": (MINE.token(aud=None), "`aud`"),
    "part of the audience": (MINE.token(aud=f"{AUDIENCE}2"), "`aud`"),
    "no expiry": (MINE.token(exp=None), "`exp`"),
    "endless expiry": (MINE.token(exp=1e300), "`exp`"),
    "expired": (MINE.token(exp=NOW_S - 31), "expired"),
    "not yet": (MINE.token(nbf=NOW_S + 31), "not valid yet"),
    "no subject": (MINE.token(sub=None), "`sub`"),
    "a subject that breaks lines": (MINE.token(sub="a\nb"), "`sub`"),
    "no token": ("aaaa1.bbbb1.cccc1", "neither a known key nor"),
    "too long": (MINE.token(more="x" * 9_000), "longer than"),
}


@pytest.mark.parametrize("case", BAD)
def test_kept_out(case: str) -> None:
    """Confused algorithms, foreign claims, other times: 401, and nothing is repeated."""
    token, told = BAD[case]
    assert told in refusal(token)


def test_the_time_of_the_request_counts_with_leeway() -> None:
    """Exactly: the last moment is before exp + leeway, the first is nbf - leeway."""
    token = MINE.token(exp=NOW_S, nbf=NOW_S - 100)
    verifier = JwtVerifier((issuer_of(leeway_s=10),))
    for now_s, let_in in ((-111, False), (-110, True), (9.9, True), (10, False)):
        found = verifier.verify(token.encode(), NOW_S + now_s)  # remembered, yet judged anew
        assert isinstance(found, Grant) is let_in, now_s


def test_algorithms_can_be_fewer() -> None:
    """A key that is there does not let in by an algorithm that the policy leaves out."""
    assert "other than ES256" in refusal(MINE.token("RS256"), algorithms=("ES256",))


def test_claims_limit() -> None:
    """Stores, scopes and methods come from claims; lists, or texts with spaces."""
    named = {"stores_claim": "st", "scopes_claim": "sc", "methods_claim": "me"}
    grant = verdict(MINE.token(st="files objects", sc=["reports/{x}"], me=["GET"]), **named)
    assert isinstance(grant, Grant)
    assert grant.stores == frozenset({"files"})  # never more than the policy's
    assert grant.covers("reports/a")
    assert not grant.covers("other/a")
    assert not grant.allows("PUT")


@pytest.mark.parametrize("claims", [{}, {"st": 5}, {"st": [""]}, {"st": ["a", 1]}, {"st": None}])
def test_a_limit_that_is_missing_is_no_permission(claims: dict[str, Any]) -> None:
    """Once the policy names a claim, a token without it grants nothing."""
    assert "`st`" in refusal(MINE.token(**claims), stores_claim="st")


def test_a_bad_pattern_or_method_grants_nothing() -> None:
    """What cannot be understood is not left out: it might have been the limit."""
    assert "`sc`" in refusal(MINE.token(sc=["a*"]), scopes_claim="sc")
    assert "`me`" in refusal(MINE.token(me=["get"]), methods_claim="me")


def test_a_withdrawn_key_ends_what_was_remembered() -> None:
    """A token that was verified before is verified again when the keys change."""
    issuer = issuer_of()
    verifier = JwtVerifier((issuer,))
    token = MINE.token("ES256").encode()
    assert isinstance(verifier.verify(token, NOW_S), Grant)
    issuer.keys = read_key_set(MINE.key_set("RS256"))
    assert isinstance(verifier.verify(token, NOW_S), Problem)
    assert issuer.unknown_key  # whoever fetches keys is told
    issuer.keys = None
    waiting = verifier.verify(token, NOW_S)
    assert isinstance(waiting, Problem)
    assert (waiting.code, waiting.retry_after_s) == (Code.BUSY, 2)


def test_issuers_do_not_vouch_for_each_other() -> None:
    """A token in one issuer's name is verified with that issuer's keys alone."""
    other = Issuer(settings(issuer="https://other"), frozenset({"files"}))
    other.keys = read_key_set(THEIRS.key_set())
    verifier = JwtVerifier((issuer_of(), other))
    assert isinstance(verifier.verify(THEIRS.token(iss="https://other").encode(), NOW_S), Grant)
    assert isinstance(verifier.verify(THEIRS.token().encode(), NOW_S), Problem)
    assert isinstance(verifier.verify(MINE.token(iss="https://other").encode(), NOW_S), Problem)


def test_key_sets_take_what_can_verify() -> None:
    """Symmetric, small, foreign and encryption keys are left out; a private one is an error."""
    good = jwk_of(MINE.keys["ES256"], "ES256", "good")
    left_out = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "s", "alg": "HS256"},
        {**jwk_of(MINE.keys["RS256"], "RS256", "e"), "use": "enc"},
        {**jwk_of(MINE.keys["RS256"], "RS256", "h"), "alg": "HS256"},
        {**good, "kid": "c", "crv": "P-384"},
        {**good, "kid": "x", "x": "AAAA"},
        "text",
    ]
    found = read_key_set(json.dumps({"keys": [*left_out, good]}).encode())
    assert [(key.id, key.algorithm) for key in found.keys] == [("good", "ES256")]
    for raw in (b"", b"[]", b"{}", json.dumps({"keys": left_out}).encode()):
        with pytest.raises(UnusableKeys):
            read_key_set(raw)
    private = json.dumps({"keys": [{**good, "d": "AAAA"}]}).encode()
    with pytest.raises(UnusableKeys, match="private key"):
        read_key_set(private)


def test_two_keys_of_one_name_verify_nothing() -> None:
    """Which of them was meant is not guessed."""
    twice = [jwk_of(new_key("ES256"), "ES256", "a"), jwk_of(MINE.keys["ES256"], "ES256", "a")]
    keys = json.dumps({"keys": twice}).encode()
    assert "`kid`" in refusal(MINE.token(header={"kid": "a"}), keys=keys)
