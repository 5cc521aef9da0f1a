"""Laws of signed tokens: one number, one scope, one issuer, for a time; nothing else passes."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from gateway.engine.signatures import Signatures
from gateway.model.mark import Scope
from gateway.model.object_action import DeleteObject
from gateway.model.operation import Kind, Operation
from gateway.model.problem import Code, Problem
from gateway.model.resource import Resource
from gateway.model.signed_token import Flaw, Proved, key_id, prove, sign
from gateway.model.token import MAX_TOKEN, Malformed, SignedToken, Token, parse_token
from gateway.policy.decide import Permit
from gateway.policy.document import Mode, Reads
from gateway.policy.rule_settings import RuleSettings

ISSUER, NEXT, STRANGER = (Ed25519PrivateKey.generate() for _ in range(3))
KEYS = {key_id(k.public_key()): k.public_key() for k in (ISSUER, NEXT)}
SCOPE = Scope("reports/eu")
RULE = RuleSettings(match="/files/{x*}", signed=True)
LAX = RuleSettings(match="/files/{x*}")


def parsed(text: str) -> SignedToken:
    token = parse_token([text.encode()])
    assert isinstance(token, SignedToken), token
    return token


def judge(text: str, scope: str = SCOPE, now_s: float = 0) -> Proved | Flaw:
    token = parsed(text)
    return prove(int(token), token.proof, scope, KEYS, now_s)


def test_what_the_issuer_signed_holds() -> None:
    """Also for the largest token, and with either key of a rotation."""
    for key in (ISSUER, NEXT):
        for token in (1, 7, MAX_TOKEN):
            text = sign(token, SCOPE, key)
            assert judge(text) == Proved(None)
            assert len(text) - len(str(token)) == 121


def test_each_flaw_is_told_apart() -> None:
    """A stranger's key, another number, another scope, a time that is over."""
    text = sign(7, SCOPE, ISSUER, expires_s=100)
    assert judge(text, now_s=99.9) == Proved(100)
    assert judge(text, now_s=100) is Flaw.EXPIRED
    assert judge(text, "reports/us", 99) is Flaw.OTHER_SCOPE
    assert judge("8" + text[1:]) is Flaw.FORGED
    assert judge(sign(7, SCOPE, STRANGER)) is Flaw.FORGED
    assert judge(sign(7, "reports/us", STRANGER)) is Flaw.FORGED, "no oracle for strangers"


@given(st.integers(0, 719), st.integers(1, MAX_TOKEN))
def test_no_bit_can_be_changed(bit: int, token: int) -> None:
    """Version, key id, time, scope and signature are all bound."""
    text = sign(token, SCOPE, ISSUER, expires_s=100)
    number, _, proof = text.partition(".")
    raw = bytearray(base64.urlsafe_b64decode(proof + "=" * (-len(proof) % 4)))
    raw[bit // 8] ^= 1 << bit % 8
    changed = base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=")
    assert judge(f"{number}.{changed}") is Flaw.FORGED


@given(st.text("ABCxyz019-_", min_size=22, max_size=256))
def test_whatever_looks_like_a_signature_is_judged(proof: str) -> None:
    """Any length, any content: forged, never a crash."""
    assert judge(f"7.{proof}") is Flaw.FORGED


@pytest.mark.parametrize(
    "text",
    [
        *("7.", "7.abc", "7." + "a" * 21, "7." + "a" * 257, "7.a+b/" + "a" * 30),
        *("7.." + "a" * 30, "07." + "a" * 30, "." + "a" * 30, "7." + "a" * 30 + "="),
        "7 ." + "a" * 30,
    ],
)
def test_other_forms_are_malformed(text: str) -> None:
    """Wire contract: anything else behind the digits is malformed, never taken as bare digits."""
    assert isinstance(parse_token([text.encode()]), Malformed)


def test_a_signed_token_is_its_number() -> None:
    """Whatever compares, stores or prints it sees the number alone."""
    token = parsed(sign(7, SCOPE, ISSUER))
    assert (token == 7, hash(token) == hash(7), str(token), f"{token}") == (True, True, "7", "7")


def test_a_proof_has_one_spelling() -> None:
    """Spare bits of the last character must be nought, so that no proof has two texts."""
    raw = base64.urlsafe_b64encode(bytes(89)).decode().rstrip("=")
    assert judge("7." + raw[:-1] + "B") is Flaw.FORGED


@dataclass
class Wall:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def outcome(
    token: Token | None, rule: RuleSettings, signatures: Signatures, mode: Mode = Mode.ENFORCE
) -> Code | None:
    """The code that a delete with this token is refused with, or would be."""
    operation = Operation(
        Resource("files", "x"), "/files/x", Kind.DELETE, "DELETE", DeleteObject("files", "x"), token
    )
    found = signatures.judged(operation, Permit(SCOPE, mode, Reads.CHECK, rule))
    if isinstance(found, Problem):
        return found.code
    return None if found.would_be is None else found.would_be.code


def test_a_rule_demands_and_a_signature_is_always_checked() -> None:
    """`signed` refuses bare digits; a signature that is there must hold under every rule."""
    signatures = Signatures(KEYS, Wall())
    good, bad = (Token(parsed(sign(7, SCOPE, key))) for key in (ISSUER, STRANGER))
    assert outcome(good, RULE, signatures) is None
    assert outcome(good, LAX, signatures) is None
    assert outcome(Token(7), LAX, signatures) is None
    assert outcome(Token(7), RULE, signatures) is Code.TOKEN_UNSIGNED
    assert outcome(bad, RULE, signatures) is Code.TOKEN_FORGED
    assert outcome(bad, LAX, signatures) is Code.TOKEN_FORGED
    elsewhere = Token(parsed(sign(7, "reports/us", ISSUER)))
    assert outcome(elsewhere, RULE, signatures) is Code.TOKEN_OTHER_SCOPE
    assert outcome(good, LAX, Signatures({}, Wall())) is Code.TOKEN_MALFORMED


def test_what_was_remembered_still_expires() -> None:
    """A holder's signature is checked once, and its time at every request."""
    wall = Wall(99)
    signatures = Signatures(KEYS, wall)
    token = Token(parsed(sign(7, SCOPE, ISSUER, expires_s=100)))
    assert outcome(token, RULE, signatures) is None
    assert outcome(token, RULE, signatures) is None
    wall.now_s = 100
    assert outcome(token, RULE, signatures) is Code.TOKEN_EXPIRED


def test_what_is_remembered_is_bound_to_number_and_scope() -> None:
    """The same proof behind another number is no proof, however often the right one was seen."""
    signatures = Signatures(KEYS, Wall())
    good = parsed(sign(7, SCOPE, ISSUER))
    assert outcome(Token(good), RULE, signatures) is None
    assert outcome(Token(SignedToken(8, good.proof)), RULE, signatures) is Code.TOKEN_FORGED


def test_shadow_tells_and_refuses_nothing() -> None:
    """An operator sees what signatures would refuse before the rule enforces them."""
    signatures = Signatures(KEYS, Wall())
    assert outcome(Token(7), RULE, signatures, Mode.SHADOW) is Code.TOKEN_UNSIGNED
