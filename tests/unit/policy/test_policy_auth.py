"""Laws of `[auth]`: what is mistyped is told with file, line and what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.model.worker import secret_digest
from gateway.policy.load import PolicyError, loads

SECRET = "hidden-secret-of-a-key"
HASH = f"sha256:{secret_digest(SECRET).hex()}"
STORES = """
[stores.files]
type = "files"
root = "files"
"""
OBJECTS = """
[stores.objects]
type = "files"
dialect = "s3"
listen = "127.0.0.1:9000"
root = "objects"
buckets = ["demo"]
"""


def mistakes(keys: str, stores: str = STORES) -> str:
    with pytest.raises(PolicyError) as caught:
        loads(keys + stores, name="p.toml", environ={"S": SECRET})
    text = str(caught.value)
    assert SECRET not in text
    assert HASH not in text
    return text


def key(rest: str, secret: str = f'secret_hash = "{HASH}"') -> str:
    return f'[[auth.keys]]\nid = "w"\n{secret}\n{rest}\n'


@pytest.mark.parametrize(
    "text, told",
    [
        (key("expire = 2027-01-31T00:00:00Z"), "p.toml:4: auth.keys[0].expire: there is no such key"
         " here (did you mean expires?)"),
        (key('stores = ["fils"]'), 'p.toml:4: auth.keys[0].stores[0]: there is no store "fils" (did'
         " you mean files?)"),
        (key('methods = ["PUTT"]'), 'there is no method "PUTT" (did you mean PUT?)'),
        (key('methods = ["put"]'), 'there is no method "put" (did you mean PUT?)'),
        (key('scopes = ["reports/*"]'), "p.toml:4: auth.keys[0].scopes[0]: "
         '"reports/*": write {name} for one segment'),
        (key('scopes = ["fils:{x*}"]'), 'there is no store "fils" (did you mean files?)'),
        (key('scopes = ["/files/a"]'), 'a scope does not start with "/"'),
        (key("scopes = []"), "covers nothing"),
        (key("expires = 2027-01-31"), "expected a time with its offset"),
        (key('expires = "2027-01-31T00:00:00Z"'), "without quotes: 2027-01-31T00:00:00Z"),
        (key("", f'secret_hash = "{HASH[:-1]}"'), 'expected "sha256:" and 64 hex digits'),
        (key("", ""), "auth.keys[0].secret_hash: is required (or secret, or secret_file)"),
        (key('secret = "${S}"'), "auth.keys[0].secret: is set beside secret_hash"),
        (key("", 'secret_file = "nowhere"'), "cannot be read: No such file"),
        (key("") + key("", 'secret = "${S}"').replace('"w"', '"v"'), "is another key's already"),
    ],
)  # fmt: skip
def test_mistakes(text: str, told: str) -> None:
    """Every one by file, line, key and the nearest valid name, and without the secret."""
    assert told in mistakes(text)


def test_s3_needs_the_secret_itself() -> None:
    """SigV4 clients do not send their secret, so a hash cannot verify them: told at the start."""
    assert "store objects speaks s3, whose signatures need the secret itself" in mistakes(
        key(""), STORES + OBJECTS
    )
    both = key('stores = ["files"]') + key("", 'secret = "${S}2"').replace('"w"', '"v"')
    policy = loads(both + STORES + OBJECTS, environ={"S": SECRET})
    assert [k.id for k in policy.worker_keys("objects")] == ["v"]


def test_what_a_key_becomes(tmp_path: Path) -> None:
    """A secret from a file is the secret; limits and expiry arrive as they were written."""
    (tmp_path / "worker").write_text(f"{SECRET}\n")
    text = key(
        'scopes = ["a/{x}"]\nmethods = ["PUT"]\nexpires = 1970-01-01T01:00:10+01:00',
        'secret_file = "worker"',
    )
    (made,) = loads(f'[server]\ndata_dir = "{tmp_path}"\n' + text + STORES).worker_keys("files")
    assert (made.secret, made.digest) == (SECRET, secret_digest(SECRET))
    assert made.grant.expired(10.0)
    assert not made.grant.expired(9.9)
    assert made.grant.covers("a/b")
    assert not made.grant.covers("b/b")
    assert not made.grant.allows("GET")
    assert SECRET not in repr(made)
