"""Laws of a changed policy: what derives scopes differently is told, and nothing else is."""

from __future__ import annotations

import pytest

from gateway.policy.document import PolicySet
from gateway.policy.load import loads
from gateway.policy.rescope import changed_rules, derivation, needs_start, rescoped

BASE = """
[stores.files]
type = "files"
root = "files"
[[rules]]
match = "/files/a/{x*}"
scope = "a"
[[rules]]
match = "/files/{x*}"
mode = "shadow"
"""


def changes(new: str, old: str = BASE) -> tuple[str, ...]:
    before, after = loads(old), loads(new)
    return rescoped(of(before), of(after))


def of(policy: PolicySet) -> dict[str, object]:
    return derivation(policy.stores, policy.rules)


@pytest.mark.parametrize(
    "old, new, told",
    [
        ('scope = "a"', 'scope = "b"', "rules[0] has another scope"),
        ("/files/a/{x*}", "/files/b/{x*}", "rules[0] has another match"),
        ('scope = "a"', 'mode = "off"', "rules[0] has another scope and mode"),
        ('scope = "a"', 'scope = "a"\nmode = "shadow"', "rules[0] has another mode"),
        ('root = "files"', 'root = "files"\nmount = "/files/a"', "stores.files is another store"),
        ("[stores.files]", '[stores.renamed]\nmount = "/files"', "stores.files went"),
        ('root = "files"', 'root = "other"', "stores.files is another store than before: place"),
        ("[[rules]]\nmatch", '[[rules]]\nmatch = "/files/z"\n[[rules]]\nmatch', "rules[2] came"),
    ],
)
def test_what_gives_resources_other_scopes_is_told(old: str, new: str, told: str) -> None:
    """Scope, match, fewer that are fenced, another place of a store, a rule before others."""
    assert any(told in change for change in changes(BASE.replace(old, new, 1)))


@pytest.mark.parametrize(
    "old, new",
    [
        ('scope = "a"', 'scope = "a"\nmax_jump = 5\nreads = "seal"\nmethods = ["GET", "PUT"]'),
        ('mode = "shadow"', 'mode = "enforce"'),
        ("[[rules]]", '[stores.more]\ntype = "files"\nroot = "more"\n[[rules]]'),
    ],
)
def test_what_keeps_all_scopes_is_not(old: str, new: str) -> None:
    """Bounds, a rule that begins to fence, and a further store: nobody is compared elsewhere."""
    assert changes(BASE.replace(old, new, 1)) == ()


POSTGRES = """
[stores.rows]
type = "postgres"
dsn = "postgresql://u:first@db:5432/app?sslmode=require"
[stores.rows.tables.t]
"""


def test_the_place_of_a_database_is_the_server_and_the_database() -> None:
    """Another password is no other place; another database or schema is. None is kept readable."""
    assert changes(POSTGRES.replace("u:first", "v:second"), POSTGRES) == ()
    told = ("stores.rows is another store than before: place",)
    assert changes(POSTGRES.replace("/app", "/other"), POSTGRES) == told
    assert (
        changes(POSTGRES.replace("[stores.rows.t", 'schema = "s"\n[stores.rows.t'), POSTGRES)
        == told
    )
    assert "first" not in str(of(loads(POSTGRES)))


def test_the_place_of_a_mariadb_is_the_server_and_the_database() -> None:
    """As of PostgreSQL: who connects, and how, is no part of it."""
    text = POSTGRES.replace('"postgres"', '"mariadb"').replace("postgresql:", "mariadb:")
    text = text.replace("?sslmode=require", "")
    assert changes(text.replace("u:first", "v:second"), text) == ()
    assert changes(text.replace("/app", "/other"), text) != ()


def test_what_an_earlier_release_kept_is_compared_as_far_as_it_goes() -> None:
    """It knew no places: an upgrade is no rescope, another mount is."""
    kept = {"stores": {"files": ["files", "http", "/files"]}, "rules": of(loads(BASE))["rules"]}
    assert rescoped(kept, of(loads(BASE))) == ()
    kept["stores"] = {"files": ["files", "http", "/elsewhere"]}
    assert rescoped(kept, of(loads(BASE))) == ("stores.files is another store than before: mount",)


def test_the_digest_does_not_know_places() -> None:
    """Replicas that reach the same data by different paths work side by side."""
    moved = loads(BASE.replace('root = "files"', 'root = "/mnt/files"'))
    assert moved.digest == loads(BASE).digest


def test_sections_that_need_a_start_are_named() -> None:
    """Rules are exchanged under way, everything else is not."""
    old = loads(BASE)
    assert needs_start(old, loads(BASE.replace('scope = "a"', 'scope = "b"'))) == ()
    assert needs_start(old, loads('[server]\nlisten = "127.0.0.1:1"\n' + BASE)) == ("server",)


def test_each_changed_rule_is_told_with_its_place() -> None:
    """The line is that of the new file; a rule that only moved is not told."""
    new = loads("\n" + BASE.replace('scope = "a"', 'scope = "a"\nmax_jump = 5'))
    assert changed_rules(loads(BASE), new) == ("rules[0] has another max_jump (policy:6)",)
