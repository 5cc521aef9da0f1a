"""What a reload says of keys: each one by its name, and nothing of what it holds."""

from __future__ import annotations

from gateway.policy.changed_keys import changed_keys
from gateway.policy.load import loads

BASE = """
[stores.files]
type = "files"
root = "files"
"""
KEY = '[[auth.keys]]\nid = "{}"\nsecret = "{}"\n'
ISSUER = '[[auth.issuers]]\nissuer = "https://a"\naudience = "{}"\njwks_file = "keys.json"\n'


def told(old: str, new: str) -> tuple[str, ...]:
    return changed_keys(loads(BASE + old), loads(BASE + new))


def test_keys_that_come_go_and_change() -> None:
    """By their names, in the order of the file; moved ones are not told."""
    old = KEY.format("a", "secret-of-a") + KEY.format("b", "secret-of-b")
    new = KEY.format("c", "secret-of-c") + KEY.format("b", "another-secret") + 'methods = ["GET"]\n'
    assert told(old, new) == (
        "auth.keys a went",
        "auth.keys b has another secret and methods",
        "auth.keys c came",
    )
    turned = KEY.format("b", "secret-of-b") + KEY.format("a", "secret-of-a")
    assert told(old, turned) == ()


def test_no_secret_is_told() -> None:
    """Whatever changed: neither the old secret nor the new one."""
    text = repr(told(KEY.format("a", "secret-of-a"), KEY.format("a", "another-secret")))
    assert "another secret" in text
    assert "secret-of-a" not in text
    assert "another-secret" not in text


def test_issuers_are_told_by_their_names() -> None:
    """An issuer has no id of its own."""
    changed = told(ISSUER.format("x"), ISSUER.format("y"))
    assert changed == ("auth.issuers https://a has another audience",)
