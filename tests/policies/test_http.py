"""The decision table of policies/http.toml: a lease per database, and one per directory."""

from __future__ import annotations

import pytest

from gateway.policy.document import HttpSettings
from gateway.policy.load import load
from gateway.policy.strict import doubts
from tests.policies.decision_table import POLICIES, answer

ENVIRON = {"COUCHDB_AUTHORIZATION": "Basic aGlkZGVu"}

TABLE = [
    ("couch PUT /couch/orders/1", 2, True, "enforce couch/orders"),
    ("couch PUT /couch/orders/1", None, True, "fence_token_required"),
    ("couch POST /couch/orders/_bulk_docs", 2, True, "enforce couch/orders"),
    ("couch POST /couch/orders", 2, True, "enforce couch/orders"),
    ("couch DELETE /couch/orders", 2, True, "enforce couch/orders"),
    ("couch DELETE /couch/orders/", 2, False, "enforce couch/orders"),
    ("couch DELETE /couch/", 2, False, "fence_scope_undetermined"),
    ("couch GET /couch/orders/1", None, True, "enforce couch/orders"),
    ("couch POST /couch/_replicate", 2, True, "enforce couch/_replicate"),
    ("dav PUT /dav/red/a/b.txt", 2, True, "enforce dav/red"),
    ("dav MKCOL /dav/red/a/", 2, True, "enforce dav/red"),
    ("dav DELETE /dav/red/a/", 2, False, "enforce dav/red"),
    ("dav DELETE /dav/", 2, False, "fence_scope_undetermined"),
    ("dav PUT /dav/top.txt", 2, True, "enforce dav:top.txt"),
]


@pytest.mark.parametrize("line, token, exact, told", TABLE)
def test_http_decides(line: str, token: int | None, exact: bool, told: str) -> None:
    """What changes together has one scope; a whole tree is deleted in one scope or not at all."""
    policy = load([POLICIES / "http.toml"], environ=ENVIRON)
    assert answer(policy, line, token, exact=exact) == told


def test_http_serves_what_it_says() -> None:
    """CouchDB with conditions and the gateway's credentials, WebDAV without either."""
    policy = load([POLICIES / "http.toml"], environ=ENVIRON)
    couch, dav = policy.stores["couch"], policy.stores["dav"]
    assert isinstance(couch, HttpSettings)
    assert isinstance(dav, HttpSettings)
    assert (couch.conditions, couch.authorization) == ("etag", "Basic aGlkZGVu")
    assert (dav.conditions, dav.authorization, dav.settle_ms) == ("none", None, 10_000)
    assert (couch.mount, dav.mount) == ("/couch", "/dav")
    assert "aGlkZGVu" not in repr(policy)


def test_http_leaves_no_doubt() -> None:
    """`check --strict` finds no path without a rule, and no rules that overlap."""
    assert list(doubts(load([POLICIES / "http.toml"], environ=ENVIRON))) == []
